// Jobs from submit to their end.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::HasSubstr;

class Queue : public DaemonTest {};

constexpr const char* kPoolOf250M = "memory_pool = \"250M\"\n";

std::uintmax_t BytesIn(const std::string& folder) {
  std::uintmax_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored)) bytes += entry.file_size(ignored);
  }
  return bytes;
}

TEST_F(Queue, TwoJobsRunAndTheThirdWaitsForTheMemoryThatTheyDeclared) {
  WriteConfig(kPoolOf250M);
  StartDaemon();
  const Arguments terms = {"--wait-free", "0", "--memory", "100M", "--"};
  const std::int64_t first = Submit(terms + UntilExists(PathOf("first may end")));
  const std::int64_t second = Submit(terms + UntilExists(PathOf("others may end")));
  const std::int64_t third = Submit(terms + UntilExists(PathOf("others may end")));
  ASSERT_TRUE(Reaches(first, "RUNNING"));
  ASSERT_TRUE(Reaches(second, "RUNNING"));

  ASSERT_EQ(StateOf(third), "PENDING");
  const auto blocker = BlockerOf(third, "MEMORY");
  ASSERT_TRUE(blocker) << Show(third).dump(2);
  EXPECT_EQ(blocker->at("needed"), 100.0 * 1024 * 1024);
  EXPECT_EQ(blocker->at("read"), 50.0 * 1024 * 1024);
  EXPECT_THAT(blocker->at("text").get<std::string>(), HasSubstr("needs 100 MiB, 50 MiB left"));
  EXPECT_THAT(Ctl({"show", Id(third)}).out, HasSubstr("MEMORY: needs 100 MiB, 50 MiB left"));

  Touch(PathOf("first may end"));
  ASSERT_TRUE(Reaches(third, "RUNNING"));
  EXPECT_EQ(StateOf(first), "COMPLETED");
  EXPECT_EQ(StateOf(second), "RUNNING");
  Touch(PathOf("others may end"));
  EXPECT_EQ(Ctl({"wait", Id(first), Id(second), Id(third)}).exit_code, 0);
  EXPECT_EQ(StateOf(second), "COMPLETED");
  EXPECT_EQ(StateOf(third), "COMPLETED");
}

TEST_F(Queue, SubmitPrintsOnlyTheId) {
  StartDaemon();
  const Result first = Ctl({"submit", "--", "true"});
  EXPECT_EQ(first.exit_code, 0) << first;
  EXPECT_EQ(first.out, "1\n");
  EXPECT_EQ(first.err, "");
  EXPECT_EQ(Ctl({"submit", "--", "true"}).out, "2\n");
}

TEST_F(Queue, RunPassesBothOutputsSeparatelyAndTheExitCode) {
  StartDaemon();
  const Result result =
      Ctl({"run", "--wait-free", "0", "--", "sh", "-c", "echo to out; echo to err >&2; exit 6"});
  EXPECT_EQ(result.exit_code, 6) << result;
  EXPECT_EQ(result.out, "to out\n");
  EXPECT_THAT(result.err, HasSubstr("to err\n"));
}

TEST_F(Queue, RunOfAJobEndedByASignalExitsWith128AndTheSignal) {
  StartDaemon();
  EXPECT_EQ(Ctl({"run", "--wait-free", "0", "--", "sh", "-c", "kill -USR1 $$"}).exit_code,
            128 + SIGUSR1);
}

TEST_F(Queue, RunOfACommandThatIsNotThereExitsWith127AndSaysSo) {
  StartDaemon();
  const Result result = Ctl({"run", "--wait-free", "0", "--", "/no/such/command"});
  EXPECT_EQ(result.exit_code, 127) << result;
  EXPECT_THAT(result.err, HasSubstr("/no/such/command"));
}

TEST_F(Queue, WaitForTwoJobsExitsWithTheHigherCode) {
  StartDaemon();
  const Arguments terms = {"--wait-free", "0", "--"};
  const std::int64_t high = Submit(terms + Arguments{"sh", "-c", "exit 9"});
  const std::int64_t low = Submit(terms + Arguments{"sh", "-c", "exit 2"});
  EXPECT_EQ(Ctl({"wait", Id(high), Id(low)}).exit_code, 9);
  EXPECT_EQ(Ctl({"wait", Id(low), Id(high)}).exit_code, 9);
  EXPECT_EQ(Ctl({"wait", Id(low)}).exit_code, 2);
}

