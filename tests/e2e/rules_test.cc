// The rules beyond room, as a user of the command line meets them: what else may run, what comes
// first, when it begins and how long it lasts.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Jobs here declare no memory; each would hold up the next for a while.
constexpr const char* kNoSettling = "settle = \"0s\"\n";

class Rules : public DaemonTest {
 protected:
  void Start(const std::string& config = "", const Arguments& flags = {}) {
    WriteConfig(absl::StrCat(kNoSettling, config));
    StartDaemon(flags);
  }
  // With room at once, so that nothing else but a rule holds it up.
  std::int64_t SubmitWith(const Arguments& options, const Arguments& command) {
    return Submit(Arguments{"--wait-free", "0"} + options + Arguments{"--"} + command);
  }
  absl::Time TimeOf(const nlohmann::json& job, const char* field) {
    return absl::FromUnixNanos(job.at(field).get<std::int64_t>());
  }
  bool LogSays(const std::string& text) {
    return Eventually(
        [&] { return absl::StrContains(ReadFile(paths().logs + "/stageloadd.log"), text); });
  }
};

// ---- --busy ----

class Busy : public Rules {
 protected:
  // A program of nobody's, whose command line nobody else has.
  ChildProcess StartStranger() {
    return ChildProcess({.argv = Arguments{"/bin/sh"} +
                                 [this] {
                                   Arguments words = UntilExists(end_);
                                   words.erase(words.begin());
                                   return words;
                                 }(),
                         .environment = Environment(),
                         .directory = folder(),
                         .input = "",
                         .output = PathOf("output/stranger")});
  }
  std::string Pattern() const { return absl::StrCat("^/bin/sh -c .*", end_); }
  // Until the daemon has looked for it.
  bool WaitsForPid(std::int64_t id, pid_t pid) {
    return Eventually([&] {
      const auto blocker = BlockerOf(id, "BUSY");
      return blocker && absl::StartsWith(blocker->at("text").get<std::string>(),
                                         absl::StrCat("process ", pid, " /bin/sh -c"));
    });
  }

  const std::string& end() const { return end_; }
  void SetUp() override {
    Rules::SetUp();
    end_ = PathOf("the stranger may end");
  }

 private:
  std::string end_;
};

TEST_F(Busy, AJobWaitsForTheProgramToEndAndThenForTheQuietTime) {
  Start();
  ChildProcess stranger = StartStranger();
  const std::int64_t id =
      SubmitWith({"--busy", Pattern(), "--busy", "no such program", "--quiet-for", "1s"}, {"true"});
  EXPECT_TRUE(WaitsForPid(id, stranger.pid())) << Show(id).dump(2);
  EXPECT_THAT(Ctl({"show", Id(id)}).out,
              AllOf(ContainsRegex(absl::StrCat("waits for +BUSY: process ", stranger.pid(), " ")),
                    ContainsRegex("busy +\\^/bin/sh -c"), ContainsRegex("quiet for +1s")));
  EXPECT_THAT(Ctl({"queue"}).out, HasSubstr("BUSY: process "));

  Touch(end());
  const absl::Time ending = absl::Now();
  EXPECT_EQ(stranger.Wait().exit_code, 0);
  EXPECT_EQ(Ctl({"wait", Id(id)}).exit_code, 0);
  EXPECT_GE(TimeOf(Show(id), "start_time_ns"), ending + absl::Seconds(1));
}

TEST_F(Busy, WithinTheQuietTimeItSaysWhenThatEnds) {
  Start();
  ChildProcess stranger = StartStranger();
  const std::int64_t id =
      SubmitWith({"--busy", Pattern(), "--quiet-for", "1h"}, {"touch", PathOf("ran")});
  ASSERT_TRUE(WaitsForPid(id, stranger.pid())) << Show(id).dump(2);
  Touch(end());
  stranger.Wait();
  EXPECT_TRUE(Eventually([&] {
    const auto blocker = BlockerOf(id, "BUSY");
    return blocker && blocker->contains("ends_in_ns");
  })) << Show(id).dump(2);
  EXPECT_THAT(Ctl({"show", Id(id)}).out,
              ContainsRegex(absl::StrCat("BUSY: quiet for .* since ", stranger.pid(),
                                         " .*needs 1h00m; ends in 59m")));
  EXPECT_FALSE(std::filesystem::exists(PathOf("ran")));
}

TEST_F(Busy, ProgramsThatStageloadRunsDoNotCount) {
  Start();
  const std::int64_t first = SubmitWith({}, UntilExists(end()));
  ASSERT_TRUE(Reaches(first, "RUNNING"));
  const std::int64_t second =
      SubmitWith({"--busy", absl::StrCat("sh -c .*", end()), "--quiet-for", "1s"}, {"true"});
  EXPECT_EQ(Ctl({"wait", Id(second)}).exit_code, 0);
  EXPECT_EQ(StateOf(first), "RUNNING");
  Touch(end());
}

