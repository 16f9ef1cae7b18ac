// A guard goes on with the next daemon when the one that it asked has gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class GuardRestart : public DaemonTest {
 protected:
  // The test decides when the next daemon is there.
  const CtlOptions kAlone{.environment = {"STAGELOAD_NO_AUTOSTART=1"}};

  // A guard whose command runs, and exits with 7 once the file `go` is there.
  ChildProcess StartRunning(const Arguments& options = {"--wait-free", "0"}) {
    ChildProcess guard =
        StartCtl(Arguments{"guard"} + options +
                     Arguments{"--", "sh", "-c",
                               absl::StrCat("echo $$ > ", PathOf("pid"), "; while [ ! -e ",
                                            PathOf("go"), " ]; do sleep 0.02; done; exit 7")},
                 kAlone);
    EXPECT_TRUE(Eventually([&] { return absl::EndsWith(ReadFile(PathOf("pid")), "\n"); }))
        << guard.Err();
    EXPECT_TRUE(Reaches(1, "RUNNING"));
    return guard;
  }
  ChildProcess StartWaiting(const Arguments& options, const Arguments& command) {
    ChildProcess guard = StartCtl(Arguments{"guard"} + options + Arguments{"--"} + command, kAlone);
    EXPECT_TRUE(Eventually([&] { return CountJobs() == 1; })) << guard.Err();
    EXPECT_TRUE(guard.Err().empty() || absl::StrContains(guard.Err(), "waits")) << guard.Err();
    return guard;
  }
  static bool Lost(ChildProcess& guard) {
    return Eventually([&] { return absl::StrContains(guard.Err(), "the daemon went away"); });
  }
  void ExpectEndedWith7(ChildProcess& guard) {
    const Result result = guard.Wait();
    EXPECT_EQ(result.exit_code, 7) << result;
    EXPECT_TRUE(Reaches(1, "FAILED"));
    EXPECT_EQ(Show(1).value("exit_code", -1), 7) << Show(1).dump(2);
    EXPECT_EQ(CountJobs(), 1U);
  }
};

TEST_F(GuardRestart, ARunningCommandsExitCodeReachesTheNextDaemon) {
  StartDaemon();
  ChildProcess guard = StartRunning();
  KillDaemon();
  StartDaemon();
  Touch(PathOf("go"));
  ExpectEndedWith7(guard);
}

TEST_F(GuardRestart, KilledTwiceTheThirdDaemonHearsTheExitCode) {
  StartDaemon();
  ChildProcess guard = StartRunning();
  KillDaemon();
  StartDaemon();
  KillDaemon();
  StartDaemon();
  Touch(PathOf("go"));
  ExpectEndedWith7(guard);
}

TEST_F(GuardRestart, ADaemonThatWasToldToLeaveIsFollowedByTheNext) {
  StartDaemon();
  ChildProcess guard = StartRunning();
  daemon().Signal(SIGTERM);
  EXPECT_EQ(daemon().Wait().exit_code, 0);
  ASSERT_TRUE(Lost(guard));
  StartDaemon();
  Touch(PathOf("go"));
  ExpectEndedWith7(guard);
}

TEST_F(GuardRestart, ACommandThatEndsWhileNoDaemonIsThereIsReportedToTheOneThatComesLater) {
  StartDaemon();
  ChildProcess guard = StartRunning();
  KillDaemon();
  ASSERT_TRUE(Lost(guard));
  Touch(PathOf("go"));
  const pid_t command = std::stoi(ReadFile(PathOf("pid")));
  ASSERT_TRUE(Eventually([&] { return kill(command, 0) != 0; }));
  absl::SleepFor(absl::Seconds(1));  // what is tested: nobody is there for so long
  StartDaemon();
  ExpectEndedWith7(guard);
}

TEST_F(GuardRestart, WithoutANextDaemonTheCodeIsTheCommandsAndItsEndIsUnknownAfterwards) {
  StartDaemon();
  ChildProcess guard = StartRunning();
  KillDaemon();
  Touch(PathOf("go"));
  const Result result = guard.Wait();
  EXPECT_EQ(result.exit_code, 7) << result;
  EXPECT_EQ(result.err,
            "stageload: the daemon went away; the command runs on, and the next daemon is asked to "
            "watch it\n");
  StartDaemon();
  EXPECT_EQ(StateOf(1), "RUNNING");  // its guard could still come
  EXPECT_TRUE(Reaches(1, "UNKNOWN"));
}

TEST_F(GuardRestart, CancelledUnderTheNextDaemonItSaysSoAndExitsAsUnderTheFirst) {
  StartDaemon();
  ChildProcess guard = StartRunning();
  KillDaemon();
  StartDaemon();
  EXPECT_EQ(Ctl({"cancel", "1"}).exit_code, 0);
  const Result result = guard.Wait();
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_THAT(result.err, HasSubstr("stopped: CANCELLED"));
  EXPECT_TRUE(Reaches(1, "CANCELLED"));
}

// The other stops by low memory and by a budget take the same way; this one needs no swap.
TEST_F(GuardRestart, StoppedForLowMemoryByTheNextDaemonItExitsWith3) {
  StartDaemon();
  ChildProcess guard = StartRunning();
  KillDaemon();
  StartDaemon();
  // Level is never 100: from here on it is too low.
  ASSERT_EQ(Ctl({"update", "1", "--kill-free", "100"}).exit_code, 0);
  const Result result = guard.Wait();
  EXPECT_EQ(result.exit_code, 3) << result;
  EXPECT_THAT(result.err, HasSubstr("stopped: LOW_MEMORY"));
  EXPECT_TRUE(Reaches(1, "OUT_OF_MEMORY"));
}

