// A job is a whole tree of processes, wherever they go and whoever of those that look after them is
// killed. Linux: states and parents are read from /proc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// The fields of /proc/<pid>/stat after the name (proc(5)), the state first; none when it is gone.
std::vector<std::string> StatOf(pid_t pid) {
  const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  std::vector<std::string> fields;
  if (stat.empty()) return fields;
  std::istringstream text(stat.substr(stat.rfind(')') + 1));
  for (std::string field; text >> field;) fields.push_back(field);
  return fields;
}
// '-' when it is gone.
char StateOfProcess(pid_t pid) {
  const std::vector<std::string> stat = StatOf(pid);
  return stat.empty() ? '-' : stat[0][0];
}
std::int64_t TicksOf(pid_t pid) {
  const std::vector<std::string> stat = StatOf(pid);
  return stat.size() < 13 ? -1 : std::stoll(stat[11]) + std::stoll(stat[12]);
}

class ProcessTree : public DaemonTest {
 protected:
  using Pids = std::map<std::string, pid_t>;

  void SetUp() override {
    DaemonTest::SetUp();
    WriteConfig("settle = \"0s\"\n");
    StartDaemon();
  }

  std::int64_t SubmitTree(const Arguments& what, const Arguments& options = {}) {
    const std::int64_t id = Submit(options + Arguments{"--", STAGELOAD_E2E_TREE} + what);
    EXPECT_TRUE(Reaches(id, "RUNNING"));
    return id;
  }
  // Waits until each has written itself down.
  Pids PidsOf(const std::vector<std::string>& names) {
    Pids pids;
    for (const std::string& name : names) {
      EXPECT_TRUE(Eventually([&] { return absl::SimpleAtoi(ReadFile(PathOf(name)), &pids[name]); }))
          << name;
    }
    return pids;
  }
  Pids Scattered() {
    return PidsOf({"command", "child", "group", "session", "child of session", "orphan", "daemon",
                   "child of daemon"});
  }
  // "command R, child T, ..."
  static std::string StatesOf(const Pids& pids) {
    std::string text;
    for (const auto& [name, pid] : pids) {
      absl::StrAppend(&text, name, " (", pid, ") ", std::string(1, StateOfProcess(pid)), ", ");
    }
    return text;
  }
  static bool AllAre(const Pids& pids, const std::string& states) {
    for (const auto& [name, pid] : pids) {
      if (states.find(StateOfProcess(pid)) == std::string::npos) return false;
    }
    return true;
  }
  // Neither alive nor a zombie.
  static bool AllGone(const Pids& pids) {
    const bool gone = Eventually([&] { return AllAre(pids, "-"); });
    EXPECT_TRUE(gone) << StatesOf(pids);
    return gone;
  }
  // The daemon has seen so many processes of its one job at its last look.
  bool Counts(std::size_t processes) {
    std::size_t counted = 0;
    const bool right = Eventually([&] {
      const auto clients =
          CtlJson({"status"}).at("frame").value("clients", nlohmann::json::array());
      if (clients.size() == 1) counted = clients[0].value("processes", std::size_t{0});
      return counted == processes;
    });
    EXPECT_TRUE(right) << counted;
    return right;
  }
  static std::map<std::string, std::int64_t> Ticks(const Pids& pids) {
    std::map<std::string, std::int64_t> ticks;
    for (const auto& [name, pid] : pids) ticks[name] = TicksOf(pid);
    return ticks;
  }
  static bool AllProgress(const Pids& pids) {
    const auto before = Ticks(pids);
    return Eventually([&] {
      for (const auto& [name, pid] : pids) {
        if (TicksOf(pid) <= before.at(name)) return false;
      }
      return true;
    });
  }

