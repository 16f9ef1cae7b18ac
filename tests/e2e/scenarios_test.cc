// Situations of a queue over the lives of its daemons, each sentence of them against the real
// programs. Those of process trees (12, 16, 26) and of logs (21) stand with their like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/client/ctl/fake_daemon.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;

class Scenario : public DaemonTest {
 protected:
  const CtlOptions kNoOther{.environment = {"STAGELOAD_NO_AUTOSTART=1"}};
  const Arguments kAtOnce = {"--wait-free", "0", "--"};

  // Writes a line to `starts` each time that it is run.
  Arguments CountsItsStarts(const std::string& go, int code) const {
    return {"sh", "-c",
            absl::StrCat("echo started >> ", PathOf("starts"), "; while [ ! -e ", go,
                         " ]; do sleep 0.02; done; exit ", code)};
  }
  std::size_t Starts() const {
    const std::string text = ReadFile(PathOf("starts"));
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
};

// ---- 19 ----

TEST_F(Scenario, S19_AJobUnderAKilledDaemonRunsOnWithItsMemoryCountedAndItsCodeArrivesLater) {
  WriteConfig("memory_pool = \"150M\"\n");
  StartDaemon();
  const Arguments terms = {"--wait-free", "0", "--memory", "100M", "--"};
  const std::int64_t job = Submit(terms + CountsItsStarts(PathOf("go"), 7));
  ASSERT_TRUE(Reaches(job, "RUNNING"));
  // The command runs a moment before the daemon hears of its pid.
  ASSERT_TRUE(Eventually([&] { return Starts() == 1 && Show(job).contains("pid"); }));
  const nlohmann::json before = Show(job);
  KillDaemon();
  StartDaemon();

  const nlohmann::json after = Show(job);
  EXPECT_EQ(after.at("state"), "RUNNING");
  EXPECT_EQ(after.at("pid"), before.at("pid"));
  EXPECT_EQ(after.at("start_time_ns"), before.at("start_time_ns"));
  const std::int64_t next = Submit(terms + Arguments{"true"});
  const auto blocker = BlockerOf(next, "MEMORY");
  ASSERT_TRUE(blocker) << "the memory of job 1 is not counted: " << Show(next).dump(2);
  EXPECT_EQ(blocker->at("read"), 50.0 * 1024 * 1024);

  Touch(PathOf("go"));
  EXPECT_EQ(Ctl({"wait", Id(job)}).exit_code, 7);
  EXPECT_EQ(Show(job).at("state"), "FAILED");
  EXPECT_EQ(Show(job).at("exit_code"), 7);
  EXPECT_TRUE(Reaches(next, "COMPLETED"));
  EXPECT_EQ(Starts(), 1U);
}

TEST_F(Scenario, S19_AJobThatEndsWhileTheDaemonIsDownIsFailedWithItsCode) {
  StartDaemon();
  const std::int64_t job = Submit(kAtOnce + CountsItsStarts(PathOf("go"), 7));
  ASSERT_TRUE(Eventually([&] { return Starts() == 1; }));
  KillDaemon();
  Touch(PathOf("go"));
  ASSERT_TRUE(Eventually([&] { return ProcessesOf(folder()).empty(); })) << "it does not end";
  StartDaemon();
  EXPECT_EQ(Show(job).at("state"), "FAILED");
  EXPECT_EQ(Show(job).at("exit_code"), 7);
  EXPECT_EQ(Starts(), 1U);
}

// ---- 22 ----

TEST_F(Scenario, S22_AJobSeesItsSubmittersEnvironmentAndFolderAndNothingOfTheDaemons) {
  StartDaemon({}, {"OF_THE_DAEMON=1", "BOTH_HAVE_IT=the daemon's"});
  std::filesystem::create_directory(PathOf("there"));
  const Arguments variables = {"SECRET_TOKEN=a-value-that-nobody-lists", "BOTH_HAVE_IT=mine"};
  const CtlOptions from_there = {.environment = variables, .directory = PathOf("there")};
  const Arguments command = {
      "sh", "-c",
      absl::StrCat("env -0 > ", PathOf("seen"), "; /bin/pwd -P > ", PathOf("where"),
                   "; while [ ! -e ", PathOf("go"), " ]; do sleep 0.02; done")};
  const std::int64_t waits = Submit(Arguments{"--hold", "--"} + command, from_there);
  // The job starts under a daemon with yet another environment.
  KillDaemon();
  StartDaemon({}, {"OF_THE_NEXT_DAEMON=1", "BOTH_HAVE_IT=the next daemon's"});
  ASSERT_EQ(Ctl({"release", Id(waits)}).exit_code, 0);
  ASSERT_TRUE(Reaches(waits, "RUNNING"));
  ASSERT_TRUE(Eventually([&] { return !ReadFile(PathOf("where")).empty(); }));

  std::vector<std::string> seen = absl::StrSplit(ReadFile(PathOf("seen")), '\0', absl::SkipEmpty());
  // The shell sets these by itself.
  std::erase_if(seen, [](const std::string& variable) {
    return variable.starts_with("PWD=") || variable.starts_with("_=") ||
           variable.starts_with("SHLVL=") || variable.starts_with("OLDPWD=");
  });
  EXPECT_THAT(seen, UnorderedElementsAreArray(Environment(variables)));
  EXPECT_EQ(ReadFile(PathOf("where")), PathOf("there") + "\n");

  for (const Arguments& list : {Arguments{"queue", "--all"},
                                {"queue", "--all", "--json"},
                                {"show", Id(waits)},
                                {"show", "--json", Id(waits)},
                                {"status"},
                                {"status", "--json"}}) {
    const Result shown = Ctl(list);
    EXPECT_EQ(shown.exit_code, 0) << shown;
    EXPECT_THAT(shown.out, Not(HasSubstr("a-value-that-nobody-lists"))) << list.front();
  }
  Touch(PathOf("go"));
  EXPECT_TRUE(Reaches(waits, "COMPLETED"));
}

// ---- 23 ----

TEST_F(Scenario, S23_RunWaitAndSubmitWaitExitWithTheJobsCode) {
  StartDaemon();
  const Arguments exits7 = {"sh", "-c", "exit 7"};
  EXPECT_EQ(Ctl(Arguments{"run"} + kAtOnce + exits7).exit_code, 7);
  EXPECT_EQ(Ctl(Arguments{"submit", "--wait"} + kAtOnce + exits7).exit_code, 7);
  const std::int64_t job = Submit(kAtOnce + exits7);
  EXPECT_EQ(Ctl({"wait", Id(job)}).exit_code, 7);
  EXPECT_EQ(Ctl({"wait", Id(job)}).exit_code, 7) << "it had ended before";
  const Arguments killed = {"sh", "-c", "kill -KILL $$"};
  EXPECT_EQ(Ctl(Arguments{"run"} + kAtOnce + killed).exit_code, 128 + SIGKILL);
  EXPECT_EQ(Ctl(Arguments{"submit", "--wait"} + kAtOnce + killed).exit_code, 128 + SIGKILL);
}

TEST_F(Scenario, S23_OfTwoIdsTheHighestCodeCountsInEitherOrder) {
  StartDaemon();
  const std::int64_t nine = Submit(kAtOnce + Arguments{"sh", "-c", "exit 9"});
  const std::int64_t two = Submit(kAtOnce + Arguments{"sh", "-c", "exit 2"});
  const std::int64_t none = Submit(kAtOnce + Arguments{"true"});
  EXPECT_EQ(Ctl({"wait", Id(nine), Id(two)}).exit_code, 9);
  EXPECT_EQ(Ctl({"wait", Id(two), Id(nine)}).exit_code, 9);
  EXPECT_EQ(Ctl({"wait", Id(none), Id(two)}).exit_code, 2);
}

TEST_F(Scenario, S23_AnUnknownIdIsAnErrorThatNamesItAlsoBesideOneThatCompleted) {
  StartDaemon();
  const std::int64_t done = Submit(kAtOnce + Arguments{"true"});
  for (const Arguments& ids : {Arguments{"4711"}, {Id(done), "4711"}, {"4711", Id(done)}}) {
    const Result result = Ctl(Arguments{"wait"} + ids);
    EXPECT_NE(result.exit_code, 0) << result;
    EXPECT_THAT(result.err, HasSubstr("4711"));
  }
}

// ---- 24 ----

TEST_F(Scenario, S24_AChildOfAParentThatHadFailedIsCancelledAndNeverRuns) {
  StartDaemon();
  const std::int64_t parent = Submit(kAtOnce + Arguments{"false"});
  ASSERT_EQ(Ctl({"wait", Id(parent)}).exit_code, 1);
  const Arguments after = {"--wait-free", "0", "--after", Id(parent), "--"};
  const std::int64_t child = Submit(after + Arguments{"touch", PathOf("ran")});
  EXPECT_EQ(Ctl({"wait", Id(child)}).exit_code, 1);
  EXPECT_EQ(Show(child).at("state"), "CANCELLED");
  EXPECT_EQ(Show(child).at("reason"), "DEPENDENCY_NEVER");
  // Alike for a command here, and when only an earlier daemon saw the parent fail.
  KillDaemon();
  StartDaemon();
  const Result guard = Ctl(Arguments{"guard"} + after + Arguments{"touch", PathOf("ran")});
  EXPECT_EQ(guard.exit_code, 1) << guard;
  EXPECT_THAT(guard.err, HasSubstr(absl::StrCat("job ", parent)));
  EXPECT_FALSE(std::filesystem::exists(PathOf("ran")));
}

// ---- 25 ----

// A daemon of another age, and the program as it is.
class OtherAge : public Scenario {
 protected:
  // Of a program of this level; each prints one document.
  void ExpectOneLineOnStderr(int level, const std::string& says) {
    ctl::FakeDaemon other;
    other.api_level = level;
    v1::Job& job = other.jobs.emplace_back();
    job.set_id(1);
    job.set_state(v1::JOB_STATE_COMPLETED);
    const CtlOptions to_it = {
        .environment = {absl::StrCat("STAGELOAD_SOCKET=", other.home(), "/stageloadd.sock")}};
    for (const Arguments& command :
         {Arguments{"queue", "--json"}, {"show", "--json", "1"}, {"wait", "--json", "1"}}) {
      const Result result = Ctl(command, to_it);
      EXPECT_EQ(result.exit_code, 0) << result;
      EXPECT_THAT(result.err, HasSubstr(says));
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result;
      EXPECT_TRUE(nlohmann::json::accept(result.out)) << result;
    }
  }
};

TEST_F(OtherAge, S25_OfAnOlderDaemonOneLineSaysToRestartItAndJsonStaysClean) {
  ExpectOneLineOnStderr(0, "`stageloadctl daemon stop`");
}

TEST_F(OtherAge, S25_OfANewerDaemonOneLineSaysToInstallTheNewerProgramAndJsonStaysClean) {
  ExpectOneLineOnStderr(2, "install the newer stageloadctl");
}

TEST_F(OtherAge, S25_OfOneAgeNothingIsSaid) {
  StartDaemon();
  const Result result = Ctl({"queue", "--json"});
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(nlohmann::json::accept(result.out)) << result;
}

// ---- 30 ----

TEST_F(Scenario, S30_ToldToEndItAnswersWhoWaitsAtOnceKeepsTheStateAndLeavesJobsRunning) {
  StartDaemon();
  const std::int64_t runs = Submit(kAtOnce + CountsItsStarts(PathOf("go"), 7));
  const std::int64_t waits = Submit({"--wait-free", "100", "--", "true"});
  ASSERT_TRUE(Eventually([&] { return Starts() == 1; }));
  ChildProcess wait = StartCtl({"wait", Id(runs)}, kNoOther);
  ChildProcess submit_wait =
      StartCtl({"submit", "--wait", "--wait-free", "100", "--", "true"}, kNoOther);
  ChildProcess follow = StartCtl({"logs", "-f", Id(runs)}, kNoOther);
  ChildProcess watch = StartCtl({"watch"}, kNoOther);
  ASSERT_TRUE(submit_wait.Prints("3\n"));
  ASSERT_TRUE(Eventually([&] { return !watch.Out().empty(); }));
  // Not to be seen from here: that the two others have asked.
  absl::SleepFor(absl::Milliseconds(500));

  const absl::Time told = absl::Now();
  daemon().Signal(SIGTERM);
  for (ChildProcess* caller : {&wait, &submit_wait, &follow, &watch}) {
    const Result result = caller->Wait();
    EXPECT_EQ(result.exit_code, 69) << result;
    EXPECT_NE(result.err, "");
  }
  EXPECT_LE(absl::Now() - told, absl::Seconds(2)) << "the callers waited on";
  EXPECT_EQ(daemon().Wait().exit_code, 0);
  EXPECT_LE(absl::Now() - told, absl::Seconds(2));
  EXPECT_EQ(Ctl({"queue"}, kNoOther).exit_code, 69);

  StartDaemon();
  EXPECT_EQ(StateOf(runs), "RUNNING");
  EXPECT_EQ(StateOf(waits), "PENDING");
  EXPECT_EQ(CountJobs(), 3U);
  Touch(PathOf("go"));
  EXPECT_EQ(Ctl({"wait", Id(runs)}).exit_code, 7);
  EXPECT_EQ(Starts(), 1U);
}

}  // namespace
}  // namespace stageload::e2e
