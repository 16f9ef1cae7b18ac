// That the world behaves as recordings of a real Mac do: a recording's footprint is played through
// it, and level and swap are compared with what was recorded. Coarsely: a footprint does not tell
// all that a program holds.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "base/trace.h"
#include "gtest/gtest.h"
#include "tests/sim/world.h"

namespace stageload::sim {
namespace {

// The Mac of the recordings.
World::Machine RecordedMac() {
  World::Machine machine;
  machine.total = GiB(48);
  machine.swap_total = GiB(40);
  machine.wired_share = 0.08;
  machine.others_share = 0.12;
  return machine;
}

// One recording, and what it does not tell: how much of what the footprint shows the GPU has wired.
struct Recording {
  const char* file;
  double until;  // seconds; what follows in offload-1 is decoding, which no footprint shows
  double wired_share;
};

void PrintTo(const Recording& recording, std::ostream* out) { *out << recording.file; }

struct Fit {
  double level_error = 0;  // mean of the absolute differences, in points
  double lowest_recorded = 100;
  double lowest_played = 100;
  Bytes swap_recorded;  // growth from beginning to end
  Bytes swap_played;
};

// A footprint that falls by much was released if the recording says so at that time; else its
// memory was parked, and stays.
Program Play(const Trace& trace, double wired_share) {
  Program program;
  Bytes parked;
  for (std::size_t i = 0; i + 1 < trace.samples.size(); ++i) {
    const TraceSample& from = trace.samples[i];
    const TraceSample& to = trace.samples[i + 1];
    const Bytes fall = *from.footprint - *to.footprint;
    const bool released =
        std::any_of(trace.events.begin(), trace.events.end(), [&](const TraceEvent& event) {
          return event.kind == "release" && event.t > from.t - 1 && event.t < to.t + 1;
        });
    if (fall > GiB(1) && !released) parked += fall;
    program.steps.push_back(
        {absl::Seconds(from.t), absl::Seconds(to.t - from.t), *to.footprint + parked, parked});
  }
  program.wired_share = wired_share;
  program.waves = true;
  return program;
}

Fit Measure(const Trace& trace, const Recording& recording) {
  World::Machine machine = RecordedMac();
  const TraceSample& first = trace.samples.front();
  machine.swap_at_start = *first.swap_used;
  machine.compressed_at_start =
      machine.total * std::max(0.0, 1 - machine.wired_share - first.level->value / 100);
  World world(machine, Random(1));
  world.Spawn(std::make_shared<const Program>(Play(trace, recording.wired_share)), 0, Role::kMain);

  Fit fit;
  int count = 0;
  for (const TraceSample& sample : trace.samples) {
    if (sample.t > recording.until) break;
    world.AdvanceTo(absl::Seconds(sample.t));
    const core::HostSample played = world.Sample();
    fit.level_error += std::abs(played.level->value - sample.level->value);
    fit.lowest_recorded = std::min(fit.lowest_recorded, sample.level->value);
    fit.lowest_played = std::min(fit.lowest_played, played.level->value);
    fit.swap_recorded = *sample.swap_used - *first.swap_used;
    fit.swap_played = *played.swap_used - *first.swap_used;
    ++count;
  }
  fit.level_error /= count;
  return fit;
}

class WorldFit : public testing::TestWithParam<Recording> {};

TEST_P(WorldFit, PlaysARecordingWithAboutItsLevelAndSwap) {
  const std::string path = std::string(STAGELOAD_RECORDINGS) + "/" + GetParam().file;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "there is no recording at " << path;
  const absl::StatusOr<Trace> trace = ReadTrace(path);
  ASSERT_TRUE(trace.ok()) << trace.status();
  const Fit fit = Measure(*trace, GetParam());
  const std::string figures =
      absl::StrFormat("level off by %.1f points, lowest %.0f (recorded %.0f); swap %s (%s)",
                      fit.level_error, fit.lowest_played, fit.lowest_recorded,
                      FormatBytes(fit.swap_played), FormatBytes(fit.swap_recorded));
  RecordProperty("fit", figures);
  EXPECT_LT(fit.level_error, 9) << figures;
  EXPECT_NEAR(fit.lowest_played, fit.lowest_recorded, 12) << figures;
  // At the end swap has grown by as much, within the half of it or 1 GiB.
  const double room = std::max(GiB(1).AsDouble(), fit.swap_recorded.AsDouble() / 2);
  EXPECT_NEAR(fit.swap_played.AsDouble(), fit.swap_recorded.AsDouble(), room) << figures;
}

INSTANTIATE_TEST_SUITE_P(Recordings, WorldFit,
                         testing::Values(Recording{"first-attempt.trace.jsonl", 1e9, 0.95},
                                         Recording{"offload-1.trace.jsonl", 96, 0.95},
                                         Recording{"staged-1.trace.jsonl", 1e9, 0.6}),
                         [](const testing::TestParamInfo<Recording>& recording) {
                           std::string name = recording.param.file;
                           name = name.substr(0, name.find('.'));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace stageload::sim
