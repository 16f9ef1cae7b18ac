#include "daemon/core/sampling.h"

#include <algorithm>
#include <cmath>

namespace stageload::core {
namespace {

constexpr double kFastSwapBytesPerSecond = 64.0 * 1024 * 1024;
constexpr double kLevelMargin = 10;

bool NeedsCare(const SamplingInput& input, const SamplingInput::Client& client) {
  if (input.swap_change != Bytes(0) && client.charge > client.swap_budget * 0.5) return true;
  return input.level && input.level->value < client.kill_free.value + kLevelMargin;
}

}  // namespace

absl::Duration SamplingInterval(const SamplingInput& input) {
  if (input.clients.empty()) {
    return input.waiting == 0 && input.subscribers == 0 ? kIdleInterval : kInterval;
  }
  const double seconds = absl::ToDoubleSeconds(input.since_before);
  if (std::abs(input.swap_change.AsDouble()) > kFastSwapBytesPerSecond * seconds) {
    return kFastInterval;
  }
  const bool care =
      std::any_of(input.clients.begin(), input.clients.end(),
                  [&](const SamplingInput::Client& client) { return NeedsCare(input, client); });
  return care ? kFastInterval : kInterval;
}

}  // namespace stageload::core
