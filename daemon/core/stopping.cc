#include "daemon/core/stopping.h"

#include <algorithm>
#include <tuple>

namespace stageload::core {
namespace {

constexpr absl::Duration kArmAfter = absl::Seconds(1);
constexpr absl::Duration kDisarmAfter = absl::Seconds(5);
constexpr int kMinLowSamples = 2;
constexpr double kDecay = 0.25;

}  // namespace

void LowLevel::Observe(bool low, absl::Duration elapsed) {
  low_ = low;
  if (low) {
    if (low_samples_++ > 0) time_ += elapsed;
    calm_ = absl::ZeroDuration();
    return;
  }
  time_ = std::max(absl::ZeroDuration(), time_ - kDecay * elapsed);
  calm_ += elapsed;
  if (calm_ >= kDisarmAfter) low_samples_ = 0;
}

bool LowLevel::Armed() const {
  return low_ && low_samples_ >= kMinLowSamples && time_ >= kArmAfter;
}

std::optional<JobId> ChooseVictim(const std::vector<Candidate>& candidates) {
  const auto victim = std::max_element(
      candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        return std::make_tuple(-a.priority, a.charge, a.footprint, Value(a.id)) <
               std::make_tuple(-b.priority, b.charge, b.footprint, Value(b.id));
      });
  if (victim == candidates.end()) return std::nullopt;
  return victim->id;
}

}  // namespace stageload::core
