// Commands that run here, under a budget.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class Guard : public DaemonTest {
 protected:
  // A guard whose command has written its pid and now waits.
  ChildProcess StartWaiting() {
    ChildProcess guard = StartCtl({"guard", "--wait-free", "0", "--", "sh", "-c",
                                   absl::StrCat("echo $$ > ", PathOf("pid"), "; exec sleep 612")});
    EXPECT_TRUE(Eventually([&] { return ReadFile(PathOf("pid")).ends_with("\n"); })) << guard.Err();
    return guard;
  }
  bool CommandRuns() const {
    for (const FoundProcess& process : ProcessesOf(folder())) {
      if (process.command.starts_with("sleep 612")) return true;
    }
    return false;
  }
  void ExpectStoppedBy(int signal) {
    StartDaemon();
    ChildProcess guard = StartWaiting();
    guard.Signal(signal);
    const Result result = guard.Wait();
    EXPECT_EQ(result.exit_code, 128 + signal) << result;
    EXPECT_FALSE(CommandRuns());
  }
};

TEST_F(Guard, CalledAsStageloadItExitsWithTheCommandsCode) {
  std::filesystem::create_symlink(kCtlProgram, PathOf("stageload"));
  const Result result =
      Ctl({"guard", "--wait-free", "40", "--swap-budget", "8G", "--", "sh", "-c", "exit 7"},
          {.program = PathOf("stageload")});
  EXPECT_EQ(result.exit_code, 7) << result;
  EXPECT_EQ(result.out, "");
}

TEST_F(Guard, AZombieThatNobodyWaitsForDoesNotKeepItFromItsEnd) {
  StartDaemon();
  ChildProcess guard = StartCtl({"guard", "--wait-free", "0", "--", STAGELOAD_E2E_TREE, "zombie"});
  ASSERT_TRUE(Eventually([&] { return ReadFile(PathOf("keeper")) != ""; })) << guard.Err();
  ASSERT_TRUE(Eventually([&] { return ReadFile(PathOf("command")) != ""; })) << guard.Err();
  guard.Signal(SIGTERM);
  const absl::Time signalled = absl::Now();
  EXPECT_EQ(guard.Wait().exit_code, 128 + SIGTERM);
  EXPECT_LE(absl::Now() - signalled, absl::Seconds(4)) << "the grace time is 5 s";
}

TEST_F(Guard, HearsHowTheCommandEndsAlsoWhereItsParentIgnoresThat) {
  CtlOptions shell;
  shell.program = "/bin/sh";
  const Result result =
      Ctl({"-c",
           absl::StrCat("trap '' CHLD; exec ", kCtlProgram,
                        " guard --wait-free 0 --memory 1M -- sh -c 'exit 3'")},
          shell);
  EXPECT_EQ(result.exit_code, 3) << result;
  EXPECT_EQ(Show(1)["state"], "FAILED");
}

TEST_F(Guard, WithoutRoomBeforeTheStartTimeoutItExitsWith4AndSaysTheLevelRead) {
  StartDaemon();
  const Result result =
      Ctl({"guard", "--wait-free", "100", "--start-timeout", "2s", "--", "touch", PathOf("ran")});
  EXPECT_EQ(result.exit_code, 4) << result;
  EXPECT_THAT(result.err, ContainsRegex("[0-9.]+ % available, needs 100 %"));
  EXPECT_GE(result.took, absl::Seconds(2));
  EXPECT_LE(result.took, absl::Seconds(20));
  EXPECT_FALSE(std::filesystem::exists(PathOf("ran")));
}

TEST_F(Guard, AMissingCommandIs127AndSaysWhich) {
  StartDaemon();
  const Result result = Ctl({"guard", "--wait-free", "0", "--", "no-such-command"});
  EXPECT_EQ(result.exit_code, 127) << result;
  EXPECT_THAT(result.err, HasSubstr("no-such-command"));
}

TEST_F(Guard, AFileThatIsNoProgramIs127AsInStageload01) {
  StartDaemon();
  WriteFile(PathOf("text"), "not a program\n");
  const Result result = Ctl({"guard", "--wait-free", "0", "--", PathOf("text")});
  EXPECT_EQ(result.exit_code, 127) << result;
  EXPECT_THAT(result.err, HasSubstr("not an executable file"));
}

TEST_F(Guard, SigintEndsTheCommandAndExitsWith130) { ExpectStoppedBy(SIGINT); }
TEST_F(Guard, SigtermEndsTheCommandAndExitsWith143) { ExpectStoppedBy(SIGTERM); }
TEST_F(Guard, SighupEndsTheCommandAndExitsWith129) { ExpectStoppedBy(SIGHUP); }

TEST_F(Guard, SigintWhileItWaitsForRoomExitsWith130AndTheCommandNeverStarts) {
  StartDaemon();
  ChildProcess guard = StartCtl({"guard", "--wait-free", "100", "--", "touch", PathOf("ran")});
  ASSERT_TRUE(Eventually([&] { return CountJobs() == 1; })) << guard.Err();
  guard.Signal(SIGINT);
  EXPECT_EQ(guard.Wait().exit_code, 130);
  EXPECT_TRUE(Reaches(1, "CANCELLED"));
  EXPECT_FALSE(std::filesystem::exists(PathOf("ran")));
}

