// `stageloadctl guard` against a scripted daemon: what runs, when, and what the caller gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/client/ctl/fake_daemon.h"
#include "tests/client/ctl/program.h"

namespace stageload::ctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class GuardTest : public testing::Test {
 protected:
  // Admits at once and ends the job as `end` when its exit is reported.
  void AdmitThenEndAs(v1::JobState end) {
    daemon_.on_guard = [this, end](GuardScript& script) {
      script.Send(v1::JOB_STATE_RUNNING);
      if (!daemon_.AwaitReport()) return grpc::Status(grpc::StatusCode::ABORTED, "no report");
      script.Send(end);
      return grpc::Status::OK;
    };
  }
  std::string Path(const std::string& name) const { return daemon_.home() + "/" + name; }

  FakeDaemon daemon_;
};

TEST_F(GuardTest, ExitsWithTheCommandsCodeAndReportsIt) {
  AdmitThenEndAs(v1::JOB_STATE_FAILED);
  const Result result = RunProgram(
      daemon_.home(), {"guard", "--swap-budget", "8G", "--", "sh", "-c", "echo out; exit 7"});
  EXPECT_EQ(result.code, 7) << result.err;
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "");
  const auto report = daemon_.AwaitReport();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->id(), 3);
  EXPECT_EQ(report->exit_code(), 7);
  EXPECT_FALSE(report->has_signal());
}

TEST_F(GuardTest, ATraceDoesNotGoToTheCommandsStdout) {
  const Result result = RunProgram(daemon_.home(), {"guard", "--trace", "-", "--", "echo", "ran"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("--trace -: stdout is the command's"));
}

TEST_F(GuardTest, SendsThePidTheCommandAndThePolicy) {
  v1::GuardRequest request;
  daemon_.on_guard = [&](GuardScript& script) {
    request = script.request;
    script.Send(v1::JOB_STATE_RUNNING);
    (void)daemon_.AwaitReport();
    script.Send(v1::JOB_STATE_COMPLETED);
    return grpc::Status::OK;
  };
  const Result result =
      RunProgram(daemon_.home(), {"guard", "--name", "n", "--memory", "1G", "--after", "2,1",
                                  "--group", "gpu", "--time", "1h", "sh", "-c", "echo $$"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, std::to_string(request.pid()) + "\n");
  EXPECT_THAT(request.arguments(), ElementsAre("sh", "-c", "echo $$"));
  EXPECT_EQ(request.name(), "n");
  EXPECT_EQ(request.policy().memory_bytes(), 1 << 30);
  EXPECT_EQ(request.policy().time_limit_ns(), 60LL * 60 * 1'000'000'000);
  EXPECT_THAT(request.terms().after(), ElementsAre(2, 1));
  EXPECT_EQ(request.terms().group(), "gpu");
  EXPECT_FALSE(request.policy().has_start_timeout_ns()) << "the daemon has the default";
}

TEST_F(GuardTest, ExitsAsASignalOfTheCommandWould) {
  AdmitThenEndAs(v1::JOB_STATE_FAILED);
  EXPECT_EQ(RunProgram(daemon_.home(), {"guard", "sh", "-c", "kill -9 $$"}).code, 137);
  EXPECT_EQ(daemon_.AwaitReport()->signal(), SIGKILL);
}

TEST_F(GuardTest, RunsNothingBeforeThereIsRoomAndSaysWhatBlocks) {
  std::string mark = Path("ran");
  bool ran_early = true;
  daemon_.on_guard = [&](GuardScript& script) {
    script.Send(v1::JOB_STATE_PENDING, v1::REASON_UNSPECIFIED, "", "level 20 %, needs 40 %");
    ran_early = std::filesystem::exists(mark);
    script.Send(v1::JOB_STATE_NO_ROOM, v1::REASON_START_TIMEOUT,
                "no room within 2s: level 20 %, needs 40 %");
    return grpc::Status::OK;
  };
  const Result result = RunProgram(daemon_.home(), {"guard", "touch", mark});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("waits: LEVEL: level 20 %, needs 40 %"));
  EXPECT_THAT(result.err, HasSubstr("stageload: no room within 2s: level 20 %, needs 40 %"));
  EXPECT_EQ(result.out, "");
  EXPECT_FALSE(ran_early);
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST_F(GuardTest, SaysAgainWhatBlocksWhenThatChangesAndNotWithEachFigure) {
  daemon_.on_guard = [&](GuardScript& script) {
    for (const char* blocker :
         {"not looked for yet", "busy: 412 ollama", "busy: 413 ollama", "quiet for 3s"}) {
      script.Send(v1::JOB_STATE_PENDING, v1::REASON_UNSPECIFIED, "", blocker);
    }
    script.Send(v1::JOB_STATE_CANCELLED, v1::REASON_CANCELLED, "a user asked");
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunProgram(daemon_.home(), {"guard", "true"}).err,
            "stageload: job 3 waits: LEVEL: not looked for yet\n"
            "stageload: job 3 waits: LEVEL: busy: 412 ollama\n"
            "stageload: job 3 waits: LEVEL: quiet for 3s\n"
            "stageload: job 3 cancelled: a user asked\n");
}

TEST_F(GuardTest, StoppedForItsBudgetExitsThreeAndGivesTheFigures) {
  const std::string ready = Path("ready");
  daemon_.on_guard = [&](GuardScript& script) {
    script.Send(v1::JOB_STATE_RUNNING);
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(ready); }));
    script.Send(v1::JOB_STATE_STOPPING, v1::REASON_SWAP_BUDGET, "charge 9 GiB, budget 8 GiB");
    kill(-script.request.pid(), SIGTERM);
    EXPECT_TRUE(daemon_.AwaitReport());
    script.Send(v1::JOB_STATE_OUT_OF_MEMORY, v1::REASON_SWAP_BUDGET, "charge 9 GiB, budget 8 GiB");
    return grpc::Status::OK;
  };
  // It exits with 0 on SIGTERM: the budget is still what ended it.
  const Result result = RunProgram(
      daemon_.home(), {"guard", "sh", "-c",
                       "trap 'exit 0' TERM; echo > \"$0\"; while :; do sleep 0.01; done", ready});
  EXPECT_EQ(result.code, 3);
  // The shell may add its own line about a child that was terminated.
  EXPECT_THAT(result.err,
              HasSubstr("stageload: stopped: SWAP_BUDGET: charge 9 GiB, budget 8 GiB\n"));
}

