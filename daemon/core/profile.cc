#include "daemon/core/profile.h"

#include <algorithm>

namespace stageload::core {
namespace {

constexpr double kMargin = 1.1;

}  // namespace

RunPeaks PeaksOf(const JobRecord& record) {
  return {record.id, record.peak_footprint, record.true_peak};
}

std::optional<Bytes> PeakOf(const RunPeaks& run) {
  if (!run.footprint) return run.true_peak;
  return std::max(*run.footprint, run.true_peak.value_or(Bytes(0)));
}

void Profiles::Add(const std::string& profile, const RunPeaks& run) {
  if (!PeakOf(run)) return;
  std::deque<RunPeaks>& runs = runs_[profile];
  runs.push_back(run);
  if (runs.size() > kRuns) runs.pop_front();
}

std::optional<Bytes> Profiles::Estimate(const std::string& profile) const {
  const auto found = runs_.find(profile);
  if (found == runs_.end()) return std::nullopt;
  Bytes peak;
  for (const RunPeaks& run : found->second) peak = std::max(peak, *PeakOf(run));
  return peak * kMargin;
}

std::optional<RunPeaks> LessonOf(const JobRecord& record, std::optional<Bytes> known) {
  if (record.profile.empty()) return std::nullopt;
  const RunPeaks run = PeaksOf(record);
  const std::optional<Bytes> peak = PeakOf(run);
  if (!peak) return std::nullopt;
  const bool more = !known || *peak * kMargin > *known;
  if (record.state != JobState::kCompleted && !more) return std::nullopt;
  return run;
}

std::optional<Bytes> MemoryForRetry(const JobRecord& record) {
  const std::optional<Bytes> peak = PeakOf(PeaksOf(record));
  if (record.state != JobState::kOutOfMemory || !peak) return record.policy.memory;
  return std::max(*peak * kMargin, record.policy.memory.value_or(Bytes(0)));
}

}  // namespace stageload::core