TEST_F(Guard, ACommandEndedByASignalExitsWith128AndTheSignal) {
  StartDaemon();
  EXPECT_EQ(Ctl({"guard", "--wait-free", "0", "--", "sh", "-c", "kill -USR1 $$"}).exit_code,
            128 + SIGUSR1);
}

TEST_F(Guard, TheCommandHasItsCallersInputOutputsFolderAndEnvironment) {
  StartDaemon();
  std::filesystem::create_directory(PathOf("elsewhere"));
  const Result result = Ctl(
      {"guard", "--wait-free", "0", "--", "sh", "-c", "cat; pwd; echo \"$SAID\"; echo problem >&2"},
      {.environment = {"SAID=in the environment"},
       .directory = PathOf("elsewhere"),
       .input = "from stdin\n"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out,
            absl::StrCat("from stdin\n", PathOf("elsewhere"), "\nin the environment\n"));
  EXPECT_THAT(result.err, HasSubstr("problem\n"));
}

TEST_F(Guard, KilledItLeavesTheCommandRunningUnderWatch) {
  StartDaemon();
  ChildProcess guard = StartWaiting();
  ASSERT_TRUE(Reaches(1, "RUNNING"));
  guard.Signal(SIGKILL);
  EXPECT_EQ(guard.Wait().exit_code, 128 + SIGKILL);
  // Still read by the sampler, and still stopped when somebody asks.
  ASSERT_TRUE(Eventually([&] { return Show(1).contains("footprint_bytes"); }));
  EXPECT_EQ(StateOf(1), "RUNNING");
  EXPECT_TRUE(CommandRuns());
  EXPECT_EQ(Ctl({"cancel", "1"}).exit_code, 0);
  EXPECT_TRUE(Reaches(1, "CANCELLED"));
  EXPECT_TRUE(Eventually([&] { return !CommandRuns(); }));
}

TEST_F(Guard, KilledWhileItWaitsItIsTakenBackAndTheCommandNeverStarts) {
  StartDaemon();
  ChildProcess guard = StartCtl({"guard", "--wait-free", "100", "--", "touch", PathOf("ran")});
  ASSERT_TRUE(Eventually([&] { return CountJobs() == 1; })) << guard.Err();
  guard.Signal(SIGKILL);
  guard.Wait();
  EXPECT_TRUE(Reaches(1, "CANCELLED"));
  EXPECT_EQ(Show(1).at("reason"), "CLIENT_GONE");
  EXPECT_FALSE(std::filesystem::exists(PathOf("ran")));
  EXPECT_TRUE(Eventually([&] { return ProcessesOf(folder()).size() == 1; }))
      << "the command that was held back is still there";
}

TEST_F(Guard, InsideAnotherItCountsWithinWhatThatDeclaredAndDoesNotWaitForIt) {
  WriteConfig("memory_pool = \"1G\"\n");
  StartDaemon();
  const Result result = Ctl({"guard", "--wait-free", "0", "--memory", "600M", "--", kCtlProgram,
                             "guard", "--wait-free", "0", "--memory", "500M", "--start-timeout",
                             "20s", "--", "echo", "inner"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out, "inner\n");
}

TEST_F(Guard, InsideAJobThatDeclaredNothingItDoesNotWaitForThatToSettle) {
  StartDaemon();
  const Result result = Ctl({"run", "--wait-free", "0", "--", kCtlProgram, "guard", "--wait-free",
                             "0", "--start-timeout", "8s", "--", "echo", "inner"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out, "inner\n");
}

TEST_F(Guard, AfterARestartOfTheDaemonItIsStillInsideTheOther) {
  WriteConfig("memory_pool = \"1G\"\n");
  StartDaemon();
  ChildProcess outer =
      StartCtl(Arguments{"guard", "--wait-free", "0", "--memory", "600M", "--", kCtlProgram,
                         "guard", "--wait-free", "0", "--memory", "500M", "--"} +
               UntilExists(PathOf("go"), 3));
  ASSERT_TRUE(Eventually([&] {
    const nlohmann::json jobs = CtlJson({"queue", "--json"}).at("jobs");
    return jobs.size() == 2 && jobs[0].at("state") == "RUNNING" && jobs[1].at("state") == "RUNNING";
  })) << outer.Err();
  KillDaemon();  // whoever asks first starts the next
  // 600 MiB of the pool are theirs together, so there is room for this.
  const Result beside = Ctl(
      {"guard", "--wait-free", "0", "--memory", "400M", "--start-timeout", "20s", "--", "true"});
  EXPECT_EQ(beside.exit_code, 0) << beside;
  Touch(PathOf("go"));
  EXPECT_EQ(outer.Wait().exit_code, 3);
}

TEST_F(Guard, ItIsInTheQueueLikeAJobAndHasNoLog) {
  StartDaemon();
  ChildProcess guard = StartWaiting();
  ASSERT_TRUE(Reaches(1, "RUNNING"));
  EXPECT_EQ(Show(1).at("kind"), "GUARD");
  const Result logs = Ctl({"logs", "1"});
  EXPECT_NE(logs.exit_code, 0) << logs;
  EXPECT_NE(logs.err, "");
  guard.Signal(SIGTERM);
  EXPECT_EQ(guard.Wait().exit_code, 128 + SIGTERM);
}

}  // namespace
}  // namespace stageload::e2e