TEST_F(GuardTest, StoppedForItsTimeLimitExitsOneAlsoWhenTheCommandExitsWithZero) {
  const std::string ready = Path("ready");
  daemon_.on_guard = [&](GuardScript& script) {
    script.Send(v1::JOB_STATE_RUNNING);
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(ready); }));
    script.Send(v1::JOB_STATE_STOPPING, v1::REASON_TIMEOUT, "it ran for its time limit of 1s");
    kill(-script.request.pid(), SIGTERM);
    EXPECT_TRUE(daemon_.AwaitReport());
    script.Send(v1::JOB_STATE_TIMEOUT, v1::REASON_TIMEOUT, "it ran for its time limit of 1s");
    return grpc::Status::OK;
  };
  const Result result = RunProgram(
      daemon_.home(), {"guard", "--time", "1s", "sh", "-c",
                       "trap 'exit 0' TERM; echo > \"$0\"; while :; do sleep 0.01; done", ready});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("stageload: stopped: TIMEOUT: it ran for its time limit"));
}

TEST_F(GuardTest, SaysThatItsCommandIsSuspendedAndGoesOnWithIt) {
  daemon_.on_guard = [&](GuardScript& script) {
    script.Send(v1::JOB_STATE_RUNNING);
    script.Send(v1::JOB_STATE_SUSPENDED, v1::REASON_SWAP_BUDGET, "charge 9 GiB, budget 8 GiB");
    script.Send(v1::JOB_STATE_SUSPENDED, v1::REASON_SWAP_BUDGET, "charge 9 GiB, budget 8 GiB");
    std::ofstream(Path("go")) << "x";
    script.Send(v1::JOB_STATE_RUNNING);
    EXPECT_TRUE(daemon_.AwaitReport());
    script.Send(v1::JOB_STATE_COMPLETED);
    return grpc::Status::OK;
  };
  const Result result =
      RunProgram(daemon_.home(), {"guard", "--on-over-budget", "suspend", "sh", "-c",
                                  "while [ ! -e \"$0\" ]; do sleep 0.01; done", Path("go")});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(
      result.err,
      "stageload: suspended: SWAP_BUDGET: charge 9 GiB, budget 8 GiB; `stageloadctl resume 3` "
      "lets it go on\n");
}

