#include "daemon/core/charge_ledger.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace stageload::core {
namespace {

// Footprint growth is looked at over this long: memory is taken some time before it is swapped.
constexpr absl::Duration kGrowthWindow = absl::Seconds(3);
// A longer time that passed without being awake was a sleep.
constexpr absl::Duration kSleep = absl::Seconds(2);

bool AnyPositive(const std::vector<double>& weights) {
  return std::any_of(weights.begin(), weights.end(), [](double w) { return w > 0; });
}

double PositiveGrowth(std::optional<Bytes> now, std::optional<Bytes> before) {
  if (!now || !before) return 0;
  return std::max(0.0, (*now - *before).AsDouble());
}

}  // namespace

void ChargeLedger::Add(JobId id, Bytes charge) {
  clients_[id].account.charge = charge;
  total_growth_ += charge;
}

void ChargeLedger::Remove(JobId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  retired_ += found->second.account.charge;
  clients_.erase(found);
}

void ChargeLedger::Observe(const Instant& now, std::optional<Bytes> swap_used,
                           const std::vector<ClientUsage>& clients) {
  const bool slept =
      time_ && (now.continuous - time_->continuous) - (now.awake - time_->awake) > kSleep;
  time_ = now;
  if (swap_used && swap_ && !slept && !clients_.empty()) {
    const Bytes change = *swap_used - *swap_;
    for (auto& [id, client] : clients_) client.account.system_growth += change;
    if (change > Bytes(0)) Split(change, GrowthWeights(clients));
    if (change < Bytes(0)) Split(change, FallWeights());
  }
  if (swap_used) swap_ = swap_used;
  TakeIn(now, clients);
}

void ChargeLedger::TakeIn(const Instant& now, const std::vector<ClientUsage>& clients) {
  for (const ClientUsage& reading : clients) {
    const auto found = clients_.find(reading.id);
    if (found == clients_.end()) continue;
    Client& client = found->second;
    client.usage = reading.usage;
    if (reading.usage.swapped) {
      if (!client.own_at_start) client.own_at_start = reading.usage.swapped;
      client.account.own_growth = *reading.usage.swapped - *client.own_at_start;
    }
    if (reading.usage.footprint) {
      client.footprints.push_back({now.awake, *reading.usage.footprint});
      // Keeps one reading at or before the window's start, to measure growth from.
      while (client.footprints.size() > 2 && client.footprints[1].at <= now.awake - kGrowthWindow) {
        client.footprints.pop_front();
      }
    }
  }
}

// The first of these that says anything: growth of own swapped bytes, growth of footprint over the
// window, footprint, equal shares.
std::vector<double> ChargeLedger::GrowthWeights(const std::vector<ClientUsage>& readings) const {
  std::vector<double> swapped, growth, footprint;
  for (const auto& [id, client] : clients_) {
    const auto reading = std::find_if(readings.begin(), readings.end(),
                                      [id = id](const ClientUsage& r) { return r.id == id; });
    const Usage usage = reading == readings.end() ? Usage{} : reading->usage;
    swapped.push_back(PositiveGrowth(usage.swapped, client.usage.swapped));
    growth.push_back(client.footprints.empty()
                         ? std::max(0.0, usage.footprint.value_or(Bytes(0)).AsDouble())
                         : PositiveGrowth(usage.footprint, client.footprints.front().bytes));
    footprint.push_back(std::max(0.0, usage.footprint.value_or(Bytes(0)).AsDouble()));
  }
  if (AnyPositive(swapped)) return swapped;
  if (AnyPositive(growth)) return growth;
  if (AnyPositive(footprint)) return footprint;
  return std::vector<double>(clients_.size(), 1.0);
}

std::vector<double> ChargeLedger::FallWeights() const {
  std::vector<double> held;
  for (const auto& [id, client] : clients_) {
    held.push_back(std::max(0.0, client.account.charge.AsDouble()));
  }
  return AnyPositive(held) ? held : std::vector<double>(clients_.size(), 1.0);
}

// Gives out `change` to the last byte: each takes its share of what is left.
void ChargeLedger::Split(Bytes change, const std::vector<double>& weights) {
  total_growth_ += change;
  double weight_left = std::accumulate(weights.begin(), weights.end(), 0.0);
  Bytes left = change;
  std::size_t index = 0;
  for (auto& [id, client] : clients_) {
    const double weight = weights[index++];
    if (weight <= 0) continue;
    const bool last = std::none_of(weights.begin() + static_cast<std::ptrdiff_t>(index),
                                   weights.end(), [](double w) { return w > 0; });
    const Bytes share = last ? left : left * std::min(1.0, weight / weight_left);
    client.account.charge += share;
    left -= share;
    weight_left -= weight;
  }
}

ChargeLedger::Account ChargeLedger::Of(JobId id) const {
  const auto found = clients_.find(id);
  return found == clients_.end() ? Account{} : found->second.account;
}

}  // namespace stageload::core
