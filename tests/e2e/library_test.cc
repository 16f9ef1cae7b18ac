// Programs of libstageload side by side under the real daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/trace.h"
#include "tests/e2e/library_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What each client went through, by its name.
std::map<std::string, std::vector<std::string>> StagesHeld(const std::vector<Frame>& frames) {
  std::map<std::string, std::vector<std::string>> held;
  for (const Frame& frame : frames) {
    for (const ClientSample& client : frame.clients) {
      std::vector<std::string>& stages = held[client.name];
      for (const LeaseSample& lease : client.leases) {
        if (stages.empty() || stages.back() != lease.stage) stages.push_back(lease.stage);
      }
    }
  }
  return held;
}

// From the events, which have every moment and not only those of the samples.
std::size_t MostHeldAtOnce(const std::vector<Frame>& frames) {
  std::size_t held = 0;
  std::size_t most = 0;
  for (const Frame& frame : frames) {
    for (const Event& event : frame.events) {
      if (event.kind == "lease_granted") most = std::max(most, ++held);
      if (event.kind == "lease_released") --held;
    }
  }
  EXPECT_EQ(held, 0U) << "some lease was never released";
  return most;
}

TEST_F(LibraryTest, TwoPipelinesWhoseStagesDoNotFitTogetherTakeTurnsToTheEnd) {
  WriteConfig("memory_pool = \"150M\"\n");
  StartDaemon();
  StartWatch();
  const Arguments terms = {"100", "700", "0"};
  ChildProcess left = Start(Arguments{STAGELOAD_E2E_PIPELINE, "left"} + terms);
  ChildProcess right = Start(Arguments{STAGELOAD_E2E_PIPELINE, "right"} + terms);
  for (ChildProcess* pipeline : {&left, &right}) {
    const Result result = pipeline->Wait();
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_THAT(result.out, HasSubstr("done"));
  }
  ASSERT_TRUE(Eventually([&] { return !IsClient("left") && !IsClient("right"); }));
  StopWatch();
  const std::vector<Frame> frames = Frames();

  // The order of the leases, and no moment with two of them.
  const auto stages = StagesHeld(frames);
  EXPECT_THAT(stages.at("left"), ElementsAre("text encoder", "transformer", "decode"));
  EXPECT_THAT(stages.at("right"), ElementsAre("text encoder", "transformer", "decode"));
  EXPECT_EQ(MostHeldAtOnce(frames), 1U);
  std::size_t held_while_other_waits = 0;
  std::size_t loaded_gauges = 0;
  for (const Frame& frame : frames) {
    std::size_t holders = 0;
    for (const ClientSample& client : frame.clients) {
      if (!client.leases.empty()) ++holders;
      if (!client.gauges.empty() && client.gauges[0].name == "loaded_bytes") ++loaded_gauges;
    }
    EXPECT_LE(holders, 1U) << "frame " << frame.sequence;
    if (holders == 0) continue;
    // Why the other waits, with the figures.
    for (const WaitingRequest& request : frame.waiting) {
      ASSERT_FALSE(request.blockers.empty());
      if (request.blockers[0].kind != "MEMORY") continue;
      EXPECT_THAT(request.blockers[0].text, HasSubstr("100 MiB"));
      EXPECT_EQ(request.memory_bytes, 100 * 1024 * 1024);
      ++held_while_other_waits;
    }
  }
  EXPECT_GT(held_while_other_waits, 0U);
  EXPECT_GT(loaded_gauges, 0U);
}

// The context switches of each thread of a process so far.
struct ThreadOf {
  std::string name;
  std::int64_t switches = 0;
};
std::map<std::string, ThreadOf> ThreadsOf(pid_t pid) {
  std::map<std::string, ThreadOf> threads;
  for (const auto& task :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"))) {
    ThreadOf& thread = threads[task.path().filename()];
    thread.name = ReadFile(task.path() / "comm");
    std::ifstream status(task.path() / "status");
    std::string word;
    while (status >> word) {
      std::int64_t count = 0;
      if (word.find("ctxt_switches:") != std::string::npos && status >> count) {
        thread.switches += count;
      }
    }
  }
  return threads;
}

// gRPC names all its threads. Its timers look at the clock about once a second, whatever there is to
// do, and in 1.83 its pool of threads wakes some 20 times a second.
bool IsOfGrpc(const ThreadOf& thread) { return !thread.name.starts_with("session_pro"); }

TEST_F(LibraryTest, AnIdleSessionWaitsAndPollsNothing) {
  StartDaemon();
  ChildProcess idle = StartSession("idle", {"idle"});
  ASSERT_TRUE(idle.Prints("registered"));
  absl::SleepFor(absl::Seconds(1));  // until all that a start brings is over
  auto before = ThreadsOf(idle.pid());
  absl::SleepFor(absl::Seconds(4));
  std::int64_t ours = 0;
  std::int64_t of_grpc = 0;
  const auto after = ThreadsOf(idle.pid());
  for (const auto& [id, thread] : after) {
    (IsOfGrpc(thread) ? of_grpc : ours) += thread.switches - before[id].switches;
  }
  std::cout << "an idle session of " << after.size() << " threads switched " << ours
            << " times in 4 s, those of gRPC " << of_grpc << " times\n";
  EXPECT_EQ(ours, 0);
  EXPECT_LE(of_grpc, 200);
  idle.Signal(SIGTERM);
  EXPECT_EQ(idle.Wait().exit_code, 0);
}

TEST_F(LibraryTest, AMeterRecordsWhatItsProcessReallyTakes) {
  StartDaemon();
  ChildProcess meter = StartSession("meter", {"meter", PathOf("run.jsonl"), "64"});
  const Result result = meter.Wait();
  ASSERT_EQ(result.exit_code, 0) << result;
  const absl::StatusOr<Trace> trace = ReadTrace(PathOf("run.jsonl"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_TRUE(trace->ended);
  std::vector<std::string> kinds;
  for (const TraceEvent& event : trace->events) kinds.push_back(event.kind);
  ASSERT_THAT(kinds, ElementsAre("stage", "load", "release", "stage"));
  // The footprint is that of the moments between the marks.
  Bytes before = Bytes::Max();
  Bytes loaded;
  for (const TraceSample& sample : trace->samples) {
    ASSERT_TRUE(sample.footprint && sample.level && sample.swap_used);
    if (sample.t < trace->events[0].t) before = std::min(before, *sample.footprint);
    if (sample.t < trace->events[2].t) loaded = std::max(loaded, *sample.footprint);
  }
  EXPECT_GT(before, Bytes());
  EXPECT_NEAR((loaded - before).AsDouble(), MiB(64).AsDouble(), MiB(2).AsDouble());
  EXPECT_LT(trace->samples.back().footprint, loaded - MiB(60)) << "what was freed is gone";
  // 50 ms apart over 0.9 s; half of them on a loaded machine.
  EXPECT_GE(trace->samples.size(), 9U);
}

}  // namespace
}  // namespace stageload::e2e