TEST_F(Queue, WaitForAnUnknownIdIsAnErrorThatNamesIt) {
  StartDaemon();
  const std::int64_t known = Submit({"--wait-free", "0", "--", "true"});
  const Result result = Ctl({"wait", Id(known), "4711"});
  EXPECT_NE(result.exit_code, 0) << result;
  EXPECT_THAT(result.err, HasSubstr("4711"));
}

TEST_F(Queue, CancelOfAPendingJobEndsItAtOnceAndItNeverRuns) {
  StartDaemon();
  const std::int64_t id = Submit({"--wait-free", "100", "--", "touch", PathOf("ran")});
  ASSERT_EQ(StateOf(id), "PENDING");
  EXPECT_EQ(Ctl({"cancel", Id(id)}).exit_code, 0);
  EXPECT_EQ(StateOf(id), "CANCELLED");
  EXPECT_NE(Ctl({"wait", Id(id)}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(PathOf("ran")));
}

TEST_F(Queue, CancelOfARunningJobEndsItsWholeTree) {
  StartDaemon();
  const std::int64_t id =
      Submit({"--wait-free", "0", "--", "sh", "-c", "sleep 611 & echo started; wait"});
  ASSERT_TRUE(Reaches(id, "RUNNING"));
  ASSERT_TRUE(Eventually([&] { return Ctl({"logs", Id(id)}).out == "started\n"; }));
  EXPECT_EQ(Ctl({"cancel", Id(id)}).exit_code, 0);
  EXPECT_TRUE(Reaches(id, "CANCELLED"));
  EXPECT_TRUE(Eventually([&] {
    for (const FoundProcess& process : ProcessesOf(folder())) {
      if (process.command.find("sleep 611") != std::string::npos) return false;
    }
    return true;
  })) << "the job's child still runs";
}

TEST_F(Queue, AJobThatIgnoresSigtermIsKilledAfterItsGraceTimeHoweverOftenItIsCancelled) {
  StartDaemon();
  const std::int64_t id = Submit({"--wait-free", "0", "--grace", "2s", "--", kLoadProgram, "--hold",
                                  "1M", "--for", "600s", "--ignore-term"});
  ASSERT_TRUE(Reaches(id, "RUNNING"));
  // Until the load has touched its page it may not ignore the signal yet.
  ASSERT_TRUE(Eventually([&] { return Show(id).value("footprint_bytes", 0) >= 1024 * 1024; }));
  const absl::Time asked = absl::Now();
  EXPECT_EQ(Ctl({"cancel", Id(id)}).exit_code, 0);
  EXPECT_EQ(StateOf(id), "STOPPING");
  EXPECT_EQ(Ctl({"cancel", Id(id)}).exit_code, 0);
  ASSERT_TRUE(Reaches(id, "CANCELLED"));
  const absl::Duration took = absl::Now() - asked;
  EXPECT_GE(took, absl::Milliseconds(1900));
  EXPECT_LE(took, absl::Seconds(10));
  EXPECT_EQ(Show(id).at("signal"), SIGKILL);

  const Result late = Ctl({"cancel", Id(id)});
  EXPECT_EQ(late.exit_code, 1) << late;
  EXPECT_THAT(late.err, HasSubstr("CANCELLED"));
}

TEST_F(Queue, LogsFollowEndsWhenTheJobEnds) {
  StartDaemon();
  const std::int64_t id =
      Submit({"--wait-free", "0", "--", "sh", "-c",
              absl::StrCat("echo first; while [ ! -e ", PathOf("go"),
                           " ]; do sleep 0.02; done; echo last; echo err >&2")});
  ChildProcess follow = StartCtl({"logs", "-f", Id(id)});
  ASSERT_TRUE(follow.Prints("first\n")) << follow.Err();
  EXPECT_TRUE(follow.Running());
  Touch(PathOf("go"));
  const Result result = follow.Wait();
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out, "first\nlast\n");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_EQ(Ctl({"logs", Id(id)}).out, "first\nlast\n");
}