  pid_t ShimOf(std::int64_t id) {
    pid_t pid = 0;
    std::istringstream(ReadFile(absl::StrCat(paths().jobs, "/", id, "/job.lock"))) >> pid;
    return pid;
  }
  void KillShimOf(std::int64_t id) {
    const pid_t shim = ShimOf(id);
    ASSERT_GT(shim, 1);
    ASSERT_THAT(ReadFile(absl::StrCat("/proc/", shim, "/cmdline")), HasSubstr("stageload-shim"));
    ASSERT_EQ(kill(shim, SIGKILL), 0);
    ASSERT_TRUE(Eventually([&] { return StateOfProcess(shim) == '-'; }));
  }
  bool Cancel(std::int64_t id) { return Ctl({"cancel", Id(id)}).exit_code == 0; }
  bool LogSays(const std::string& text) {
    return Eventually(
        [&] { return ReadFile(paths().logs + "/stageloadd.log").find(text) != std::string::npos; });
  }
};

// ---- A tree that scatters ----

TEST_F(ProcessTree, S26_SuspendStopsEveryDescendantWhereverItWentAndResumeLetsAllGoOn) {
  const std::int64_t id = SubmitTree({"scatter"});
  const Pids pids = Scattered();
  ASSERT_TRUE(AllProgress(pids));
  ASSERT_EQ(Ctl({"suspend", Id(id)}).exit_code, 0);
  EXPECT_TRUE(Eventually([&] { return AllAre(pids, "T"); })) << StatesOf(pids);
  const auto before = Ticks(pids);
  absl::SleepFor(absl::Seconds(1));  // a time in which each would use ten ticks
  EXPECT_EQ(Ticks(pids), before);
  EXPECT_EQ(StateOf(id), "SUSPENDED");
  ASSERT_EQ(Ctl({"resume", Id(id)}).exit_code, 0);
  EXPECT_TRUE(AllProgress(pids)) << StatesOf(pids);
  EXPECT_TRUE(Cancel(id));
  EXPECT_TRUE(Reaches(id, "CANCELLED"));
  EXPECT_TRUE(AllGone(pids));
}

TEST_F(ProcessTree, ANextDaemonHoldsTheWholeTreeToo) {
  const std::int64_t id = SubmitTree({"scatter"});
  const Pids pids = Scattered();
  KillDaemon();
  StartDaemon();
  ASSERT_EQ(Ctl({"suspend", Id(id)}).exit_code, 0);
  EXPECT_TRUE(Eventually([&] { return AllAre(pids, "T"); })) << StatesOf(pids);
  EXPECT_TRUE(Cancel(id));
  EXPECT_TRUE(Reaches(id, "CANCELLED"));
  EXPECT_TRUE(AllGone(pids));
}

TEST_F(ProcessTree, AllOfItIsCountedAndThePidIsTheCommands) {
  const std::int64_t id = SubmitTree({"scatter"});
  const Pids pids = Scattered();
  EXPECT_EQ(Show(id).value("pid", 0), pids.at("command"));
  const auto rows = CtlJson({"queue"}).at("jobs");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].value("pid", 0), pids.at("command"));
  EXPECT_TRUE(Counts(pids.size()));
  EXPECT_TRUE(Cancel(id));
  EXPECT_TRUE(Reaches(id, "CANCELLED"));
}

// ---- Stopping ----

TEST_F(ProcessTree, S12_ACommandThatIgnoresSigtermIsKilledAfterItsGraceTime) {
  const std::int64_t id = Submit({"--grace", "1s", "--", "sh", "-c",
                                  "trap '' TERM; echo $$ > command; "
                                  "while :; do sleep 0.05; done"});
  const Pids pids = PidsOf({"command"});
  const absl::Time asked = absl::Now();
  EXPECT_TRUE(Cancel(id));
  EXPECT_TRUE(Cancel(id));  // asked twice, the grace time goes on
  EXPECT_EQ(StateOf(id), "STOPPING");
  EXPECT_TRUE(Reaches(id, "CANCELLED"));
  const absl::Duration took = absl::Now() - asked;
  EXPECT_GE(took, absl::Seconds(1));
  EXPECT_LT(took, absl::Seconds(10));
  EXPECT_EQ(Show(id).value("signal", 0), SIGKILL);
  EXPECT_THAT(Show(id).value("reason_text", ""), HasSubstr("SIGKILL: its grace time is over"));
  EXPECT_TRUE(AllGone(pids));
}