TEST_F(Busy, AGuardWaitsAlikeAndAJobThatNamesNoProgramDoesNot) {
  Start();
  ChildProcess stranger = StartStranger();
  ChildProcess guard = StartCtl(
      {"guard", "--wait-free", "0", "--busy", Pattern(), "--quiet-for", "0s", "--", "echo", "ran"});
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(guard.Err(), absl::StrCat("process ", stranger.pid()));
  })) << guard.Err();
  EXPECT_EQ(Ctl({"run", "--wait-free", "0", "--", "true"}).exit_code, 0);
  EXPECT_EQ(guard.Out(), "");
  Touch(end());
  stranger.Wait();
  const Result result = guard.Wait();
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out, "ran\n");
}

TEST_F(Busy, APatternThatIsNoneIsRefusedByTheDaemonInTheOptionsName) {
  Start();
  for (const char* command : {"submit", "run", "guard"}) {
    const Result result = Ctl({command, "--busy", "train(", "--", "true"});
    EXPECT_EQ(result.exit_code, 2) << result;
    EXPECT_THAT(result.err, HasSubstr("stageload: --busy: \"train(\" is no regular expression "));
  }
  EXPECT_EQ(CountJobs(), 0u);
}

// ---- --after ----

class After : public Rules {};

TEST_F(After, AJobStartsOnceAllOfThemHaveCompleted) {
  Start();
  const std::int64_t one = SubmitWith({}, UntilExists(PathOf("one")));
  const std::int64_t two = SubmitWith({}, UntilExists(PathOf("two")));
  const std::int64_t last = SubmitWith({"--after", absl::StrCat(one, ",", two)}, {"true"});
  EXPECT_TRUE(Reaches(two, "RUNNING"));
  EXPECT_TRUE(BlockerOf(last, "DEPENDENCY")) << Show(last).dump(2);
  EXPECT_THAT(Ctl({"show", Id(last)}).out,
              ContainsRegex(absl::StrCat("starts after +jobs ", one, ", ", two, "\n")));
  Touch(PathOf("one"));
  ASSERT_TRUE(Reaches(one, "COMPLETED"));
  EXPECT_EQ(StateOf(last), "PENDING");
  Touch(PathOf("two"));
  EXPECT_EQ(Ctl({"wait", Id(last)}).exit_code, 0);
  EXPECT_GE(TimeOf(Show(last), "start_time_ns"), TimeOf(Show(two), "end_time_ns"));
}

TEST_F(After, AJobThatHasCompletedAlreadyIsNotWaitedFor) {
  Start();
  const std::int64_t done = SubmitWith({}, {"true"});
  ASSERT_EQ(Ctl({"wait", Id(done)}).exit_code, 0);
  EXPECT_EQ(Ctl({"run", "--wait-free", "0", "--after", Id(done), "--", "true"}).exit_code, 0);
}

TEST_F(After, AJobThatFailedBeforeTheSubmitCancelsTheOneAfterItAndItNeverRuns) {
  Start();
  const std::int64_t failed = SubmitWith({}, {"false"});
  ASSERT_EQ(Ctl({"wait", Id(failed)}).exit_code, 1);
  const std::int64_t id = SubmitWith({"--after", Id(failed)}, {"touch", PathOf("ran")});
  const Result waited = Ctl({"wait", Id(id)});
  EXPECT_EQ(waited.exit_code, 1) << waited;
  EXPECT_THAT(waited.err,
              HasSubstr(absl::StrCat("job ", id, " cancelled: it was to start after job ", failed,
                                     ", which ended as FAILED")));
  EXPECT_EQ(Show(id).at("state"), "CANCELLED");
  EXPECT_EQ(Show(id).at("reason"), "DEPENDENCY_NEVER");
  EXPECT_THAT(Ctl({"show", Id(id)}).out, ContainsRegex("reason +DEPENDENCY_NEVER: "));
  EXPECT_FALSE(std::filesystem::exists(PathOf("ran")));
}

