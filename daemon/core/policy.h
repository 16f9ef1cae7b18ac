// What a request asks for, and what the machine's owner allows.
//
// Threading: plain values.
#ifndef STAGELOAD_DAEMON_CORE_POLICY_H_
#define STAGELOAD_DAEMON_CORE_POLICY_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/units.h"
#include "daemon/core/sample.h"

namespace stageload::core {

// One request's terms: when it may start and when it is stopped.
struct Policy {
  Percent wait_free{40};            // starts only at this level or above
  Bytes swap_budget = GiB(8);       // swap that it may add over what was used at its start
  std::optional<Bytes> swap_limit;  // stopped while the whole machine's swap is above
  Percent kill_free{10};            // may be chosen as a victim below this level
  std::optional<Bytes> memory;      // declared peak; absent is unknown, which is not 0
  int priority = 0;                 // higher goes first; -1000 to 1000
  std::optional<absl::Duration> start_timeout;  // waits no longer than this; absent is for ever
  absl::Duration grace = absl::Seconds(5);      // from SIGTERM to SIGKILL
};

// What holds for all requests (the config file).
struct Config {
  // Kept free after all declarations: a share of total memory, or an amount where given.
  double reserve_fraction = 0.10;
  std::optional<Bytes> reserve;
  // A cap on the sum of all managed declarations.
  std::optional<Bytes> memory_pool;
  // Nothing is admitted at this pressure or above.
  Pressure max_pressure = Pressure::kCritical;
  int max_queued = 100'000;
};

// InvalidArgument names the field, the value and the range.
absl::Status Validate(const Policy& policy);

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_POLICY_H_
