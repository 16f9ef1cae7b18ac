// What one step of the core costs with n starts in the queue and 100 active clients, for n doubled
// again and again. scripts/bench.sh prints the ratios.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/core/scheduler.h"

namespace stageload::core {
namespace {

constexpr int kActive = 100;

// A machine of 1 TiB with 100 clients; everything after them waits.
class Machine {
 public:
  explicit Machine(std::int64_t queued) : scheduler_(MakeConfig(), JobId{1}) {
    host_.total = GiB(1024);
    host_.available = GiB(1024);
    host_.level = Percent{90};
    host_.swap_used = GiB(1);
    host_.pressure = Pressure::kNormal;
    Sample();
    for (int i = 0; i < kActive; ++i) Add(GiB(1), "");
    for (int i = 1; i <= kActive; ++i) {
      scheduler_.Step(now_, Started{JobId{i}, {1000 + i, 1}, "boot"});
      sample_.clients.push_back({JobId{i}, {GiB(1), Bytes(0)}, 3});
    }
    host_.available = GiB(500);
    Sample();
    // Too large for what is left, so the first hundred are looked at in vain each time; in ten
    // groups, of which half are full.
    for (std::int64_t i = 0; i < queued; ++i) {
      Add(GiB(800), "group" + std::to_string(i % 10));
    }
  }

  // Swap moves at each, so that everybody is charged.
  Effects Sample() {
    Wait();
    host_.swap_used = *host_.swap_used + KiB(64);
    sample_.host = host_;
    return scheduler_.Step(now_, SampleTaken{sample_});
  }
  JobId Add(Bytes memory, const std::string& group) {
    Submit submit;
    submit.name = "train";
    submit.policy.memory = memory;
    submit.group = group;
    return std::get<Save>(scheduler_.Step(now_, submit).at(0)).record.id;
  }
  void Cancel(JobId id) { scheduler_.Step(now_, CancelAsked{id}); }
  void Wait() {
    now_.awake += absl::Milliseconds(50);
    now_.continuous += absl::Milliseconds(50);
    now_.wall += absl::Milliseconds(50);
  }
  void CheckState(benchmark::State& state, int pending) {
    if (scheduler_.pending() != pending || scheduler_.active() != kActive) {
      state.SkipWithError("the machine is not in the state that is measured");
    }
  }

 private:
  static Config MakeConfig() {
    Config config;
    config.settle = absl::ZeroDuration();
    config.max_queued = 1'000'000;
    for (int i = 0; i < 5; ++i) config.group_limits["group" + std::to_string(i)] = 0;
    return config;
  }

  Instant now_{absl::Seconds(1000), absl::Seconds(1000), absl::UnixEpoch()};
  HostSample host_;
  struct Sample sample_;
  Scheduler scheduler_;
};

void SubmitAndCancel(benchmark::State& state) {
  Machine machine(state.range(0));
  machine.CheckState(state, static_cast<int>(state.range(0)));
  for (auto _ : state) machine.Cancel(machine.Add(GiB(800), "group7"));
}

void SampleStep(benchmark::State& state) {
  Machine machine(state.range(0));
  machine.CheckState(state, static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(machine.Sample());
}

void Doubled(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t queued : {12'500, 25'000, 50'000, 100'000}) bench->Arg(queued);
  bench->Unit(benchmark::kMicrosecond);
}
BENCHMARK(SubmitAndCancel)->Apply(Doubled);
BENCHMARK(SampleStep)->Apply(Doubled);

}  // namespace
}  // namespace stageload::core

BENCHMARK_MAIN();
