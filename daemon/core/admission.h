// Whether a request may start now, and if not, why. Two 20 GB jobs must not both start into the
// same free 30 GB because neither has allocated yet: what active clients declared and do not hold
// yet is spoken for.
//
// Threading: pure functions.
#ifndef STAGELOAD_DAEMON_CORE_ADMISSION_H_
#define STAGELOAD_DAEMON_CORE_ADMISSION_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/units.h"
#include "daemon/core/blocker.h"
#include "daemon/core/ids.h"
#include "daemon/core/policy.h"
#include "daemon/core/sample.h"

namespace stageload::core {

// What one active client may still take.
struct Reservation {
  JobId id{};
  std::optional<Bytes> declared;
  std::optional<Bytes> footprint;  // at the newest sample; absent counts as nothing held
  Bytes unspent_swap;              // of its swap budget

  // Declared and not held yet.
  Bytes Outstanding() const;
};

// The machine as a request finds it.
struct Room {
  HostSample host;                              // the newest
  std::optional<absl::Duration> age;            // of it, in time awake; absent before the first
  absl::Duration max_age = absl::Seconds(1.5);  // older than this is stale
  std::vector<Reservation> active;              // ascending by id
};

// Kept free after all declarations.
Bytes ReserveOf(const Config& config, Bytes total);

// Everything that blocks `policy` now, but ORDER, which is the queue's own. Empty: it may start.
std::vector<Blocker> FindBlockers(const Policy& policy, const Config& config, const Room& room);

// InvalidArgument (NEVER_FITS), with the arithmetic, for a request that no amount of waiting helps.
absl::Status CheckCanEverFit(const Policy& policy, const Config& config, const HostSample& host);

// `sample` without what cannot be true (available > total, a level outside 0 to 100, negative
// sizes): a sensor that lies is a sensor that cannot be read.
HostSample Plausible(HostSample sample);

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_ADMISSION_H_