TEST_F(After, AJobThatFailsCancelsTheWholeChainAfterIt) {
  Start();
  const std::int64_t first = SubmitWith({}, UntilExists(PathOf("go"), 3));
  const std::int64_t second = SubmitWith({"--after", Id(first)}, {"touch", PathOf("ran")});
  const std::int64_t third = SubmitWith({"--after", Id(second)}, {"touch", PathOf("ran")});
  ChildProcess guard =
      StartCtl({"guard", "--wait-free", "0", "--after", Id(third), "--", "touch", PathOf("ran")});
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(guard.Err(), "DEPENDENCY: "); }))
      << guard.Err();
  Touch(PathOf("go"));
  EXPECT_TRUE(Reaches(second, "CANCELLED"));
  EXPECT_TRUE(Reaches(third, "CANCELLED"));
  EXPECT_EQ(guard.Wait().exit_code, 1);
  EXPECT_EQ(Show(third).at("reason"), "DEPENDENCY_NEVER");
  EXPECT_FALSE(std::filesystem::exists(PathOf("ran")));
}

TEST_F(After, AnIdThatNeverWasIsRefused) {
  Start();
  const Result result = Ctl({"submit", "--after", "4711", "--", "true"});
  EXPECT_EQ(result.exit_code, 2) << result;
  EXPECT_THAT(result.err, HasSubstr("--after: there is no job 4711"));
  EXPECT_EQ(CountJobs(), 0u);
}

// ---- --group ----

TEST_F(Rules, AGroupRunsNoMoreAtOnceThanItsLimitAndOthersPass) {
  Start("group_limits = { gpu = 1 }\n");
  const std::int64_t first = SubmitWith({"--group", "gpu"}, UntilExists(PathOf("first")));
  ASSERT_TRUE(Reaches(first, "RUNNING"));
  const std::int64_t second = SubmitWith({"--group", "gpu"}, UntilExists(PathOf("second")));
  const auto blocker = BlockerOf(second, "GROUP");
  ASSERT_TRUE(blocker) << Show(second).dump(2);
  EXPECT_EQ(blocker->at("read"), 1);
  EXPECT_EQ(blocker->at("needed"), 1);
  EXPECT_THAT(Ctl({"show", Id(second)}).out, ContainsRegex("group +gpu\n"));
  EXPECT_EQ(Ctl({"run", "--wait-free", "0", "--group", "other", "--", "true"}).exit_code, 0);
  EXPECT_EQ(StateOf(second), "PENDING");
  Touch(PathOf("first"));
  EXPECT_TRUE(Reaches(second, "RUNNING"));
  Touch(PathOf("second"));
}

// ---- --begin ----

