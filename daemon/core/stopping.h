// Whom to stop when the machine itself runs out, and from when on that is so.
//
// Threading: plain values and pure functions.
#ifndef STAGELOAD_DAEMON_CORE_STOPPING_H_
#define STAGELOAD_DAEMON_CORE_STOPPING_H_

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "base/units.h"
#include "daemon/core/ids.h"

namespace stageload::core {

// How long the level has been too low for one client. Time above its threshold counts back at a
// quarter of the speed, so a level that swings around the threshold still acts within seconds, and
// a long calm disarms.
class LowLevel {
 public:
  // `elapsed` is the time awake since the sample before; zero for the first.
  void Observe(bool low, absl::Duration elapsed);
  // Low now, for a second in all, over at least two samples.
  bool Armed() const;

 private:
  bool low_ = false;
  int low_samples_ = 0;
  absl::Duration time_;  // low, less what calm took back
  absl::Duration calm_;  // since it was last low
};

struct Candidate {
  JobId id{};
  int priority = 0;
  Bytes charge;
  Bytes footprint;  // 0 when it could not be read: another is preferred then
};

// Lowest priority, then largest charge, then largest footprint, then youngest.
std::optional<JobId> ChooseVictim(const std::vector<Candidate>& candidates);

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_STOPPING_H_
