// `stageloadctl record` against a scripted daemon: what comes to stand in the trace, when the
// command runs, and what the caller gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/trace.h"
#include "base/version.h"
#include "tests/client/ctl/fake_daemon.h"
#include "tests/client/ctl/program.h"

extern char** environ;

namespace stageload::ctl {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kAwake = 1000 * kSecond;
constexpr std::int64_t kWall = 1'767'323'045 * kSecond;  // 2026-01-02T03:04:05Z

// At `t` seconds of the recording, with figures that grow with it.
v1::WatchProcessResponse At(double t, std::int64_t footprint, std::int64_t swap = 0) {
  v1::WatchProcessResponse answer;
  v1::ProcessSample& sample = *answer.mutable_sample();
  const auto after = static_cast<std::int64_t>(t * kSecond);
  sample.set_awake_ns(kAwake + after);
  sample.set_time_ns(kWall + after);
  sample.set_footprint_bytes(footprint);
  sample.set_swapped_bytes(7);
  sample.set_processes(2);
  sample.mutable_host()->set_total_bytes(8LL << 30);
  sample.mutable_host()->set_available_bytes(4LL << 30);
  sample.mutable_host()->set_swap_used_bytes(swap);
  sample.mutable_host()->set_level_percent(50.5);
  return answer;
}

v1::Event& AddEvent(v1::WatchProcessResponse& answer, const std::string& kind, double t) {
  v1::Event& event = *answer.add_events();
  event.set_kind(kind);
  event.set_time_ns(kWall + static_cast<std::int64_t>(t * kSecond));
  return event;
}

class Record : public testing::Test {
 protected:
  // Answers with these, then until the client leaves.
  void AnswerWith(std::vector<v1::WatchProcessResponse> answers) {
    daemon_.on_watch = [this, answers = std::move(answers)](WatchScript& script) {
      asked_ = script.request;
      for (const v1::WatchProcessResponse& answer : answers) script.Send(answer);
      EXPECT_TRUE(script.AwaitCancelled());
      return grpc::Status::OK;
    };
  }
  Result Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"record", "-o", path_});
    return RunProgram(daemon_.home(), std::move(arguments));
  }
  Trace Read() const {
    absl::StatusOr<Trace> trace = ReadTrace(path_);
    if (trace.ok()) return *std::move(trace);
    ADD_FAILURE() << trace.status();
    return {};
  }
  std::string Contents() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  std::vector<std::string> Notes() const {
    std::vector<std::string> notes;
    for (const TraceEvent& event : Read().events) notes.push_back(event.note);
    return notes;
  }

  FakeDaemon daemon_;
  std::string path_ = daemon_.home() + "/run.jsonl";
  v1::WatchProcessRequest asked_;
};

TEST_F(Record, WritesASampleForEachAnswerAndExitsWithTheCommandsCode) {
  v1::WatchProcessResponse first = At(0, 1000, 500);
  first.mutable_sample()->set_charge_bytes(-3);
  first.mutable_sample()->set_swap_budget_bytes(1 << 20);
  AnswerWith({first, At(0.25, 5000, 900), At(0.5, 2000, 100)});
  // It ends once all of that is in the file.
  const Result result = Run(
      {"--interval", "250ms", "--", "sh", "-c",
       "echo out; while [ $(grep -c sample \"$0\") -lt 3 ]; do sleep 0.01; done; exit 7", path_});
  EXPECT_EQ(result.code, 7);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err,
            "stageload: 3 samples in 0.5s: peak footprint 4.88 KiB, swap +400 B, lowest level "
            "50.5 % (" +
                path_ + ")\n");
  EXPECT_EQ(asked_.interval_ns(), kSecond / 4);

  const Trace trace = Read();
  EXPECT_THAT(trace.notes, IsEmpty());
  ASSERT_TRUE(trace.start);
  EXPECT_EQ(trace.start->utc, "2026-01-02T03:04:05.000+00:00");
  EXPECT_EQ(trace.start->interval_seconds, 0.25);
  const json start = json::parse(trace.start->rest);
  EXPECT_EQ(start.at("stageload"), std::string(kVersion));
  EXPECT_EQ(start.at("pid"), asked_.pid());
  EXPECT_EQ(start.at("command").at(0), "sh");
  EXPECT_EQ(start.at("host").at("total"), 8LL << 30);
  EXPECT_EQ(start.at("swap_budget"), 1 << 20);
  ASSERT_EQ(trace.samples.size(), 3U);
  EXPECT_EQ(trace.samples[0].t, 0);
  EXPECT_EQ(json::parse(trace.samples[0].rest),
            json({{"swapped", 7}, {"processes", 2}, {"charge", -3}}));
  EXPECT_EQ(trace.samples[1].t, 0.25);
  EXPECT_EQ(trace.samples[1].footprint, Bytes(5000));
  EXPECT_EQ(trace.samples[1].swap_used, Bytes(900));
  EXPECT_EQ(trace.samples[1].level, Percent{50.5});
  EXPECT_EQ(trace.samples[1].available, GiB(4));
  EXPECT_EQ(json::parse(trace.samples[1].rest), json({{"swapped", 7}, {"processes", 2}}));
  EXPECT_THAT(Notes(), ElementsAre("the command exited with 7"));
}