TEST_F(ProcessTree, AChildThatIgnoresSigtermKeepsItStoppingUntilItIsKilled) {
  const std::int64_t id = SubmitTree({"stubborn"}, {"--grace", "1s"});
  const Pids pids = PidsOf({"command", "child"});
  EXPECT_TRUE(Cancel(id));
  // The command goes at once, and with it in the end its shim.
  EXPECT_TRUE(Eventually([&] { return StateOfProcess(pids.at("command")) == '-'; }));
  EXPECT_TRUE(Reaches(id, "CANCELLED"));
  const char child = StateOfProcess(pids.at("child"));  // init may not have waited for it yet
  EXPECT_TRUE(child == '-' || child == 'Z') << "the job ended before its child: " << child;
  EXPECT_TRUE(AllGone(pids));
}

TEST_F(ProcessTree, S16_ACancelledJobThatIsSuspendedRunsItsHandlerAndThoseOfItsChildren) {
  const std::string handler =
      "trap 'echo x > NAME.handled; exit 0' TERM; echo $$ > NAME; "
      "while :; do sleep 0.05; done";
  const auto with = [&](const std::string& name) {
    std::string text = handler;
    for (std::size_t at; (at = text.find("NAME")) != std::string::npos;) text.replace(at, 4, name);
    return text;
  };
  const std::int64_t id =
      Submit({"--", "sh", "-c", "(setsid sh -c \"$1\") & " + with("command"), "sh", with("child")});
  const Pids pids = PidsOf({"command", "child"});
  ASSERT_EQ(Ctl({"suspend", Id(id)}).exit_code, 0);
  // A shell may be stopped in a vfork(2): then it waits, uninterruptibly, for its stopped child.
  ASSERT_TRUE(Eventually([&] { return AllAre(pids, "TD"); })) << StatesOf(pids);
  EXPECT_TRUE(Cancel(id));
  EXPECT_TRUE(Reaches(id, "CANCELLED"));
  EXPECT_TRUE(std::filesystem::exists(PathOf("command.handled")));
  EXPECT_TRUE(std::filesystem::exists(PathOf("child.handled")));
  EXPECT_TRUE(AllGone(pids));
}

TEST_F(ProcessTree, ProcessesThatMultiplyWhileTheyAreKilledAreAllCaught) {
  const std::int64_t id = SubmitTree({"hop", "10"}, {"--grace", "200ms"});
  PidsOf({"command"});
  EXPECT_TRUE(Cancel(id));
  EXPECT_TRUE(Reaches(id, "CANCELLED"));
  for (const FoundProcess& process : ProcessesOf(folder())) {
    EXPECT_THAT(process.command, Not(HasSubstr(STAGELOAD_E2E_TREE))) << process.pid;
  }
}

// ---- Zombies ----

TEST_F(ProcessTree, NoZombieIsLeftWhileItRunsNorAfterIt) {
  const std::int64_t id = SubmitTree({"litter"});
  const pid_t command = PidsOf({"command"}).at("command");
  const pid_t shim = ShimOf(id);
  const auto zombies_of = [](pid_t parent) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      pid_t pid = 0;
      if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
      const std::vector<std::string> stat = StatOf(pid);
      if (stat.size() > 1 && stat[0] == "Z" && stat[1] == absl::StrCat(parent)) ++count;
    }
    return count;
  };
  EXPECT_TRUE(Eventually([&] { return zombies_of(command) == 100; }))
      << zombies_of(command) << ": those that it does not wait for are its own";
  EXPECT_TRUE(Eventually([&] { return zombies_of(shim) == 0; })) << zombies_of(shim);
  EXPECT_TRUE(Cancel(id));
  EXPECT_TRUE(Reaches(id, "CANCELLED"));
  EXPECT_TRUE(AllGone({{"command", command}, {"shim", shim}}));
  EXPECT_TRUE(Eventually([&] { return zombies_of(DaemonPid()) == 0; }));
}

// ---- What a job leaves running ----

