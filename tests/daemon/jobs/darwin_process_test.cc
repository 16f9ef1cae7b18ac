// Who a process of macOS is, and that a signal meets that process or nobody.
#include "daemon/jobs/darwin_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/daemon/jobs/fake_darwin_kernel.h"

namespace stageload::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DarwinProcessTest : public ::testing::Test {
 protected:
  absl::Status Send(const core::ProcessIdentity& identity) {
    return SendSignalTo(kernel_, identity, SIGTERM, [this](const core::ProcessIdentity& asked) {
      return kernel_.Exists(asked);
    });
  }
  FakeDarwinKernel::Signal Termed(std::int32_t pid, std::uint64_t unique_id) {
    return {.pid = pid, .unique_id = unique_id, .signal = SIGTERM};
  }

  FakeDarwinKernel kernel_;
};

TEST_F(DarwinProcessTest, AnIdentityIsTheUniqueId) {
  kernel_.Start(70, 5000);
  EXPECT_EQ(*IdentityOf(kernel_, 70), (core::ProcessIdentity{.pid = 70, .start = 5000}));
}

TEST_F(DarwinProcessTest, AnIdentityIsTheStartWhereThereAreNoUniqueIds) {
  kernel_.Start(70, 5000);
  kernel_.identifiers_error = EINVAL;
  EXPECT_EQ(*IdentityOf(kernel_, 70), (core::ProcessIdentity{.pid = 70, .start = 5'000'000}));
}

TEST_F(DarwinProcessTest, WhoIsGoneHasNoIdentity) {
  EXPECT_EQ(IdentityOf(kernel_, 70).status().code(), absl::StatusCode::kNotFound);
  kernel_.identifiers_error = EINVAL;
  EXPECT_EQ(IdentityOf(kernel_, 70).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DarwinProcessTest, AnIdentityThatCannotBeReadSaysWhoseAndWhy) {
  kernel_.Start(70, 5000);
  kernel_.identifiers_error = EINVAL;
  kernel_.start_error = EPERM;
  const absl::Status status = IdentityOf(kernel_, 70).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("process 70"));
}

TEST_F(DarwinProcessTest, ASignalReachesWhoWasMeant) {
  for (const bool knows_versions : {true, false}) {
    kernel_.knows_versions = knows_versions;
    kernel_.signals.clear();
    EXPECT_TRUE(Send(kernel_.Start(70, 5000)).ok());
    EXPECT_THAT(kernel_.signals, ElementsAre(Termed(70, 5000)));
  }
}

TEST_F(DarwinProcessTest, AnotherProcessOfThePidGetsNothing) {
  const core::ProcessIdentity before = kernel_.Start(70, 5000);
  kernel_.Start(70, 6000);
  for (const bool knows_versions : {true, false}) {
    kernel_.knows_versions = knows_versions;
    EXPECT_EQ(Send(before).code(), absl::StatusCode::kNotFound);
  }
  EXPECT_THAT(kernel_.signals, IsEmpty());
}

TEST_F(DarwinProcessTest, ThePidThatIsUsedAgainBetweenTheLookAndTheSignalGetsNothing) {
  const core::ProcessIdentity before = kernel_.Start(70, 5000);
  kernel_.before_kill = [this] {
    kernel_.before_kill = nullptr;
    kernel_.Start(70, 6000);
    kernel_.processes[70].identifiers.version = 200;
  };
  EXPECT_EQ(Send(before).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(kernel_.signals, IsEmpty());
}

TEST_F(DarwinProcessTest, AnExecBetweenTheLookAndTheSignalDoesNotSaveIt) {
  const core::ProcessIdentity process = kernel_.Start(70, 5000);
  kernel_.before_kill = [this] {
    kernel_.before_kill = nullptr;
    kernel_.processes[70].identifiers.version = 101;
  };
  EXPECT_TRUE(Send(process).ok());
  EXPECT_THAT(kernel_.signals, ElementsAre(Termed(70, 5000)));
}

TEST_F(DarwinProcessTest, AZombieIsGone) {
  const core::ProcessIdentity child = kernel_.Start(70, 5000, true);
  kernel_.End(70);
  EXPECT_EQ(Send(child).code(), absl::StatusCode::kNotFound);
}

TEST_F(DarwinProcessTest, WhereThereAreNoUniqueIdsTheLastLookDecides) {
  kernel_.identifiers_error = EINVAL;
  const core::ProcessIdentity process = kernel_.Start(70, 5000);
  EXPECT_TRUE(Send(process).ok());
  EXPECT_THAT(kernel_.signals, ElementsAre(Termed(70, 5000)));
  kernel_.Start(70, 6000);
  EXPECT_EQ(Send(process).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(kernel_.signals, ElementsAre(Termed(70, 5000)));
}

TEST_F(DarwinProcessTest, WhoMayNotBeSignalledIsNamed) {
  kernel_.kill_error = EPERM;
  const absl::Status status = Send(kernel_.Start(70, 5000));
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("signal 15 to process 70"));
}

TEST_F(DarwinProcessTest, OnlyThatVeryChildIsReaped) {
  const core::ProcessIdentity child = kernel_.Start(70, 5000, true);
  kernel_.End(70);
  ReapIfOurs(kernel_, {.pid = 70, .start = 4000});
  EXPECT_THAT(kernel_.reaped, IsEmpty());
  ReapIfOurs(kernel_, child);
  EXPECT_THAT(kernel_.reaped, ElementsAre(70));
}

}  // namespace
}  // namespace stageload::jobs
