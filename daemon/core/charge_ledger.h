// Who pays for swap. The kernel tells how much swap the machine uses, not who filled it, so each
// change is split over the active clients; what they hold together, and what is put down to nobody,
// is always exactly what swap has changed by while any was active. With one client that is "swap
// now - swap at its start", and not even weights that no footprint shows can hide from it.
//
// Threading: one owner; no I/O, no clock.
#ifndef STAGELOAD_DAEMON_CORE_CHARGE_LEDGER_H_
#define STAGELOAD_DAEMON_CORE_CHARGE_LEDGER_H_

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/instant.h"
#include "base/units.h"
#include "daemon/core/ids.h"
#include "daemon/core/policy.h"
#include "daemon/core/sample.h"

namespace stageload::core {

class ChargeLedger {
 public:
  struct Account {
    Bytes charge;         // signed
    Bytes system_growth;  // of the machine's swap since this client was added
    // Of its own swapped bytes since its first reading; absent where the platform cannot tell.
    std::optional<Bytes> own_growth;
  };

  // Starts to charge a client from the newest observation on. `charge` continues an account that
  // was kept over a restart.
  void Add(JobId id, ChargeMode mode, Bytes charge = Bytes(0));
  // Continues from what the daemon before read last, unless something newer is known.
  void Resume(const Instant& then, Bytes swap_used);
  // Its charge stays in the sums. Swap that falls within half a minute is its own, given back late:
  // it is no credit to the clients that are left.
  void Remove(JobId id);

  // Splits the change of swap since the observation before: growth by the growth of each client's
  // own swapped bytes, else of its footprint over the last 3 s, else by footprint, else equally; a
  // fall by the charges held. An absent `swap_used` changes nothing; over a gap (gap.h) the
  // baseline moves and nothing is charged. `clients` ascends by id.
  void Observe(const Instant& now, std::optional<Bytes> swap_used,
               const std::vector<ClientUsage>& clients);

  // Zeroes for a client that is not there.
  Account Of(JobId id) const;

  // total_growth() == sum of all charges + retired() + unattributed(), always.
  Bytes total_growth() const { return total_growth_; }  // sum of all changes that were split
  Bytes retired() const { return retired_; }            // held by clients that were removed
  Bytes unattributed() const { return unattributed_; }  // not the own growth of a kOwn client

 private:
  struct Client {
    ChargeMode mode = ChargeMode::kSystem;
    Account account;
    Usage usage;                        // at the observation before
    std::optional<Bytes> own_at_start;  // first reading of its own swapped bytes
    struct Footprint {
      absl::Duration at;  // awake
      Bytes bytes;
    };
    std::deque<Footprint> footprints;  // of the last 3 s, oldest first
  };
  // One that was removed while others were active, whose swap may still come back.
  struct Leaver {
    Bytes charge;
    absl::Duration until;  // awake
  };

  void Grow(Bytes change, const std::vector<ClientUsage>& readings);
  void Fall(Bytes change);
  void TakeIn(const Instant& now, const std::vector<ClientUsage>& readings);
  std::vector<double> GrowthWeights(const std::vector<Usage>& usages) const;
  std::vector<Usage> Match(const std::vector<ClientUsage>& readings) const;

  std::map<JobId, Client> clients_;
  std::deque<Leaver> leavers_;
  std::optional<Bytes> swap_;  // at the observation before
  std::optional<Instant> time_;
  Bytes total_growth_;
  Bytes retired_;
  Bytes unattributed_;
};

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_CHARGE_LEDGER_H_
