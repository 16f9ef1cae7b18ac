// Whether a request may start now, and if not, why. Two 20 GB jobs must not both start into the
// same free 30 GB because neither has allocated yet: what active clients declared and do not hold
// yet is spoken for. docs/admission.md works an example.
//
// Threading: pure functions. Times are Instant::awake.
#ifndef STAGELOAD_DAEMON_CORE_ADMISSION_H_
#define STAGELOAD_DAEMON_CORE_ADMISSION_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/units.h"
#include "daemon/core/blocker.h"
#include "daemon/core/ids.h"
#include "daemon/core/policy.h"
#include "daemon/core/recovery.h"
#include "daemon/core/sample.h"

namespace stageload::core {

// What a request asks of the machine.
struct Demand {
  Percent wait_free;
  Bytes swap_budget;  // 0 for a lease: its client's is promised already
  std::optional<Bytes> swap_limit;
  std::optional<Bytes> memory;  // declared; absent is unknown
  // A lease, or a guard inside another client: who runs already and wants to go on.
  std::optional<JobId> part_of;
  Bytes unspent_around;  // the part of Room::unspent_swap that is its own
};
Demand DemandOf(const Policy& policy);

// What one active client may still take.
struct Reservation {
  JobId id{};
  std::optional<Bytes> declared;  // counts against the pool
  std::optional<Bytes> expected;  // what it may come to hold; for most, what it declared
  // At the newest sample, with what is inside it; absent counts as nothing held.
  std::optional<Bytes> footprint;
  Bytes unspent_swap;  // of its swap budget

  // Expected and not held yet.
  Bytes Outstanding() const;
};

// The machine as a request finds it.
struct Room {
  HostSample host;                              // the newest
  std::optional<absl::Duration> sampled_at;     // absent before the first
  absl::Duration max_age = absl::Seconds(1.5);  // older than this is stale
  std::vector<Reservation> active;              // ascending by id

  std::optional<absl::Duration> woke_at;  // within the last kWakingTime
  struct Settling {
    JobId id{};
    absl::Duration since;
  };
  std::optional<Settling> settling;  // the last start, if it declared nothing
  std::optional<Recovering> recovering;
  absl::Duration returning_until = -absl::InfiniteDuration();  // see ProgramsReturning
  Bytes swap_growth;                                           // over the last 5 s
  bool draining = false;

  // Sums over `active`, so that one more candidate costs nothing: SumUp().
  Bytes outstanding;
  Bytes declared;
  Bytes unspent_swap;
  Bytes footprint;
  void SumUp();
};

// After sleep, how long nothing starts: caches are cold and readings jump.
inline constexpr absl::Duration kWakingTime = absl::Seconds(5);
// The fastest growth of swap at which something may start, over 5 s.
inline constexpr Bytes kMaxSwapGrowth = MiB(320);

// Kept free after all declarations.
Bytes ReserveOf(const Config& config, Bytes total);

// Everything about the machine that blocks `demand` now. Empty: it may start.
std::vector<Blocker> FindBlockers(const Demand& demand, const Config& config, const Room& room,
                                  absl::Duration now);
// The same question without the words.
bool MayStart(const Demand& demand, const Config& config, const Room& room, absl::Duration now);
// Whether what blocks passes by itself (STALE, WAKING, SWAPPING, RECOVERING, RETURNING): nothing
// may start meanwhile, not even a forced lease.
bool IsUnsettled(const Room& room, absl::Duration now);

// InvalidArgument (NEVER_FITS), with the arithmetic, for a request that no amount of waiting helps.
// `memory_field` is the request's that has Demand::memory, of which `besides` is declared already
// by who asks or what it is inside.
inline constexpr char kPolicyMemory[] = "policy.memory_bytes";
absl::Status CheckCanEverFit(const Demand& demand, const Config& config, const HostSample& host,
                             const char* memory_field = kPolicyMemory, Bytes besides = Bytes(0));
// The same question without the words.
bool CanEverFit(const Demand& demand, const Config& config, const HostSample& host);
// The most that could ever be declared here; absent while the machine's size is unknown.
std::optional<Bytes> MostThatFits(const Config& config, const HostSample& host);

// `sample` without what cannot be true (available > total, a level outside 0 to 100, negative
// sizes, more swap used than there is): a sensor that lies is a sensor that cannot be read.
// `dropped`, if any, gets one line for each value: "level 140 %".
HostSample Plausible(HostSample sample, std::vector<std::string>* dropped = nullptr);

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_ADMISSION_H_
