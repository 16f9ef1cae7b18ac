#include "daemon/core/gap.h"

namespace stageload::core {
namespace {

constexpr absl::Duration kSleep = absl::Seconds(2);
constexpr absl::Duration kStall = absl::Minutes(1);

}  // namespace

bool Slept(const Instant& before, const Instant& now) {
  return (now.continuous - before.continuous) - (now.awake - before.awake) > kSleep;
}

bool IsGap(const Instant& before, const Instant& now) {
  return Slept(before, now) || now.awake - before.awake > kStall;
}

}  // namespace stageload::core
