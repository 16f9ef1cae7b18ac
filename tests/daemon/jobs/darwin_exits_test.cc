// Ends on macOS: each is told once and of the right process, whatever happens between two calls.
#include "daemon/jobs/darwin_exits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/daemon/jobs/fake_darwin_kernel.h"

namespace stageload::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class DarwinExitsTest : public ::testing::Test {
 protected:
  absl::Status Watch(const core::ProcessIdentity& identity) {
    return exits_.Watch(
        identity, [this](const core::ProcessIdentity& asked) { return kernel_.Exists(asked); });
  }
  // All that have been told until now.
  std::vector<core::ProcessIdentity> Told() {
    while (kernel_.HasInput()) exits_.Handle();
    return told_;
  }

  FakeDarwinKernel kernel_;
  std::vector<core::ProcessIdentity> told_;
  DarwinExits exits_{kernel_,
                     [this](const core::ProcessIdentity& ended) { told_.push_back(ended); }};
};

TEST_F(DarwinExitsTest, TheEndOfWhoIsNoChildIsTold) {
  const core::ProcessIdentity process = kernel_.Start(70, 5000);
  ASSERT_TRUE(Watch(process).ok());
  kernel_.End(70);
  EXPECT_THAT(Told(), ElementsAre(process));
  EXPECT_THAT(kernel_.reaped, IsEmpty());
}

TEST_F(DarwinExitsTest, AChildIsReapedBeforeItsEndIsTold) {
  const core::ProcessIdentity child = kernel_.Start(70, 5000, true);
  ASSERT_TRUE(Watch(child).ok());
  kernel_.End(70);
  EXPECT_THAT(Told(), ElementsAre(child));
  EXPECT_THAT(kernel_.reaped, ElementsAre(70));
}

TEST_F(DarwinExitsTest, AZombieIsToldAndReaped) {
  const core::ProcessIdentity child = kernel_.Start(70, 5000, true);
  kernel_.End(70);
  ASSERT_TRUE(Watch(child).ok());
  EXPECT_THAT(Told(), ElementsAre(child));
  EXPECT_THAT(kernel_.reaped, ElementsAre(70));
}

TEST_F(DarwinExitsTest, WhoIsGoneIsNotFoundAndNotTold) {
  EXPECT_EQ(Watch({.pid = 70, .start = 5000}).code(), absl::StatusCode::kNotFound);
  kernel_.Start(70, 6000);
  EXPECT_EQ(Watch({.pid = 70, .start = 5000}).code(), absl::StatusCode::kNotFound);
  kernel_.End(70);
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(DarwinExitsTest, AChildThatEndsBeforeTheLookIsReapedAndNotTold) {
  const core::ProcessIdentity child = kernel_.Start(70, 5000, true);
  const absl::Status status = exits_.Watch(child, [this](const core::ProcessIdentity&) {
    kernel_.End(70);
    return false;
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Told(), IsEmpty());
  EXPECT_THAT(kernel_.reaped, ElementsAre(70));
}

TEST_F(DarwinExitsTest, WhoIsWatchedTwiceIsToldOnce) {
  const core::ProcessIdentity process = kernel_.Start(70, 5000);
  ASSERT_TRUE(Watch(process).ok());
  ASSERT_TRUE(Watch(process).ok());
  kernel_.End(70);
  EXPECT_THAT(Told(), ElementsAre(process));
}

// The end of the first lies in the kernel's queue when the second is watched.
TEST_F(DarwinExitsTest, TwoThatHaveHadOnePidAreBothTold) {
  const core::ProcessIdentity first = kernel_.Start(70, 5000);
  ASSERT_TRUE(Watch(first).ok());
  kernel_.End(70);
  const core::ProcessIdentity second = kernel_.Start(70, 6000);
  ASSERT_TRUE(Watch(second).ok());
  EXPECT_THAT(Told(), ElementsAre(first));
  kernel_.End(70);
  EXPECT_THAT(Told(), ElementsAre(first, second));
}

// The kernel has one note a pid, and it was attached to the first.
TEST_F(DarwinExitsTest, ThePidThatIsUsedAgainIsWatchedAnew) {
  const core::ProcessIdentity first = kernel_.Start(70, 5000);
  ASSERT_TRUE(Watch(first).ok());
  const core::ProcessIdentity second = kernel_.Start(70, 6000);
  ASSERT_TRUE(Watch(second).ok());
  kernel_.End(70);
  EXPECT_THAT(Told(), UnorderedElementsAre(first, second));
}

TEST_F(DarwinExitsTest, AskingForWhoHadThePidBeforeDisturbsNobody) {
  const core::ProcessIdentity process = kernel_.Start(70, 5000);
  ASSERT_TRUE(Watch(process).ok());
  EXPECT_EQ(Watch({.pid = 70, .start = 4000}).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Told(), IsEmpty());
  kernel_.End(70);
  EXPECT_THAT(Told(), ElementsAre(process));
}

// One that lives must not be waited for.
TEST_F(DarwinExitsTest, AChildThatWasOnceNotFoundCanBeWatched) {
  const core::ProcessIdentity process = kernel_.Start(70, 5000, true);
  EXPECT_EQ(exits_.Watch(process, [](const core::ProcessIdentity&) { return false; }).code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(Watch(process).ok());
  kernel_.End(70);
  EXPECT_THAT(Told(), ElementsAre(process));
}

TEST_F(DarwinExitsTest, AKernelThatHasNoRoomSaysSo) {
  const core::ProcessIdentity process = kernel_.Start(70, 5000);
  kernel_.attach_error = ENOMEM;
  EXPECT_EQ(Watch(process).code(), absl::StatusCode::kResourceExhausted);
  kernel_.attach_error = EINVAL;
  const absl::Status status = Watch(process);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("watch process 70"));
}

}  // namespace
}  // namespace stageload::jobs