TEST_F(ProcessTree, AJobThatLeavesProcessesBehindEndsWithItsCodeAndNamesThem) {
  const Result run = Ctl({"run", "--", "sh", "-c",
                          "for i in 1 2 3 4; do setsid sleep 600.$i < /dev/null > /dev/null 2>&1 & "
                          "echo $! > left$i; done; exit 3"});
  EXPECT_EQ(run.exit_code, 3) << run;
  const Pids left = PidsOf({"left1", "left2", "left3", "left4"});
  const nlohmann::json job = Show(1);
  EXPECT_EQ(job.value("state", ""), "FAILED");
  EXPECT_EQ(job.value("exit_code", 0), 3);
  EXPECT_FALSE(job.contains("reason"));
  EXPECT_THAT(job.value("reason_text", ""),
              AllOf(ContainsRegex("^left 4 processes running, no longer watched: [0-9]+ sleep 600"),
                    HasSubstr(absl::StrCat(left.at("left1"))), testing::EndsWith(", ...")));
  EXPECT_THAT(Ctl({"show", "1"}).out, HasSubstr("left 4 processes running"));
  EXPECT_TRUE(LogSays("left 4 processes running"));
  EXPECT_TRUE(AllAre(left, "S")) << StatesOf(left);
}

TEST_F(ProcessTree, AJobThatLeavesNothingSaysNothing) {
  EXPECT_EQ(Ctl({"run", "--", "sh", "-c", "sleep 0.01 & wait; exit 3"}).exit_code, 3);
  EXPECT_EQ(Show(1).value("reason_text", "?"), "");
}

TEST_F(ProcessTree, AStopTakesWhatTheCommandWouldLeaveBehindWithIt) {
  const std::int64_t id = Submit({"--grace", "1s", "--", "sh", "-c",
                                  "setsid sh -c 'echo $$ > left; sleep 600' > /dev/null 2>&1 & "
                                  "echo $$ > command; sleep 600 & wait"});
  const Pids pids = PidsOf({"command", "left"});
  EXPECT_TRUE(Cancel(id));
  EXPECT_TRUE(Reaches(id, "CANCELLED"));
  EXPECT_TRUE(AllGone(pids));
}

TEST_F(ProcessTree, ADaemonThatWasNotThereAtTheEndStopsWhatIsLeftAllTheSame) {
  const std::int64_t id = SubmitTree({"stubborn"}, {"--grace", "1s"});
  const Pids pids = PidsOf({"command", "child"});
  EXPECT_TRUE(Cancel(id));
  KillDaemon();
  ASSERT_TRUE(Eventually([&] { return StateOfProcess(ShimOf(id)) == '-'; }));
  ASSERT_EQ(StateOfProcess(pids.at("child")), 'S');
  StartDaemon();
  EXPECT_TRUE(Reaches(id, "CANCELLED"));
  EXPECT_TRUE(AllGone(pids));
}

// ---- The shim is killed ----

class KilledShim : public ProcessTree {
 protected:
  // Runs until `go` exists, notes that it ran, and exits with 7.
  Arguments Command() const {
    return {"--", "sh", "-c",
            "echo $$ > command; echo x >> runs; while [ ! -e go ]; do sleep 0.02; done; exit 7"};
  }
  void NextDaemon() {
    KillDaemon();
    StartDaemon();
  }
  void ExpectUnseenEnd(std::int64_t id) {
    Touch(PathOf("go"));
    EXPECT_TRUE(Reaches(id, "UNKNOWN"));
    const nlohmann::json job = Show(id);
    EXPECT_FALSE(job.contains("exit_code") || job.contains("signal")) << job.dump(2);
    EXPECT_EQ(job.value("reason", ""), "LOST");
    EXPECT_THAT(job.value("reason_text", ""),
                ContainsRegex("^its shim \\(process [0-9]+\\) was killed, so nobody saw how its "
                              "command ended$"));
    EXPECT_EQ(Ctl({"wait", Id(id)}).exit_code, 1) << "never a success";
    EXPECT_EQ(ReadFile(PathOf("runs")), "x\n") << "it ran more or less than once";
  }
};

TEST_F(KilledShim, TheJobRunsOnUnderItsCommandAndEndsAsUnknown) {
  const std::int64_t id = Submit(Command());
  const pid_t command = PidsOf({"command"}).at("command");
  KillShimOf(id);
  EXPECT_TRUE(LogSays("shim_lost"));
  EXPECT_EQ(StateOf(id), "RUNNING");
  EXPECT_EQ(Show(id).value("pid", 0), command);
  ExpectUnseenEnd(id);
}