TEST_F(Record, WhatHoldsTheCommandBackIsNoPartOfItsFootprint) {
  AnswerWith({At(0, 9000), At(0.25, 5000)});
  const Result result = Run(
      {"--", "sh", "-c", "while [ $(grep -c sample \"$0\") -lt 2 ]; do sleep 0.01; done", path_});
  EXPECT_THAT(result.err, HasSubstr("peak footprint 4.88 KiB"));
  const Trace trace = Read();
  ASSERT_EQ(trace.samples.size(), 2U);
  EXPECT_EQ(trace.samples[0].footprint, Bytes(0));
  EXPECT_EQ(trace.samples[1].footprint, Bytes(5000));
}

TEST_F(Record, AndSummaryRoundTheLevelAlike) {
  v1::WatchProcessResponse low = At(0.25, 5000);
  low.mutable_sample()->mutable_host()->set_level_percent(49.4979);  // 49.5 in the trace
  AnswerWith({At(0, 9000), low});
  const Result result = Run(
      {"--", "sh", "-c", "while [ $(grep -c sample \"$0\") -lt 2 ]; do sleep 0.01; done", path_});
  EXPECT_THAT(result.err, HasSubstr("lowest level 49.5 %"));
  EXPECT_THAT(RunProgram(daemon_.home(), {"summary", path_}).out, HasSubstr("49.5 %"));
}

TEST_F(Record, HoldsTheCommandBackUntilTheFirstSampleIsThere) {
  std::atomic<bool> ran_early = true;
  daemon_.on_watch = [&](WatchScript& script) {
    v1::WatchProcessResponse no_sample;
    AddEvent(no_sample, "warned", 0);
    script.Send(no_sample);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
    ran_early = std::filesystem::exists(daemon_.home() + "/ran");
    script.Send(At(0, 1));
    EXPECT_TRUE(script.AwaitCancelled());
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"-q", "touch", daemon_.home() + "/ran"}).code, 0);
  EXPECT_FALSE(ran_early);
  EXPECT_TRUE(std::filesystem::exists(daemon_.home() + "/ran"));
}

