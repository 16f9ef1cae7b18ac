// What a request asks for, and what the machine's owner allows.
//
// Threading: plain values.
#ifndef STAGELOAD_DAEMON_CORE_POLICY_H_
#define STAGELOAD_DAEMON_CORE_POLICY_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/units.h"
#include "daemon/core/sample.h"

namespace stageload::core {

// Which growth of swap counts against a client's budget.
enum class ChargeMode {
  kSystem,  // its share of the machine's, so nothing hides
  kOwn,     // only what its own swapped or compressed bytes account for
};

// What happens to a client whose charge is over its budget.
enum class OverBudget { kStop, kSuspend, kWarn };

// One request's terms: when it may start and when it is stopped.
struct Policy {
  Percent wait_free{40};            // starts only at this level or above
  Bytes swap_budget = GiB(8);       // swap that it may add over what was used at its start
  std::optional<Bytes> swap_limit;  // stopped while the whole machine's swap is above
  Percent kill_free{10};            // may be chosen as a victim below this level
  std::optional<Bytes> memory;      // declared peak; absent is unknown, which is not 0
  bool memory_auto = false;  // declares what its profile's runs have needed, once that is known
  int priority = 0;          // higher goes first; -1000 to 1000
  std::optional<absl::Duration> start_timeout;  // waits no longer than this; absent is for ever
  absl::Duration grace = absl::Seconds(5);      // from SIGTERM to SIGKILL
  std::optional<absl::Duration> time_limit;     // of running: awake and not suspended
  ChargeMode charge_mode = ChargeMode::kSystem;
  OverBudget on_over_budget = OverBudget::kStop;
  // Waits while a process that is not ours matches one of these (regular expressions of
  // RE2's syntax over the whole command line), and for `quiet_for` after the last that did.
  std::vector<std::string> busy;
  absl::Duration quiet_for = absl::Minutes(1);

  friend bool operator==(const Policy&, const Policy&) = default;
};

// What holds for a request that does not say otherwise.
struct Defaults {
  Policy policy;
  // Of a guarded command, instead of policy.start_timeout: somebody sits before it.
  std::optional<absl::Duration> guard_start_timeout = absl::Minutes(30);
};

// The budget of who names none: no more than the swap limit, if there is one, so that a default
// does not make a limit impossible that somebody asked for.
Bytes DefaultSwapBudget(std::optional<Bytes> swap_limit, Bytes budget = Policy().swap_budget);

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
  int max_sessions = 1000;
  // How often requests may pass one that waits for memory.
  int max_bypass = 5;
  // After a start without a declaration, how long nothing else starts.
  absl::Duration settle = absl::Seconds(15);
  // The share of other programs' compressible memory that counts as available.
  double anonymous_credit = 0;
  // How many clients of a group run at once; a group that is not named has no limit.
  std::map<std::string, int> group_limits;
  // Decides and tells all the same, but stops and suspends nobody unless a user asks.
  bool dry_run = false;
};

// InvalidArgument names the field, the value and the range.
absl::Status Validate(const Policy& policy);

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_POLICY_H_