TEST_F(GuardTest, CancelledForAJobThatItWasToStartAfterRunsNothingAndExitsOne) {
  daemon_.on_guard = [](GuardScript& script) {
    script.Send(v1::JOB_STATE_CANCELLED, v1::REASON_DEPENDENCY_NEVER,
                "it was to start after job 1, which ended as FAILED");
    return grpc::Status::OK;
  };
  const std::string mark = Path("ran");
  const Result result = RunProgram(daemon_.home(), {"guard", "--after", "1", "touch", mark});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err,
            "stageload: job 3 cancelled: it was to start after job 1, which ended as FAILED\n");
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST_F(GuardTest, StoppedBeforeItCouldBeginIsToldTheSame) {
  daemon_.on_guard = [&](GuardScript& script) {
    kill(-script.request.pid(), SIGTERM);
    script.Send(v1::JOB_STATE_RUNNING);
    script.Send(v1::JOB_STATE_STOPPING, v1::REASON_LOW_MEMORY, "level 4 %");
    EXPECT_TRUE(daemon_.AwaitReport());
    script.Send(v1::JOB_STATE_OUT_OF_MEMORY, v1::REASON_LOW_MEMORY, "level 4 %");
    return grpc::Status::OK;
  };
  const Result result = RunProgram(daemon_.home(), {"guard", "sleep", "1000"});
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.err, "stageload: stopped: LOW_MEMORY: level 4 %\n");
}

TEST_F(GuardTest, PassesSigintToTheCommandAndExitsAsItDoes) {
  AdmitThenEndAs(v1::JOB_STATE_FAILED);
  Program guard(daemon_.home(), {"guard", "sh", "-c",
                                 "trap 'echo got it; exit 5' INT; echo ready; "
                                 "while :; do sleep 0.01; done"});
  ASSERT_TRUE(guard.AwaitOut("ready")) << guard.Err();
  guard.Signal(SIGINT);
  EXPECT_EQ(guard.Wait(), 5);
  EXPECT_THAT(guard.Out(), HasSubstr("got it"));
}

TEST_F(GuardTest, KillsACommandThatIgnoresItWithItsWholeGroup) {
  AdmitThenEndAs(v1::JOB_STATE_FAILED);
  Program guard(daemon_.home(),
                {"guard", "--grace", "50ms", "sh", "-c",
                 "trap '' INT TERM; sleep 1000 & echo $! ready; while :; do sleep 0.01; done"});
  ASSERT_TRUE(guard.AwaitOut("ready")) << guard.Err();
  const pid_t child = std::stoi(guard.Out());
  guard.Signal(SIGTERM);
  EXPECT_EQ(guard.Wait(), 128 + SIGKILL);
  // Dead; or a zombie, where nobody reaps orphans.
  EXPECT_TRUE(Eventually([&] {
    if (kill(child, 0) != 0) return true;
    std::string state;
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    stat >> state >> state >> state;
    return state == "Z";
  }));
}