TEST_F(Queue, TheHigherPriorityGoesFirst) {
  WriteConfig(kPoolOf250M);
  StartDaemon();
  const Arguments terms = {"--wait-free", "0", "--memory", "200M"};
  const std::int64_t first = Submit(terms + Arguments{"--"} + UntilExists(PathOf("first")));
  ASSERT_TRUE(Reaches(first, "RUNNING"));
  const std::int64_t low = Submit(terms + Arguments{"--"} + UntilExists(PathOf("low")));
  const std::int64_t high =
      Submit(terms + Arguments{"--priority", "5", "--"} + UntilExists(PathOf("high")));
  EXPECT_EQ(Show(high).at("queue_position"), 1);
  EXPECT_EQ(Show(low).at("queue_position"), 2);
  Touch(PathOf("first"));
  ASSERT_TRUE(Reaches(high, "RUNNING"));
  EXPECT_EQ(StateOf(low), "PENDING");
  Touch(PathOf("high"));
  ASSERT_TRUE(Reaches(low, "RUNNING"));
  Touch(PathOf("low"));
  EXPECT_EQ(Ctl({"wait", Id(low)}).exit_code, 0);
}

TEST_F(Queue, AJobWithoutRoomBeforeItsStartTimeoutEndsAsNoRoom) {
  StartDaemon();
  const std::int64_t id =
      Submit({"--wait-free", "100", "--start-timeout", "1s", "--", "touch", PathOf("ran")});
  const Result result = Ctl({"wait", Id(id)});
  EXPECT_EQ(result.exit_code, 4) << result;
  const nlohmann::json job = Show(id);
  EXPECT_EQ(job.at("state"), "NO_ROOM");
  EXPECT_EQ(job.at("reason"), "START_TIMEOUT");
  EXPECT_THAT(job.at("reason_text").get<std::string>(), HasSubstr("100 %"));
  EXPECT_FALSE(std::filesystem::exists(PathOf("ran")));
}

TEST_F(Queue, ARunningJobShowsTheFootprintThatItReallyHas) {
  StartDaemon();
  const std::int64_t id =
      Submit({"--wait-free", "0", "--", kLoadProgram, "--hold", "100M", "--for", "600s"});
  EXPECT_TRUE(Eventually([&] { return Show(id).value("footprint_bytes", 0) >= 100 << 20; }));
  EXPECT_LT(Show(id).value("footprint_bytes", 0), 200 << 20);
  EXPECT_EQ(Ctl({"cancel", Id(id)}).exit_code, 0);
  ASSERT_TRUE(Reaches(id, "CANCELLED"));
  EXPECT_GE(Show(id).value("peak_footprint_bytes", 0), 100 << 20);
}

TEST_F(Queue, TheJobSeesExactlyTheSubmittersEnvironmentAndFolder) {
  StartDaemon({}, {"ONLY_THE_DAEMON_HAS_THIS=1"});
  const std::string odd = PathOf("a folder\nwith 'quotes', $HOME and ü");
  std::filesystem::create_directory(odd);
  Arguments variables;
  for (int i = 0; i < 200; ++i) {
    variables.push_back(absl::StrCat("VARIABLE_", i, "=value ", i, "\nline 'two' \"$HOME\" = ü"));
  }
  variables.push_back("EMPTY=");
  const CtlOptions from_there = {.environment = variables, .directory = odd};

  const Result environment = Ctl({"run", "--wait-free", "0", "--", "env", "-0"}, from_there);
  EXPECT_EQ(environment.exit_code, 0) << environment;
  std::vector<std::string> seen = absl::StrSplit(environment.out, '\0', absl::SkipEmpty());
  std::vector<std::string> given = Environment(variables);
  std::sort(seen.begin(), seen.end());
  std::sort(given.begin(), given.end());
  EXPECT_EQ(seen, given);

  // /bin/pwd asks the kernel; there is no PWD to copy from.
  const Result directory = Ctl({"run", "--wait-free", "0", "--", "/bin/pwd", "-P"}, from_there);
  EXPECT_EQ(directory.out, odd + "\n");
}

