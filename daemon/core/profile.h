// What earlier runs of the same thing have needed, so that nobody has to guess.
//
// Threading: one owner; no I/O, no clock.
#ifndef STAGELOAD_DAEMON_CORE_PROFILE_H_
#define STAGELOAD_DAEMON_CORE_PROFILE_H_

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/units.h"
#include "daemon/core/ids.h"
#include "daemon/core/job.h"

namespace stageload::core {

// One run's peaks. Absent is unknown: a run too short to be sampled leaves nothing, never 0.
struct RunPeaks {
  JobId id{};
  std::optional<Bytes> footprint;
  // See JobRecord::true_peak: also what no footprint shows; only of a run that was alone.
  std::optional<Bytes> true_peak;
};

RunPeaks PeaksOf(const JobRecord& record);
// The larger of the two; absent when neither is known.
std::optional<Bytes> PeakOf(const RunPeaks& run);

class Profiles {
 public:
  static constexpr std::size_t kRuns = 20;  // the last ones count

  void Add(const std::string& profile, const RunPeaks& run);
  void Forget(const std::string& profile) { runs_.erase(profile); }
  // What a run may need: the largest peak known, and a tenth more. Absent when none is known.
  std::optional<Bytes> Estimate(const std::string& profile) const;
  const std::map<std::string, std::deque<RunPeaks>>& all() const { return runs_; }

 private:
  std::map<std::string, std::deque<RunPeaks>> runs_;  // oldest first
};

// What the end of `record` teaches, if anything. A run that did not complete is remembered only
// when it needed more than `known`: it may have ended long before its peak.
std::optional<RunPeaks> LessonOf(const JobRecord& record, std::optional<Bytes> known);

// What to declare when a job that was stopped for memory is run again: at least its true peak and a
// tenth more.
std::optional<Bytes> MemoryForRetry(const JobRecord& record);

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_PROFILE_H_