TEST_F(Rules, AJobDoesNotStartBeforeItsBeginTimeAndStartsThen) {
  Start();
  const absl::Time submitted = absl::Now();
  const std::int64_t id = SubmitWith({"--begin", "+2s"}, {"true"});
  const auto blocker = BlockerOf(id, "NOT_BEFORE");
  ASSERT_TRUE(blocker) << Show(id).dump(2);
  EXPECT_LE(blocker->at("ends_in_ns").get<std::int64_t>(), 2'000'000'000);
  EXPECT_THAT(Ctl({"show", Id(id)}).out,
              AllOf(ContainsRegex("NOT_BEFORE: not before .* in [0-9.]+m?s\n"),
                    ContainsRegex("not before +20[0-9][0-9]-[0-9][0-9]-[0-9][0-9] ")));
  EXPECT_EQ(Ctl({"wait", Id(id)}).exit_code, 0);
  const nlohmann::json job = Show(id);
  EXPECT_GE(TimeOf(job, "start_time_ns"), submitted + absl::Seconds(2));
  EXPECT_GE(job.at("start_time_ns"), job.at("begin_time_ns"));
}

TEST_F(Rules, ABeginTimeIsKeptOverARestartOfTheDaemon) {
  Start();
  const std::int64_t id = SubmitWith({"--begin", "+1h"}, {"true"});
  const nlohmann::json before = Show(id);
  KillDaemon();
  StartDaemon();
  EXPECT_EQ(Show(id).at("begin_time_ns"), before.at("begin_time_ns"));
  EXPECT_TRUE(BlockerOf(id, "NOT_BEFORE"));
}

// ---- --time ----

TEST_F(Rules, AJobThatReachesItsTimeLimitEndsAsTimeoutAndRunExitsWith1) {
  Start();
  const Result result =
      Ctl({"run", "--wait-free", "0", "--time", "1s", "--", "sh", "-c", "echo on; exec sleep 600"});
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_EQ(result.out, "on\n");
  EXPECT_THAT(result.err,
              HasSubstr("stageload: job 1 stopped: TIMEOUT: it ran for its time limit of 1s"));
  const nlohmann::json job = Show(1);
  EXPECT_EQ(job.at("state"), "TIMEOUT");
  EXPECT_EQ(job.at("reason"), "TIMEOUT");
  EXPECT_EQ(job.at("policy").at("time_limit_ns"), 1'000'000'000);
  EXPECT_GE(TimeOf(job, "end_time_ns"), TimeOf(job, "start_time_ns") + absl::Seconds(1));
  EXPECT_EQ(Ctl({"wait", "1"}).exit_code, 1);
}

TEST_F(Rules, ATimeLimitIsNoSuccessAlsoWhenTheCommandExitsWith0) {
  Start();
  const Arguments command = {"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.02; done"};
  const Arguments terms = {"--wait-free", "0", "--time", "500ms", "--"};
  EXPECT_EQ(Ctl(Arguments{"run"} + terms + command).exit_code, 1);
  const Result guard = Ctl(Arguments{"guard"} + terms + command);
  EXPECT_EQ(guard.exit_code, 1) << guard;
  EXPECT_THAT(guard.err, HasSubstr("stageload: stopped: TIMEOUT: "));
  EXPECT_EQ(StateOf(2), "TIMEOUT");
}

TEST_F(Rules, AJobThatEndsBeforeItsTimeLimitIsLeftAlone) {
  Start();
  EXPECT_EQ(Ctl({"run", "--wait-free", "0", "--time", "1h", "--", "sh", "-c", "exit 7"}).exit_code,
            7);
}

// ---- --memory auto ----

TEST_F(Rules, MemoryAutoDeclaresWhatTheProfilesRunsHaveNeeded) {
  Start();
  const Arguments load = {kLoadProgram, "--hold", "64M", "--for", "2s"};
  const Arguments auto_terms = {"--memory", "auto", "--profile", "load"};
  const std::int64_t unknown = SubmitWith(auto_terms, load);
  ASSERT_EQ(Ctl({"wait", Id(unknown)}).exit_code, 0);
  EXPECT_FALSE(Show(unknown).at("policy").contains("memory_bytes")) << "nothing was known yet";
  EXPECT_THAT(Ctl({"show", Id(unknown)}).out, HasSubstr("auto, of which nothing was known yet"));

  const std::int64_t known = SubmitWith(auto_terms, load);
  ASSERT_TRUE(Reaches(known, "RUNNING"));
  const nlohmann::json policy = Show(known).at("policy");
  EXPECT_EQ(policy.at("memory_auto"), true);
  // The peak and a tenth. No upper bound: what the machine did meanwhile may count as its own.
  EXPECT_GE(policy.value("memory_bytes", std::int64_t{0}), std::int64_t{70} << 20);
  EXPECT_THAT(Ctl({"show", Id(known)}).out, ContainsRegex("memory +[0-9.]+ [KMGT]iB \\(auto\\)\n"));
  EXPECT_EQ(Ctl({"cancel", Id(known)}).exit_code, 0);
}

// ---- The other terms, and a dry run ----

TEST_F(Rules, ChargeModeAndActionAreKeptAndShown) {
  Start();
  const std::int64_t id =
      SubmitWith({"--charge", "own", "--on-over-budget", "warn"}, UntilExists(PathOf("go")));
  const nlohmann::json policy = Show(id).at("policy");
  EXPECT_EQ(policy.at("charge_mode"), "OWN");
  EXPECT_EQ(policy.at("on_over_budget"), "WARN");
  EXPECT_THAT(Ctl({"show", Id(id)}).out,
              AllOf(ContainsRegex("charge mode +OWN\n"), ContainsRegex("on over budget +WARN\n")));
  const std::int64_t plain = SubmitWith({}, UntilExists(PathOf("go")));
  EXPECT_EQ(Show(plain).at("policy").at("charge_mode"), "SYSTEM");
  EXPECT_THAT(Ctl({"show", Id(plain)}).out,
              Not(testing::AnyOf(HasSubstr("charge mode"), HasSubstr("on over budget"))));
  Touch(PathOf("go"));
}

TEST_F(Rules, ADryRunTellsWhomItWouldStopAndStopsOnlyWhatAUserCancels) {
  Start("", {"--dry-run"});
  EXPECT_TRUE(LogSays("dry run: "));
  const std::int64_t id = SubmitWith({"--time", "500ms"}, {"sleep", "600"});
  EXPECT_TRUE(LogSays(absl::StrCat("would_stop job=", id, " dry run: TIMEOUT: ")));
  EXPECT_EQ(StateOf(id), "RUNNING");
  EXPECT_EQ(Ctl({"cancel", Id(id)}).exit_code, 0);
  EXPECT_TRUE(Reaches(id, "CANCELLED"));
  EXPECT_EQ(Show(id).at("signal"), SIGTERM);
}

TEST_F(Rules, WithoutADryRunTheLogDoesNotSpeakOfOne) {
  Start();
  EXPECT_TRUE(LogSays("listens stageloadd "));
  EXPECT_THAT(ReadFile(paths().logs + "/stageloadd.log"), Not(HasSubstr("dry run")));
}

}  // namespace
}  // namespace stageload::e2e