TEST_F(KilledShim, ANextDaemonFindsTheCommandAndCountsItOn) {
  const std::int64_t id = Submit(Command());
  const pid_t command = PidsOf({"command"}).at("command");
  KillDaemon();
  KillShimOf(id);
  StartDaemon();
  EXPECT_EQ(StateOf(id), "RUNNING");
  EXPECT_EQ(Show(id).value("pid", 0), command);
  EXPECT_TRUE(Eventually([&] { return Show(id).contains("footprint_bytes"); }));
  NextDaemon();
  EXPECT_EQ(StateOf(id), "RUNNING");
  ExpectUnseenEnd(id);
}

TEST_F(KilledShim, ACommandThatEndedWhileNobodyWasThereIsUnknownAndNotRunAgain) {
  const std::int64_t id = Submit(Command());
  const Pids pids = PidsOf({"command"});
  KillDaemon();
  KillShimOf(id);
  Touch(PathOf("go"));
  ASSERT_TRUE(AllGone(pids));
  StartDaemon();
  ExpectUnseenEnd(id);
}

TEST_F(KilledShim, TheTreeIsStillSuspendedResumedAndCancelled) {
  const std::int64_t id = SubmitTree({"scatter"});
  const Pids pids = Scattered();
  ASSERT_TRUE(Counts(pids.size()));
  KillShimOf(id);
  ASSERT_EQ(Ctl({"suspend", Id(id)}).exit_code, 0);
  EXPECT_TRUE(Eventually([&] { return AllAre(pids, "T"); })) << StatesOf(pids);
  ASSERT_EQ(Ctl({"resume", Id(id)}).exit_code, 0);
  EXPECT_TRUE(AllProgress(pids));
  EXPECT_TRUE(Cancel(id));
  EXPECT_TRUE(Reaches(id, "CANCELLED"));
  EXPECT_TRUE(AllGone(pids));
}

TEST_F(KilledShim, ANextDaemonHoldsWhatIsInTheJobsSessionOrBelowItsCommand) {
  const std::int64_t id = SubmitTree({"scatter"});
  Pids pids = Scattered();
  KillDaemon();
  KillShimOf(id);
  StartDaemon();
  // These left the session and lost their parents, and nobody was there to see whose they were.
  Pids lost;
  for (const std::string name : {"daemon", "child of daemon"}) {
    lost.insert(pids.extract(name));
  }
  ASSERT_EQ(Ctl({"suspend", Id(id)}).exit_code, 0);
  EXPECT_TRUE(Eventually([&] { return AllAre(pids, "T"); })) << StatesOf(pids);
  EXPECT_TRUE(Cancel(id));
  EXPECT_TRUE(Reaches(id, "CANCELLED"));
  EXPECT_TRUE(AllGone(pids));
  EXPECT_TRUE(AllAre(lost, "SR")) << StatesOf(lost);
}

// ---- What a command used ----

TEST_F(ProcessTree, ShowTellsWhatAnEndedJobHasUsed) {
  const std::int64_t id = Submit({"--", "sh", "-c", "head -c 50000000 /dev/zero | sha256sum"});
  EXPECT_EQ(Ctl({"wait", Id(id)}).exit_code, 0);
  const nlohmann::json job = Show(id);
  const nlohmann::json use = job.value("resource_use", nlohmann::json::object());
  EXPECT_GT(use.value("user_time_ns", 0) + use.value("system_time_ns", 0), 0) << job.dump(2);
  EXPECT_GT(use.value("max_rss_bytes", 0), 100'000);
  EXPECT_EQ(job.value("log_dropped_bytes", -1), 0);
  EXPECT_THAT(Ctl({"show", Id(id)}).out,
              AllOf(ContainsRegex("cpu time +.* user, .* system\n"),
                    ContainsRegex("max rss +[0-9]"), Not(HasSubstr("log dropped"))));
}

}  // namespace
}  // namespace stageload::e2e