TEST_F(GuardRestart, OneThatWaitsKeepsItsPlaceAndRunsUnderTheNextDaemon) {
  StartDaemon();
  const std::int64_t before = Submit(Arguments{"--"} + UntilExists(PathOf("go")));
  ChildProcess guard = StartCtl(
      {"guard", "--after", Id(before), "--wait-free", "0", "--", "sh", "-c", "exit 5"}, kAlone);
  ASSERT_TRUE(Eventually([&] { return CountJobs() == 2; }));
  KillDaemon();
  StartDaemon();
  EXPECT_EQ(StateOf(2), "PENDING");
  Touch(PathOf("go"));
  const Result result = guard.Wait();
  EXPECT_EQ(result.exit_code, 5) << result;
  EXPECT_THAT(result.err, HasSubstr("the daemon went away; the next one is asked for room"));
  EXPECT_TRUE(Reaches(2, "FAILED"));
  EXPECT_EQ(CountJobs(), 2U);
}

TEST_F(GuardRestart, OneThatWaitsOutlivesADaemonThatIsToldToLeave) {
  StartDaemon();
  ChildProcess guard = StartWaiting({"--wait-free", "100"}, {"touch", PathOf("ran")});
  daemon().Signal(SIGTERM);
  EXPECT_EQ(daemon().Wait().exit_code, 0);
  ASSERT_TRUE(Lost(guard));
  StartDaemon();
  EXPECT_EQ(StateOf(1), "PENDING");
  EXPECT_FALSE(std::filesystem::exists(PathOf("ran")));
  EXPECT_EQ(Ctl({"cancel", "1"}).exit_code, 0);
  const Result result = guard.Wait();
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_FALSE(std::filesystem::exists(PathOf("ran")));
}

TEST_F(GuardRestart, ItsStartTimeoutCountsFromTheFirstTimeItAsked) {
  StartDaemon();
  const absl::Time began = absl::Now();
  ChildProcess guard =
      StartWaiting({"--wait-free", "100", "--start-timeout", "4s"}, {"touch", PathOf("ran")});
  absl::SleepFor(absl::Seconds(2));  // half of it goes by under the first
  KillDaemon();
  StartDaemon();
  const Result result = guard.Wait();
  EXPECT_EQ(result.exit_code, 4) << result;
  EXPECT_GE(absl::Now() - began, absl::Seconds(4));
  EXPECT_LE(result.took, absl::Seconds(5.9)) << "it was given its whole timeout again";
  EXPECT_FALSE(std::filesystem::exists(PathOf("ran")));
}

TEST_F(GuardRestart, OneThatWaitsAndFindsNoNextDaemonExitsWith69AndNeverRunsItsCommand) {
  StartDaemon();
  ChildProcess guard = StartWaiting({"--wait-free", "100"}, {"touch", PathOf("ran")});
  KillDaemon();
  const Result result = guard.Wait();
  EXPECT_EQ(result.exit_code, 69) << result;
  EXPECT_THAT(result.err, HasSubstr("no daemon came back within 10s; the command was not run"));
  EXPECT_TRUE(ProcessesOf(folder()).empty()) << "the command is still held back";
  StartDaemon();
  EXPECT_TRUE(Reaches(1, "CANCELLED"));
  EXPECT_EQ(Show(1).at("reason"), "CLIENT_GONE");
  EXPECT_FALSE(std::filesystem::exists(PathOf("ran")));
}

TEST_F(GuardRestart, OneThatIsKilledWithItsDaemonLosesItsPlace) {
  StartDaemon();
  ChildProcess guard = StartWaiting({"--wait-free", "100"}, {"touch", PathOf("ran")});
  KillDaemon();
  guard.Signal(SIGKILL);
  guard.Wait();
  StartDaemon();
  EXPECT_TRUE(Reaches(1, "CANCELLED"));
  EXPECT_EQ(Show(1).at("reason"), "CLIENT_GONE");
  EXPECT_FALSE(std::filesystem::exists(PathOf("ran")));
}

// A daemon that knows nothing of the job: its store was taken away.
TEST_F(GuardRestart, ADaemonThatDoesNotKnowTheJobIsToldNothingAndAskedAgainByOneThatWaits) {
  StartDaemon();
  ChildProcess guard = StartWaiting({"--wait-free", "100"}, {"touch", PathOf("ran")});
  KillDaemon();
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::filesystem::remove(paths().store + suffix);
  }
  StartDaemon();
  ASSERT_TRUE(Eventually([&] { return CountJobs() == 1; })) << guard.Err();
  EXPECT_EQ(StateOf(1), "PENDING");
  guard.Signal(SIGINT);
  EXPECT_EQ(guard.Wait().exit_code, 130);
  EXPECT_TRUE(Reaches(1, "CANCELLED"));
}

TEST_F(GuardRestart, WithAnAutostartItStartsTheNextDaemonItself) {
  StartDaemon();
  ChildProcess guard =
      StartCtl(Arguments{"guard", "--wait-free", "0", "--"} + UntilExists(PathOf("go"), 7));
  ASSERT_TRUE(Eventually([&] { return CountJobs() == 1; })) << guard.Err();
  ASSERT_TRUE(Reaches(1, "RUNNING"));
  KillDaemon();
  ASSERT_TRUE(Eventually([&] { return Daemons().size() == 1; }));
  EXPECT_EQ(StateOf(1), "RUNNING");
  Touch(PathOf("go"));
  ExpectEndedWith7(guard);
}

}  // namespace
}  // namespace stageload::e2e
