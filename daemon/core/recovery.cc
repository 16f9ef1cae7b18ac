#include "daemon/core/recovery.h"

#include <algorithm>

namespace stageload::core {
namespace {

constexpr absl::Duration kWait = absl::Seconds(4);
constexpr absl::Duration kAfterRise = absl::Seconds(1);
constexpr absl::Duration kAtMost = absl::Seconds(30);
constexpr double kEnough = 0.9;
// A rise that counts: other programs move available all the time.
constexpr double kRiseShare = 0.01;
constexpr Bytes kLeastRise = MiB(16);

}  // namespace

void Recovery::Ended(absl::Duration now, JobId id, Bytes held, std::optional<Bytes> available) {
  if (!state_) state_ = State{{id, Bytes(0), Bytes(0), now}, available, available, now};
  state_->seen.id = id;
  state_->seen.held += held;
  state_->seen.until = now + kWait;
  state_->ended = now;
}

void Recovery::Observe(absl::Duration now, std::optional<Bytes> available) {
  if (!state_) return;
  if (available) {
    const Bytes before = state_->newest.value_or(*available);
    if (!state_->base) state_->base = available;
    state_->newest = available;
    state_->seen.back = std::max(Bytes(0), *available - *state_->base);
    if (*available - before >= std::max(kLeastRise, state_->seen.held * kRiseShare)) {
      state_->seen.until =
          std::min(std::max(state_->seen.until, now + kAfterRise), state_->ended + kAtMost);
    }
    if (state_->seen.back >= state_->seen.held * kEnough) return state_.reset();
  }
  if (now >= state_->seen.until) state_.reset();
}

std::optional<Recovering> Recovery::At(absl::Duration now) const {
  if (!state_ || now >= state_->seen.until) return std::nullopt;
  return state_->seen;
}

void SwapWindow::Observe(absl::Duration now, std::optional<Bytes> swap_used) {
  if (swap_used) readings_.push_back({now, *swap_used});
  // Keeps one reading at or before the window's start, to measure growth from.
  while (readings_.size() > 1 && readings_[1].at <= now - kLength) readings_.pop_front();
}

Bytes SwapWindow::growth() const {
  if (readings_.empty()) return Bytes(0);
  return readings_.back().swap_used - readings_.front().swap_used;
}

}  // namespace stageload::core