TEST_F(Queue, KillingTheClientInTheMiddleOfRunLeavesTheJobRunning) {
  StartDaemon();
  ChildProcess run = StartCtl(Arguments{"run", "--wait-free", "0", "--", "sh", "-c",
                                        absl::StrCat("echo started; while [ ! -e ", PathOf("go"),
                                                     " ]; do sleep 0.02; done; exit 5")});
  ASSERT_TRUE(run.Prints("started\n")) << run.Err();
  run.Signal(SIGKILL);
  EXPECT_EQ(run.Wait().exit_code, 128 + SIGKILL);
  EXPECT_EQ(StateOf(1), "RUNNING");
  Touch(PathOf("go"));
  EXPECT_EQ(Ctl({"wait", "1"}).exit_code, 5);
}

TEST_F(Queue, KillingTheDaemonLeavesTheJobRunningAndItsLogGrowing) {
  StartDaemon();
  const std::int64_t id =
      Submit({"--wait-free", "0", "--", "sh", "-c",
              absl::StrCat("while [ ! -e ", PathOf("go"),
                           " ]; do echo tick; sleep 0.02; done; touch ", PathOf("done"))});
  ASSERT_TRUE(Eventually([&] { return Ctl({"logs", Id(id)}).out.starts_with("tick\n"); }));
  const std::string log = Show(id).at("log_directory");
  KillDaemon();

  const std::uintmax_t then = BytesIn(log);
  ASSERT_GT(then, 0u);
  EXPECT_TRUE(Eventually([&] { return BytesIn(log) > then + 100; })) << "the log does not grow";
  EXPECT_FALSE(std::filesystem::exists(PathOf("done")));
  Touch(PathOf("go"));
  EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(PathOf("done")); }));
}

TEST_F(Queue, PendingJobsOutliveAKilledDaemonAndRunOnceUnderTheNext) {
  WriteConfig(kPoolOf250M);
  StartDaemon();
  const Arguments terms = {"--wait-free", "0", "--memory", "200M", "--"};
  const std::int64_t first = Submit(terms + UntilExists(PathOf("go")));
  ASSERT_TRUE(Reaches(first, "RUNNING"));
  const std::int64_t waiting =
      Submit(terms + Arguments{"sh", "-c", absl::StrCat("echo ran >> ", PathOf("runs"))});
  ASSERT_EQ(StateOf(waiting), "PENDING");
  KillDaemon();
  Touch(PathOf("go"));

  StartDaemon();
  EXPECT_EQ(Ctl({"wait", Id(waiting)}).exit_code, 0);
  EXPECT_EQ(StateOf(waiting), "COMPLETED");
  EXPECT_EQ(ReadFile(PathOf("runs")), "ran\n");
  // Never used again, also after a crash.
  EXPECT_GT(Submit({"--wait-free", "0", "--", "true"}), waiting);
}

TEST_F(Queue, AJobWhoseParentHasCompletedOutlivesARestartWhenTheParentIsForgotten) {
  StartDaemon();
  const std::int64_t parent = Submit({"--wait-free", "0", "--", "true"});
  ASSERT_EQ(Ctl({"wait", Id(parent)}).exit_code, 0);
  const std::int64_t child = Submit({"--hold", "--after", Id(parent), "--", "true"});
  ASSERT_EQ(Ctl({"clear"}).exit_code, 0);
  for (int restarts = 0; restarts < 2; ++restarts) {
    KillDaemon();
    StartDaemon();
    EXPECT_EQ(StateOf(child), "PENDING");
  }
}

TEST_F(Queue, AnEndedJobLeavesNoProcessBehind) {
  StartDaemon();
  EXPECT_EQ(Ctl({"run", "--wait-free", "0", "--", "true"}).exit_code, 0);
  EXPECT_TRUE(Eventually([&] { return ProcessesOf(folder()).size() == 1; }))
      << "only the daemon should be left";
}

}  // namespace
}  // namespace stageload::e2e
