// Who pays for swap. The kernel tells how much swap the machine uses, not who filled it, so each
// change is split over the active clients; what they hold together is always exactly what swap has
// changed by while any was active. With one client that is "swap now - swap at its start", and not
// even weights that no footprint shows can hide from it.
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
#include "daemon/core/sample.h"

namespace stageload::core {

class ChargeLedger {
 public:
  struct Account {
    Bytes charge;         // signed
    Bytes system_growth;  // of the machine's swap since this client was added
    Bytes own_growth;     // of its own swapped bytes since then; 0 where the platform cannot tell
  };

  // Starts to charge a client from the newest observation on. `charge` continues an account that
  // was kept over a restart.
  void Add(JobId id, Bytes charge = Bytes(0));
  // Its charge stays in the sums, and goes to nobody else.
  void Remove(JobId id);

  // Splits the change of swap since the observation before. An absent `swap_used` changes nothing.
  // After a sleep (more than 2 s that passed without being awake) the baseline moves and nothing is
  // charged: hibernation itself writes pages to swap.
  void Observe(const Instant& now, std::optional<Bytes> swap_used,
               const std::vector<ClientUsage>& clients);

  // Zeroes for a client that is not there.
  Account Of(JobId id) const;

  Bytes total_growth() const { return total_growth_; }  // sum of all changes that were split
  Bytes retired() const { return retired_; }            // held by clients that were removed

 private:
  struct Client {
    Account account;
    Usage usage;                        // at the observation before
    std::optional<Bytes> own_at_start;  // first reading of its own swapped bytes
    struct Footprint {
      absl::Duration at;  // awake
      Bytes bytes;
    };
    std::deque<Footprint> footprints;  // of the last 3 s, oldest first
  };

  void TakeIn(const Instant& now, const std::vector<ClientUsage>& clients);
  std::vector<double> GrowthWeights(const std::vector<ClientUsage>& before_usage) const;
  std::vector<double> FallWeights() const;
  void Split(Bytes change, const std::vector<double>& weights);

  std::map<JobId, Client> clients_;
  std::optional<Bytes> swap_;  // at the observation before
  std::optional<Instant> time_;
  Bytes total_growth_;
  Bytes retired_;
};

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_CHARGE_LEDGER_H_