TEST_F(Record, WritesMarksAndWhatWasDoneToTheProcess) {
  v1::WatchProcessResponse second = At(1, 1);
  v1::Mark& stage = *AddEvent(second, "stage", 0.4).mutable_mark();
  stage.set_kind("stage");
  stage.set_stage("decode");
  v1::Mark& load = *AddEvent(second, "load", 0.5).mutable_mark();
  load.set_kind("load");
  load.set_name("vae");
  load.set_nbytes(12);
  load.set_seconds(0.25);
  load.set_note("first");
  AddEvent(second, "warned", 0.75).set_text("charge 7 GiB of 8 GiB");
  v1::WatchProcessResponse third = At(1.5, 1);
  AddEvent(third, "warned", -100);  // the wall clock was set meanwhile
  AddEvent(third, "warned", 5000);
  third.set_dropped(3);
  AnswerWith({At(0, 1), second, third});
  EXPECT_EQ(Run({"-q", "sh", "-c", "while ! grep -q 1.5 \"$0\"; do sleep 0.01; done", path_}).code,
            0);
  const std::vector<TraceEvent> events = Read().events;
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(events[0].t, 0.4);
  EXPECT_EQ(events[0].kind, "stage");
  EXPECT_EQ(events[0].stage, "decode");
  EXPECT_EQ(events[1].t, 0.5);
  EXPECT_EQ(events[1].kind, "load");
  EXPECT_EQ(events[1].name, "vae");
  EXPECT_EQ(events[1].nbytes, Bytes(12));
  EXPECT_EQ(events[1].seconds, 0.25);
  EXPECT_EQ(events[1].note, "first");
  EXPECT_EQ(events[2].t, 0.75);
  EXPECT_EQ(events[2].kind, "mark");
  EXPECT_EQ(events[2].note, "charge 7 GiB of 8 GiB");
  EXPECT_EQ(events[2].rest, R"({"event":"warned"})");
  EXPECT_EQ(events[3].t, 1);
  EXPECT_EQ(events[3].note, "warned");
  EXPECT_THAT(events[4].note, HasSubstr("3 samples were left out"));
  EXPECT_EQ(events[5].t, 1.5);
}

TEST_F(Record, WhatCannotBeReadIsLeftOut) {
  v1::WatchProcessResponse answer = At(0, 1);
  answer.mutable_sample()->clear_footprint_bytes();
  answer.mutable_sample()->clear_swapped_bytes();
  answer.mutable_sample()->clear_host();
  AnswerWith({answer});
  EXPECT_EQ(Run({"true"}).code, 0);
  EXPECT_THAT(Contents(), HasSubstr("{\"type\":\"sample\",\"t\":0.0,\"processes\":2}\n"));
}

TEST_F(Record, ExitsAsASignalOfTheCommandWould) {
  AnswerWith({At(0, 1)});
  EXPECT_EQ(Run({"-q", "sh", "-c", "kill -9 $$"}).code, 137);
  EXPECT_THAT(Notes(), ElementsAre("the command was ended by signal 9"));
  EXPECT_TRUE(Read().ended);
}

TEST_F(Record, ASignalAfterTheCommandsEndDoesNotCostTheLastWord) {
  std::atomic<bool> signalled = false;
  daemon_.on_watch = [&](WatchScript& script) {
    script.Send(At(0, 1));
    EXPECT_TRUE(Eventually([&] { return signalled.load(); }));
    v1::WatchProcessResponse answer;
    AddEvent(answer, "stopping", 0.5).set_text("SWAP_BUDGET: over 8 GiB");
    script.Send(answer);
    return grpc::Status::OK;
  };
  // It is waited for no longer than half a second, which on a busy machine may be over too early.
  bool told = false;
  for (int attempt = 0; attempt < 10 && !told; ++attempt) {
    signalled = false;
    Program program(daemon_.home(), {"record", "--force", "-o", path_, "--", "sh", "-c", "exit 3"});
    EXPECT_TRUE(Eventually([&] { return Contents().find("exited with 3") != std::string::npos; }));
    program.Signal(SIGTERM);
    absl::SleepFor(absl::Milliseconds(50));  // until it has had that
    signalled = true;
    EXPECT_EQ(program.Wait(), 3);
    told = Contents().find("SWAP_BUDGET") != std::string::npos;
    EXPECT_TRUE(Read().ended);
    std::filesystem::remove(path_);
  }
  EXPECT_TRUE(told);
}

TEST_F(Record, ACommandThatIsMissingIsNotRecorded) {
  const Result result = Run({"no-such-program"});
  EXPECT_EQ(result.code, 127);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Record, TermEndsTheCommandFirstAndTheExitCodeIsTheCommands) {
  AnswerWith({At(0, 1)});
  Program program(daemon_.home(), {"record", "-o", path_, "--", "sh", "-c",
                                   "trap 'echo bye; exit 0' TERM; echo up; "
                                   "while :; do sleep 0.01; done"});
  ASSERT_TRUE(program.AwaitOut("up"));
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_EQ(program.Out(), "up\nbye\n");
  EXPECT_TRUE(Read().ended);
}

