// Ends on macOS: each is told once and of the right process, whatever happens between two calls.
#include "daemon/jobs/darwin_exits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>
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
  DarwinExitsTest()
      : exits_(kernel_, [this](const core::ProcessIdentity& identity) {
          const std::lock_guard<std::mutex> lock(mutex_);
          told_.push_back(identity);
          changed_.notify_all();
        }) {}
  ~DarwinExitsTest() override { Stop(); }

  void Run() {
    thread_ = std::thread([this] { exits_.Run(); });
  }
  void Stop() {
    exits_.Stop();
    if (thread_.joinable()) thread_.join();
  }
  absl::Status Watch(const core::ProcessIdentity& identity) {
    return exits_.Watch(
        identity, [this](const core::ProcessIdentity& asked) { return kernel_.Exists(asked); });
  }
  std::vector<core::ProcessIdentity> Told(std::size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return told_.size() >= count; });
    return told_;
  }
  // By the end of another process, since ends are told in turn.
  std::vector<core::ProcessIdentity> ToldUntilNow() {
    const core::ProcessIdentity last = kernel_.Start(9999, 9999);
    EXPECT_TRUE(Watch(last).ok());
    kernel_.End(9999);
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30),
                      [&] { return !told_.empty() && told_.back() == last; });
    std::vector<core::ProcessIdentity> told = told_;
    if (!told.empty()) told.pop_back();
    return told;
  }

  FakeDarwinKernel kernel_;
  DarwinExits exits_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<core::ProcessIdentity> told_;
};

TEST_F(DarwinExitsTest, TheEndOfWhoIsNoChildIsTold) {
  Run();
  const core::ProcessIdentity process = kernel_.Start(70, 5000);
  ASSERT_TRUE(Watch(process).ok());
  kernel_.End(70);
  EXPECT_THAT(Told(1), ElementsAre(process));
  EXPECT_THAT(kernel_.reaped, IsEmpty());
}

TEST_F(DarwinExitsTest, AChildIsReapedBeforeItsEndIsTold) {
  Run();
  const core::ProcessIdentity child = kernel_.Start(70, 5000, true);
  ASSERT_TRUE(Watch(child).ok());
  kernel_.End(70);
  EXPECT_THAT(Told(1), ElementsAre(child));
  EXPECT_THAT(kernel_.reaped, ElementsAre(70));
}

TEST_F(DarwinExitsTest, AZombieIsToldAndReaped) {
  Run();
  const core::ProcessIdentity child = kernel_.Start(70, 5000, true);
  kernel_.End(70);
  ASSERT_TRUE(Watch(child).ok());
  EXPECT_THAT(Told(1), ElementsAre(child));
  EXPECT_THAT(kernel_.reaped, ElementsAre(70));
}

TEST_F(DarwinExitsTest, WhoIsGoneIsNotFoundAndNotTold) {
  Run();
  EXPECT_EQ(Watch({.pid = 70, .start = 5000}).code(), absl::StatusCode::kNotFound);
  kernel_.Start(70, 6000);
  EXPECT_EQ(Watch({.pid = 70, .start = 5000}).code(), absl::StatusCode::kNotFound);
  kernel_.End(70);
  EXPECT_THAT(ToldUntilNow(), IsEmpty());
}

TEST_F(DarwinExitsTest, AChildThatEndsBeforeTheLookIsReapedAndNotTold) {
  Run();
  const core::ProcessIdentity child = kernel_.Start(70, 5000, true);
  const absl::Status status = exits_.Watch(child, [this](const core::ProcessIdentity&) {
    kernel_.End(70);
    return false;
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ToldUntilNow(), IsEmpty());
  EXPECT_THAT(kernel_.reaped, ElementsAre(70));
}

TEST_F(DarwinExitsTest, WhoIsWatchedTwiceIsToldOnce) {
  Run();
  const core::ProcessIdentity process = kernel_.Start(70, 5000);
  ASSERT_TRUE(Watch(process).ok());
  ASSERT_TRUE(Watch(process).ok());
  kernel_.End(70);
  EXPECT_THAT(ToldUntilNow(), ElementsAre(process));
}

// The end of the first lies in the kernel's queue when the second is watched.
TEST_F(DarwinExitsTest, TwoThatHaveHadOnePidAreBothTold) {
  const core::ProcessIdentity first = kernel_.Start(70, 5000);
  ASSERT_TRUE(Watch(first).ok());
  kernel_.End(70);
  const core::ProcessIdentity second = kernel_.Start(70, 6000);
  ASSERT_TRUE(Watch(second).ok());
  Run();
  EXPECT_THAT(Told(1), ElementsAre(first));
  kernel_.End(70);
  EXPECT_THAT(ToldUntilNow(), ElementsAre(first, second));
}

// The kernel has one note a pid, and it was attached to the first.
TEST_F(DarwinExitsTest, ThePidThatIsUsedAgainIsWatchedAnew) {
  Run();
  const core::ProcessIdentity first = kernel_.Start(70, 5000);
  ASSERT_TRUE(Watch(first).ok());
  const core::ProcessIdentity second = kernel_.Start(70, 6000);
  ASSERT_TRUE(Watch(second).ok());
  kernel_.End(70);
  EXPECT_THAT(ToldUntilNow(), UnorderedElementsAre(first, second));
}

TEST_F(DarwinExitsTest, AskingForWhoHadThePidBeforeDisturbsNobody) {
  Run();
  const core::ProcessIdentity process = kernel_.Start(70, 5000);
  ASSERT_TRUE(Watch(process).ok());
  EXPECT_EQ(Watch({.pid = 70, .start = 4000}).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ToldUntilNow(), IsEmpty());
  kernel_.End(70);
  EXPECT_THAT(Told(2).back(), process);  // the first was ToldUntilNow()'s own
}

// One that lives must not be waited for.
TEST_F(DarwinExitsTest, AChildThatWasOnceNotFoundCanBeWatched) {
  Run();
  const core::ProcessIdentity process = kernel_.Start(70, 5000, true);
  EXPECT_EQ(exits_.Watch(process, [](const core::ProcessIdentity&) { return false; }).code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(Watch(process).ok());
  kernel_.End(70);
  EXPECT_THAT(ToldUntilNow(), ElementsAre(process));
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

TEST_F(DarwinExitsTest, NothingIsToldAfterStop) {
  Run();
  const core::ProcessIdentity process = kernel_.Start(70, 5000);
  ASSERT_TRUE(Watch(process).ok());
  Stop();
  kernel_.End(70);
  EXPECT_THAT(told_, IsEmpty());
}

}  // namespace
}  // namespace stageload::jobs