TEST_F(GuardTest, WithdrawsWhenItIsInterruptedWhileItWaits) {
  bool withdrawn = false;
  daemon_.on_guard = [&](GuardScript& script) {
    script.Send(v1::JOB_STATE_PENDING, v1::REASON_UNSPECIFIED, "", "level 20 %, needs 40 %");
    withdrawn = script.AwaitCancelled();
    return grpc::Status::CANCELLED;
  };
  const std::string mark = Path("ran");
  {
    Program guard(daemon_.home(), {"guard", "touch", mark});
    ASSERT_TRUE(guard.AwaitErr("waits: LEVEL")) << guard.Err();
    guard.Signal(SIGINT);
    EXPECT_EQ(guard.Wait(), -SIGINT) << "a script would go on behind an exit";
  }
  daemon_.Stop();
  EXPECT_TRUE(withdrawn);
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST_F(GuardTest, LeavesNoCommandBehindWhenItIsKilledWhileItWaits) {
  pid_t held = 0;
  daemon_.on_guard = [&](GuardScript& script) {
    held = script.request.pid();
    script.Send(v1::JOB_STATE_PENDING, v1::REASON_UNSPECIFIED, "", "level 20 %, needs 40 %");
    (void)script.AwaitCancelled();
    return grpc::Status::CANCELLED;
  };
  const std::string mark = Path("ran");
  Program guard(daemon_.home(), {"guard", "touch", mark});
  ASSERT_TRUE(guard.AwaitErr("waits: LEVEL")) << guard.Err();
  guard.Signal(SIGKILL);
  EXPECT_EQ(guard.Wait(), -SIGKILL);
  EXPECT_TRUE(Eventually([&] {
    std::string name, state;
    std::ifstream stat("/proc/" + std::to_string(held) + "/stat");
    return !(stat >> state >> name >> state) || state == "Z";
  }));
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST_F(GuardTest, KeepsTheCommandWhenTheDaemonDies) {
  daemon_.on_guard = [&](GuardScript& script) {
    script.Send(v1::JOB_STATE_RUNNING);
    (void)script.AwaitCancelled();
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "going");
  };
  const std::string go = Path("go");
  Program guard(
      daemon_.home(),
      {"guard", "sh", "-c", "echo ready; while [ ! -e \"$0\" ]; do sleep 0.01; done; exit 6", go});
  ASSERT_TRUE(guard.AwaitOut("ready")) << guard.Err();
  daemon_.Stop();
  ASSERT_TRUE(guard.AwaitErr("the daemon went away")) << guard.Err();
  std::ofstream(go) << "x";
  EXPECT_EQ(guard.Wait(), 6);
}

// ---- The daemon goes away ----

class GuardOverTwoDaemonsTest : public GuardTest {
 protected:
  // Says that the job is in this state, and is killed.
  void DiesAfter(v1::JobState state) {
    daemon_.on_guard = [state](GuardScript& script) {
      script.Send(state, v1::REASON_UNSPECIFIED, "", "level 20 %, needs 40 %");
      (void)script.AwaitCancelled();
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "going");
    };
  }
  std::vector<std::string> Waits(const std::string& file) const {
    return {"guard", "sh", "-c", "echo ready; while [ ! -e \"$0\" ]; do sleep 0.01; done; exit 6",
            file};
  }
};

TEST_F(GuardOverTwoDaemonsTest, TheNextOneHearsOfTheEnd) {
  DiesAfter(v1::JOB_STATE_RUNNING);
  std::int32_t pid = 0;
  const std::string go = Path("go");
  daemon_.on_resume = [&](GuardScript& script) {
    pid = script.request.pid();
    script.Send(v1::JOB_STATE_RUNNING);
    std::ofstream(go) << "x";
    EXPECT_TRUE(daemon_.AwaitReport());
    script.Send(v1::JOB_STATE_FAILED);
    return grpc::Status::OK;
  };
  Program guard(daemon_.home(), Waits(go));
  ASSERT_TRUE(guard.AwaitOut("ready")) << guard.Err();
  daemon_.Stop();
  daemon_.Start();
  EXPECT_EQ(guard.Wait(), 6);
  EXPECT_EQ(daemon_.AwaitReport()->exit_code(), 6);
  EXPECT_GT(pid, 0);
  EXPECT_EQ(guard.Err(),
            "stageload: the daemon went away; the command runs on, and the next daemon is asked to "
            "watch it\n");
}

TEST_F(GuardOverTwoDaemonsTest, StoppedByTheNextOneExitsThree) {
  DiesAfter(v1::JOB_STATE_RUNNING);
  daemon_.on_resume = [&](GuardScript& script) {
    script.Send(v1::JOB_STATE_STOPPING, v1::REASON_SWAP_BUDGET, "charge 9 GiB, budget 8 GiB");
    kill(-script.request.pid(), SIGTERM);
    EXPECT_TRUE(daemon_.AwaitReport());
    script.Send(v1::JOB_STATE_OUT_OF_MEMORY, v1::REASON_SWAP_BUDGET, "charge 9 GiB, budget 8 GiB");
    return grpc::Status::OK;
  };
  Program guard(daemon_.home(), Waits(Path("never")));
  ASSERT_TRUE(guard.AwaitOut("ready")) << guard.Err();
  daemon_.Stop();
  daemon_.Start();
  EXPECT_EQ(guard.Wait(), 3);
  EXPECT_THAT(guard.Err(), HasSubstr("stopped: SWAP_BUDGET: charge 9 GiB, budget 8 GiB"));
}

