#include "daemon/telemetry/ring.h"

#include <algorithm>
#include <utility>

namespace stageload::telemetry {

std::vector<Ring::Frame> Ring::Add(Frame frame) {
  bytes_ += frame->wire.bytes.size();
  frames_.push_back(std::move(frame));
  const absl::Duration oldest = frames_.back()->awake - kRingSpan;
  std::vector<Frame> forgotten;
  while (frames_.size() > 1 && (bytes_ > kRingBytes || frames_.front()->awake <= oldest)) {
    bytes_ -= frames_.front()->wire.bytes.size();
    forgotten.push_back(std::move(frames_.front()));
    frames_.pop_front();
  }
  return forgotten;
}

Ring::Frame Ring::At(std::int64_t sequence) const {
  if (frames_.empty() || sequence < frames_.front()->sequence) return nullptr;
  const auto index = static_cast<std::size_t>(sequence - frames_.front()->sequence);
  return index < frames_.size() ? frames_[index] : nullptr;
}

Ring::Following Ring::After(std::int64_t sequence, absl::Duration awake) const {
  if (frames_.empty() || sequence >= frames_.back()->sequence) return {nullptr, 0, sequence};
  const std::int64_t first = frames_.front()->sequence;
  const std::int64_t lost = std::max<std::int64_t>(0, first - sequence - 1);
  const auto begin = frames_.begin() + std::max<std::int64_t>(0, sequence + 1 - first);
  const auto found =
      std::lower_bound(begin, frames_.end(), awake,
                       [](const Frame& frame, absl::Duration time) { return frame->awake < time; });
  if (found == frames_.end()) return {nullptr, lost, frames_.back()->sequence};
  return {*found, lost, (*found)->sequence};
}

}  // namespace stageload::telemetry