TEST_F(Record, WritesOverAFileOnlyWhenForced) {
  AnswerWith({At(0, 1)});
  std::ofstream(path_) << "of somebody\n";
  const Result refused = Run({"touch", daemon_.home() + "/ran"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("exists already; --force writes over it"));
  EXPECT_EQ(Contents(), "of somebody\n");
  EXPECT_FALSE(std::filesystem::exists(daemon_.home() + "/ran"));
  EXPECT_EQ(Run({"--force", "-q", "true"}).code, 0);
  EXPECT_TRUE(Read().ended);
}

TEST_F(Record, OfACommandDoesNotGoToTheCommandsStdout) {
  const Result result =
      RunProgram(daemon_.home(), {"record", "-o", "-", "--", "touch", path_ + ".ran"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("stdout is the command's"));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".ran"));
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST_F(Record, NeedsACommandOrAProcessAndShowsHow) {
  const Result neither = Run({});
  EXPECT_EQ(neither.code, 2);
  EXPECT_THAT(neither.err, HasSubstr("record -o run.jsonl -- "));
  EXPECT_THAT(Run({"--pid", "7", "true"}).err, HasSubstr("only one of them"));
  EXPECT_THAT(Run({"--pid", "x"}).err,
              HasSubstr("--pid \"x\": not a process's number, as in --pid 4711"));
  EXPECT_THAT(Run({"--pid", ""}).err, HasSubstr("--pid \"\": not a process's number"));
  const Result empty = Run({"--interval", "", "true"});
  EXPECT_EQ(empty.code, 2);
  EXPECT_THAT(empty.err, AllOf(HasSubstr("--interval"), HasSubstr("500ms")));
  EXPECT_THAT(Run({"--interval", "10ms", "true"}).err, HasSubstr("not from 20ms to 1h"));
  EXPECT_EQ(Run({"--interval", "2h", "true"}).code, 2);
}

TEST_F(Record, WhatTheDaemonRefusesIsSaidAndTheCommandNotRun) {
  daemon_.on_watch = [](WatchScript&) {
    return Failure(grpc::StatusCode::PERMISSION_DENIED, "process 1 is of another user",
                   "PEER_REFUSED", "pid");
  };
  const Result result = Run({"touch", daemon_.home() + "/ran"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("process 1 is of another user"));
  EXPECT_FALSE(std::filesystem::exists(daemon_.home() + "/ran"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Record, WithoutADaemonTheCommandIsNotRun) {
  const Result result = RunProgram(daemon_.home() + "/none", {"record", "-o", path_, "true"});
  EXPECT_EQ(result.code, 69);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Record, GoesOnWithTheNextDaemonAndNotesTheGap) {
  std::atomic<int> calls = 0;
  daemon_.on_watch = [&](WatchScript& script) {
    const bool first = ++calls == 1;
    script.Send(At(first ? 0 : 4, first ? 1 : 2));
    EXPECT_TRUE(script.AwaitCancelled());
    return grpc::Status::OK;
  };
  Program program(
      daemon_.home(),
      {"record", "-o", path_, "--", "sh", "-c",
       "while [ $(grep -c '\"sample\"' \"$0\") -lt 2 ]; do sleep 0.01; done; exit 5", path_});
  ASSERT_TRUE(Eventually([&] { return Contents().find("sample") != std::string::npos; }));
  daemon_.Stop();
  ASSERT_TRUE(program.AwaitErr("the daemon went away; the recording goes on with the next one"));
  daemon_.Start();
  EXPECT_EQ(program.Wait(), 5);
  const Trace trace = Read();
  ASSERT_EQ(trace.samples.size(), 2U);
  EXPECT_EQ(trace.samples[1].t, 4);
  EXPECT_EQ(Notes().at(0), "no samples for 4s: the daemon went away");
}

TEST_F(Record, ACommandWhoseDaemonStaysAwayRunsToItsEnd) {
  AnswerWith({At(0, 1)});
  const std::string go = daemon_.home() + "/go";
  Program program(daemon_.home(), {"record", "-o", path_, "--", "sh", "-c",
                                   "while [ ! -e \"$0\" ]; do sleep 0.01; done; exit 5", go});
  ASSERT_TRUE(Eventually([&] { return Contents().find("sample") != std::string::npos; }));
  daemon_.Stop();
  ASSERT_TRUE(program.AwaitErr("the daemon went away"));
  std::ofstream(go) << "";
  EXPECT_EQ(program.Wait(), 5);
  EXPECT_TRUE(Read().ended);
}

// ---- A process that runs already ----

class Sleeper {
 public:
  Sleeper() {
    std::string words[] = {"sleep", "1000"};
    char* argv[] = {words[0].data(), words[1].data(), nullptr};
    EXPECT_EQ(posix_spawnp(&pid_, "sleep", nullptr, nullptr, argv, environ), 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() { End(); }
  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  std::string pid() const { return std::to_string(pid_); }

 private:
  pid_t pid_ = -1;
};

TEST_F(Record, OfAProcessEndsWithTheDaemonsAnswers) {
  const Sleeper sleeper;
  daemon_.on_watch = [&](WatchScript& script) {
    asked_ = script.request;
    script.Send(At(0, 1));
    script.Send(At(1, 2));
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"--pid", sleeper.pid()}).code, 0);
  EXPECT_EQ(std::to_string(asked_.pid()), sleeper.pid());
  EXPECT_EQ(asked_.interval_ns(), kSecond / 2);
  const Trace trace = Read();
  EXPECT_TRUE(trace.ended);
  EXPECT_EQ(trace.samples.size(), 2U);
  EXPECT_THAT(trace.start->rest, Not(HasSubstr("command")));
}

TEST_F(Record, OfAProcessGoesToStdoutIfAsked) {
  const Sleeper sleeper;
  daemon_.on_watch = [&](WatchScript& script) {
    script.Send(At(0, 1));
    script.Send(At(1, 2));
    return grpc::Status::OK;
  };
  const Result result = RunProgram(daemon_.home(), {"record", "--pid", sleeper.pid(), "-o", "-"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("2 samples in 1s"));
  EXPECT_THAT(result.err, HasSubstr("(stdout)"));
  std::ofstream(path_) << result.out;
  EXPECT_EQ(Read().samples.size(), 2U);
  EXPECT_TRUE(Read().ended);
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST_F(Record, ToAPipeEndsWithItsReaderAndWithoutAWord) {
  const Sleeper sleeper;
  daemon_.on_watch = [&](WatchScript& script) {
    for (int i = 0; i < 2000; ++i) script.Send(At(i * 0.01, 1));
    EXPECT_TRUE(script.AwaitCancelled());
    return grpc::Status::OK;
  };
  const std::string record = "\"$CTL\" record --pid " + sleeper.pid() + " -o ";
  const std::string pipe = daemon_.home() + "/pipe";
  for (const std::string& script :
       {"{ " + record + "-; echo $? >&2; } | head -n 1",
        "{ " + record + "/dev/stdout; echo $? >&2; } | head -n 1",
        "mkfifo " + pipe + "; head -n 1 " + pipe + "& " + record + pipe + "; echo $? >&2; wait"}) {
    const Result result = RunShell(daemon_.home(), script);
    EXPECT_THAT(result.out, StartsWith("{\"type\":\"start\"")) << script;
    EXPECT_EQ(result.err, "1\n") << script;
  }
}

TEST_F(Record, ACommandRunsOnWhenNobodyReadsThePipeAnyMore) {
  std::vector<v1::WatchProcessResponse> answers;
  for (int i = 0; i < 2000; ++i) answers.push_back(At(i * 0.01, 1));
  AnswerWith(std::move(answers));
  const std::string pipe = daemon_.home() + "/pipe";
  const Result result =
      RunShell(daemon_.home(), "mkfifo " + pipe + "; head -n 1 " + pipe + "& \"$CTL\" record -o " +
                                   pipe + " -- sh -c 'sleep 0.5; exit 5'");
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, HasSubstr("write " + pipe + ": Broken pipe"));
}

TEST_F(Record, OfAProcessIsWholeAfterAnInterrupt) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Sleeper sleeper;
    AnswerWith({At(0, 1)});
    Program program(daemon_.home(), {"record", "--force", "-o", path_, "--pid", sleeper.pid()});
    ASSERT_TRUE(Eventually([&] { return Contents().find("sample") != std::string::npos; }));
    program.Signal(signal);
    EXPECT_EQ(program.Wait(), 0);
    EXPECT_TRUE(Read().ended);
    std::filesystem::remove(path_);
  }
}

TEST_F(Record, OfAProcessThatEndsWhileThereIsNoDaemonEnds) {
  Sleeper sleeper;
  AnswerWith({At(0, 1)});
  Program program(daemon_.home(), {"record", "-o", path_, "--pid", sleeper.pid()});
  ASSERT_TRUE(Eventually([&] { return Contents().find("sample") != std::string::npos; }));
  daemon_.Stop();
  ASSERT_TRUE(program.AwaitErr("the daemon went away"));
  sleeper.End();
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_THAT(program.Err(), HasSubstr("the process ended while there was no daemon"));
  EXPECT_TRUE(Read().ended);
}

#ifdef __linux__
// /dev/full takes nothing, as a disk without room.
TEST_F(Record, ADiskThatIsFullIsSaidOnceAndTheCommandRunsOn) {
  AnswerWith({At(0, 1), At(1, 1), At(2, 1)});
  path_ = "/dev/full";
  const Result result = Run({"-q", "sh", "-c", "sleep 0.1; echo out; exit 4"});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_THAT(result.err, HasSubstr("write /dev/full: No space left on device"));
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
}
#endif

// dash and bash count in blocks of 512 bytes and 1 KiB.
TEST_F(Record, AFileThatMayGrowNoFurtherIsSaidOnceAndEndsOnlyACommandThatWritesItsOwn) {
  std::vector<v1::WatchProcessResponse> answers;
  for (int i = 0; i < 100; ++i) answers.push_back(At(i * 0.01, 1 + i));
  AnswerWith(std::move(answers));
  const std::string script =
      "ulimit -f 8; exec \"$CTL\" record -q --force -o \"" + path_ + "\" -- ";
  const Result runs_on = RunShell(daemon_.home(), script + "sh -c 'sleep 1; exit 4'");
  EXPECT_EQ(runs_on.code, 4);
  EXPECT_THAT(runs_on.err, HasSubstr("write " + path_ + ": File too large; raise the limit"));
  EXPECT_EQ(runs_on.err.find('\n'), runs_on.err.size() - 1) << runs_on.err;
  const Result writes =
      RunShell(daemon_.home(), script + "dd if=/dev/zero of=\"" + path_ + ".own\" bs=64k count=1");
  EXPECT_EQ(writes.code, 128 + SIGXFSZ) << "what it ignores, a command would ignore too";
}

TEST_F(Record, CountsTheSamplesThatAreInTheFile) {
  std::vector<v1::WatchProcessResponse> answers;
  for (int i = 0; i < 100; ++i) answers.push_back(At(i * 0.01, 1 + i));
  AnswerWith(std::move(answers));
  // No file may grow beyond some KiB, as on a full disk.
  const Result result =
      RunShell(daemon_.home(), "ulimit -f 8; exec \"$CTL\" record -o \"" + path_ + "\" -- sleep 1");
  EXPECT_EQ(result.code, 0);
  const std::size_t kept = Read().samples.size();
  EXPECT_LT(kept, 100U);
  EXPECT_THAT(result.err,
              HasSubstr("stageload: " + std::to_string(kept) + " of 100 samples in 1s: "));
  EXPECT_THAT(result.err, HasSubstr("peak footprint 100 B"));
}

}  // namespace
}  // namespace stageload::ctl
