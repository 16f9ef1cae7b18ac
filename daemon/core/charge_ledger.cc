#include "daemon/core/charge_ledger.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "daemon/core/fault.h"
#include "daemon/core/gap.h"

namespace stageload::core {
namespace {

// Footprint growth is looked at over this long: memory is taken some time before it is swapped.
constexpr absl::Duration kGrowthWindow = absl::Seconds(3);
// The kernel gives back the swap of a process that ended within this.
constexpr absl::Duration kLeaving = absl::Seconds(30);

bool AnyPositive(const std::vector<double>& weights) {
  return std::any_of(weights.begin(), weights.end(), [](double w) { return w > 0; });
}

double PositiveGrowth(std::optional<Bytes> now, std::optional<Bytes> before) {
  if (!now || !before) return 0;
  return std::max(0.0, (*now - *before).AsDouble());
}

double Positive(std::optional<Bytes> bytes) {
  return std::max(0.0, bytes.value_or(Bytes(0)).AsDouble());
}

// Parts of `change` in the proportion of `weights`, to the last byte: each takes its share of what
// is left. At least one weight is positive.
std::vector<Bytes> SharesOf(Bytes change, const std::vector<double>& weights) {
  std::vector<Bytes> shares(weights.size());
  double weight_left = std::accumulate(weights.begin(), weights.end(), 0.0);
  Bytes left = change;
  std::size_t last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = i;
    shares[i] = left * std::min(1.0, weights[i] / weight_left);
    left -= shares[i];
    weight_left -= weights[i];
  }
  shares[last] += left;  // of rounding
  return shares;
}

}  // namespace

void ChargeLedger::Add(JobId id, ChargeMode mode, Bytes charge) {
  // What ended before anyone else was there gives nothing back to a client alone.
  if (clients_.empty()) {
    leavers_.clear();
    retired_ += unattributed_;
    unattributed_ = Bytes(0);
  }
  Client& client = clients_[id];
  client.mode = mode;
  client.account.charge = charge;
  total_growth_ += charge;
}

void ChargeLedger::Resume(const Instant& then, Bytes swap_used) {
  if (time_ && time_->awake >= then.awake) return;
  time_ = then;
  swap_ = swap_used;
}

void ChargeLedger::Remove(JobId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  const Bytes charge = found->second.account.charge;
  retired_ += charge;
  clients_.erase(found);
  if (charge > Bytes(0) && time_) leavers_.push_back({charge, time_->awake + kLeaving});
}

void ChargeLedger::Observe(const Instant& now, std::optional<Bytes> swap_used,
                           const std::vector<ClientUsage>& clients) {
  const bool gap = time_ && IsGap(*time_, now) && !IsOn(Fault::kNotRebasedAfterSleep);
  time_ = now;
  while (!leavers_.empty() && leavers_.front().until < now.awake) leavers_.pop_front();
  if (swap_used && swap_ && !gap && !clients_.empty()) {
    const Bytes change = *swap_used - *swap_;
    total_growth_ += change;
    for (auto& [id, client] : clients_) client.account.system_growth += change;
    if (change > Bytes(0)) Grow(change, clients);
    if (change < Bytes(0)) Fall(change);
  }
  // What was read before a gap is no baseline for anything after it.
  if (swap_used || gap) swap_ = swap_used;
  TakeIn(now, clients);
}

// The readings of the clients that are there, in their order.
std::vector<Usage> ChargeLedger::Match(const std::vector<ClientUsage>& readings) const {
  std::vector<Usage> usages;
  usages.reserve(clients_.size());
  auto reading = readings.begin();
  for (const auto& [id, client] : clients_) {
    while (reading != readings.end() && reading->id < id) ++reading;
    usages.push_back(reading != readings.end() && reading->id == id ? reading->usage : Usage{});
  }
  return usages;
}

void ChargeLedger::Grow(Bytes change, const std::vector<ClientUsage>& readings) {
  const std::vector<Usage> usages = Match(readings);
  const std::vector<Bytes> shares = SharesOf(change, GrowthWeights(usages));
  std::size_t index = 0;
  for (auto& [id, client] : clients_) {
    Bytes share = shares[index];
    const Usage& usage = usages[index++];
    // Where its own bytes cannot be read, a budget that cannot be measured must not be endless.
    if (client.mode == ChargeMode::kOwn && usage.swapped && client.usage.swapped) {
      const Bytes own = std::min(share, std::max(Bytes(0), *usage.swapped - *client.usage.swapped));
      unattributed_ += share - own;
      share = own;
    }
    client.account.charge += share;
  }
}

// First what clients that just ended give back, then by what each holds; what nobody was charged
// for also comes back to nobody.
void ChargeLedger::Fall(Bytes change) {
  for (Leaver& leaver : leavers_) {
    const Bytes back = std::min(leaver.charge, -change);
    leaver.charge -= back;
    retired_ -= back;
    change += back;
  }
  if (change == Bytes(0)) return;
  std::vector<double> held;
  for (const auto& [id, client] : clients_) held.push_back(Positive(client.account.charge));
  held.push_back(Positive(unattributed_));
  if (!AnyPositive(held)) {
    held.assign(clients_.size(), 1.0);
    held.push_back(0);
  }
  const std::vector<Bytes> shares = SharesOf(change, held);
  std::size_t index = 0;
  for (auto& [id, client] : clients_) client.account.charge += shares[index++];
  unattributed_ += shares.back();
}

void ChargeLedger::TakeIn(const Instant& now, const std::vector<ClientUsage>& readings) {
  auto reading = readings.begin();
  for (auto& [id, client] : clients_) {
    while (reading != readings.end() && reading->id < id) ++reading;
    if (reading == readings.end() || reading->id != id) continue;
    client.usage = reading->usage;
    if (client.usage.swapped) {
      if (!client.own_at_start) client.own_at_start = client.usage.swapped;
      client.account.own_growth = *client.usage.swapped - *client.own_at_start;
    }
    if (client.usage.footprint) {
      client.footprints.push_back({now.awake, *client.usage.footprint});
      // Keeps one reading at or before the window's start, to measure growth from.
      while (client.footprints.size() > 2 && client.footprints[1].at <= now.awake - kGrowthWindow) {
        client.footprints.pop_front();
      }
    }
  }
}

// The first of these that says anything: growth of own swapped bytes, growth of footprint over the
// window, footprint, equal shares.
std::vector<double> ChargeLedger::GrowthWeights(const std::vector<Usage>& usages) const {
  std::vector<double> swapped, growth, footprint;
  std::size_t index = 0;
  for (const auto& [id, client] : clients_) {
    const Usage& usage = usages[index++];
    swapped.push_back(PositiveGrowth(usage.swapped, client.usage.swapped));
    growth.push_back(client.footprints.empty()
                         ? Positive(usage.footprint)
                         : PositiveGrowth(usage.footprint, client.footprints.front().bytes));
    footprint.push_back(Positive(usage.footprint));
  }
  if (AnyPositive(swapped)) return swapped;
  if (AnyPositive(growth)) return growth;
  if (AnyPositive(footprint)) return footprint;
  return std::vector<double>(clients_.size(), 1.0);
}

ChargeLedger::Account ChargeLedger::Of(JobId id) const {
  const auto found = clients_.find(id);
  return found == clients_.end() ? Account{} : found->second.account;
}

}  // namespace stageload::core