// It was stopped before the guard found its way back, and its end is on record by then.
TEST_F(GuardOverTwoDaemonsTest, AStopThatWasOverBeforeItCameBackIsToldAllTheSame) {
  DiesAfter(v1::JOB_STATE_RUNNING);
  daemon_.report_answer =
      Failure(grpc::StatusCode::FAILED_PRECONDITION, "job 3 has ended", "JOB_ENDED");
  daemon_.on_resume = [](GuardScript& script) {
    script.Send(v1::JOB_STATE_OUT_OF_MEMORY, v1::REASON_LOW_MEMORY, "level 4 %");
    return grpc::Status::OK;
  };
  pid_t command = 0;
  Program guard(daemon_.home(), {"guard", "sh", "-c", "echo $$; exec sleep 1000"});
  ASSERT_TRUE(guard.AwaitOut("\n")) << guard.Err();
  command = std::stoi(guard.Out());
  daemon_.Stop();
  kill(command, SIGTERM);
  ASSERT_TRUE(Eventually([&] { return kill(command, 0) != 0; }));
  daemon_.Start();
  EXPECT_EQ(guard.Wait(), 3);
  EXPECT_THAT(guard.Err(), HasSubstr("stopped: LOW_MEMORY: level 4 %"));
}

TEST_F(GuardOverTwoDaemonsTest, OneThatDoesNotKnowTheJobLeavesTheCommandToItself) {
  DiesAfter(v1::JOB_STATE_RUNNING);
  const std::string go = Path("go");
  Program guard(daemon_.home(), Waits(go));
  ASSERT_TRUE(guard.AwaitOut("ready")) << guard.Err();
  daemon_.Stop();
  daemon_.Start();
  ASSERT_TRUE(guard.AwaitErr("there is no job 3; the command runs on")) << guard.Err();
  std::ofstream(go) << "x";
  EXPECT_EQ(guard.Wait(), 6);
}

TEST_F(GuardOverTwoDaemonsTest, OneThatWaitsGoesOnWithItsPlaceAndRunsOnce) {
  DiesAfter(v1::JOB_STATE_PENDING);
  daemon_.on_resume = [&](GuardScript& script) {
    script.Send(v1::JOB_STATE_RUNNING);
    EXPECT_TRUE(daemon_.AwaitReport());
    script.Send(v1::JOB_STATE_FAILED);
    return grpc::Status::OK;
  };
  Program guard(daemon_.home(), {"guard", "sh", "-c", "echo ran; exit 6"});
  ASSERT_TRUE(guard.AwaitErr("waits: LEVEL")) << guard.Err();
  daemon_.Stop();
  daemon_.Start();
  EXPECT_EQ(guard.Wait(), 6);
  EXPECT_EQ(guard.Out(), "ran\n");
  EXPECT_THAT(guard.Err(), HasSubstr("the daemon went away; the next one is asked for room"));
}

// An older daemon, or one that lost its store.
TEST_F(GuardOverTwoDaemonsTest, OneThatWaitsAsksAnewWhereItIsNotKnownForWhatIsLeftOfItsTimeout) {
  DiesAfter(v1::JOB_STATE_PENDING);
  Program guard(daemon_.home(), {"guard", "--start-timeout", "1h", "sh", "-c", "echo ran"});
  ASSERT_TRUE(guard.AwaitErr("waits: LEVEL")) << guard.Err();
  daemon_.Stop();
  v1::GuardRequest request;
  daemon_.on_guard = [&](GuardScript& script) {
    request = script.request;
    script.Send(v1::JOB_STATE_RUNNING);
    EXPECT_TRUE(daemon_.AwaitReport());
    script.Send(v1::JOB_STATE_COMPLETED);
    return grpc::Status::OK;
  };
  daemon_.Start();
  EXPECT_EQ(guard.Wait(), 0);
  EXPECT_EQ(guard.Out(), "ran\n");
  EXPECT_EQ(daemon_.resumes, 1);
  constexpr std::int64_t kHour = 3600LL * 1'000'000'000;
  EXPECT_LT(request.policy().start_timeout_ns(), kHour);
  EXPECT_GT(request.policy().start_timeout_ns(), kHour - kHour / 60);
}

TEST_F(GuardOverTwoDaemonsTest, CancelledAsTheFirstOneDiedItIsNotAskedForAgain) {
  DiesAfter(v1::JOB_STATE_PENDING);
  daemon_.on_resume = [](GuardScript& script) {
    script.Send(v1::JOB_STATE_CANCELLED, v1::REASON_CANCELLED, "a user asked");
    return grpc::Status::OK;
  };
  const std::string mark = Path("ran");
  Program guard(daemon_.home(), {"guard", "touch", mark});
  ASSERT_TRUE(guard.AwaitErr("waits: LEVEL")) << guard.Err();
  daemon_.Stop();
  daemon_.Start();
  EXPECT_EQ(guard.Wait(), 1);
  EXPECT_THAT(guard.Err(), HasSubstr("job 3 cancelled: a user asked"));
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST_F(GuardOverTwoDaemonsTest, OneThatWaitsAndIsInterruptedBetweenThemExitsAtOnce) {
  DiesAfter(v1::JOB_STATE_PENDING);
  const std::string mark = Path("ran");
  Program guard(daemon_.home(), {"guard", "touch", mark});
  ASSERT_TRUE(guard.AwaitErr("waits: LEVEL")) << guard.Err();
  daemon_.Stop();
  ASSERT_TRUE(guard.AwaitErr("the daemon went away")) << guard.Err();
  guard.Signal(SIGINT);
  EXPECT_EQ(guard.Wait(), -SIGINT);
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST_F(GuardTest, RefusesAMissingCommandBeforeItAsksForRoom) {
  bool asked = false;
  daemon_.on_guard = [&](GuardScript&) {
    asked = true;
    return grpc::Status::OK;
  };
  const Result missing = RunProgram(daemon_.home(), {"guard", "--", "no-such-command-here"});
  EXPECT_EQ(missing.code, 127);
  EXPECT_THAT(missing.err, HasSubstr("no-such-command-here"));
  EXPECT_EQ(RunProgram(daemon_.home(), {"guard", "--", "/dev/null"}).code, 127);
  EXPECT_FALSE(asked);
}

TEST_F(GuardTest, RefusedByTheDaemonExitsTwoWithItsWords) {
  daemon_.on_guard = [](GuardScript&) {
    return Failure(grpc::StatusCode::INVALID_ARGUMENT, "never fits: needs 90 GiB", "NEVER_FITS");
  };
  const Result result = RunProgram(daemon_.home(), {"guard", "--memory", "90G", "true"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "stageload: never fits: needs 90 GiB\n");
}

// The mask on one line of /proc/<pid>/status.
std::uint64_t SignalMask(const std::string& status, const std::string& line) {
  const std::size_t at = status.find(line + ":\t");
  return at == std::string::npos ? ~std::uint64_t{0}
                                 : std::stoull(status.substr(at + line.size() + 2), nullptr, 16);
}

TEST_F(GuardTest, GivesTheCommandTheSignalsThatItWasStartedWith) {
  AdmitThenEndAs(v1::JOB_STATE_COMPLETED);
  const Result result = RunProgram(daemon_.home(), {"guard", "cat", "/proc/self/status"});
  if (result.out.empty()) GTEST_SKIP() << "no /proc here";
  EXPECT_EQ(SignalMask(result.out, "SigBlk"), 0U);
  // 32 and 33 are glibc's own; its posix_spawn, which started the guard, leaves them ignored.
  constexpr std::uint64_t kGlibc = std::uint64_t{3} << 31;
  EXPECT_EQ(SignalMask(result.out, "SigIgn") & ~kGlibc, 0U);
}

}  // namespace
}  // namespace stageload::ctl
