// The frames that are kept for who subscribes late or again: those of the last hour, or as many as
// fit.
//
// Threading: guarded by its owner. What is handed out is immutable and may be kept.
#ifndef STAGELOAD_DAEMON_TELEMETRY_RING_H_
#define STAGELOAD_DAEMON_TELEMETRY_RING_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "daemon/telemetry/published.h"

namespace stageload::telemetry {

// Whatever is reached first; the newest frame is always kept. Time is awake time: a night of sleep
// forgets nothing.
inline constexpr absl::Duration kRingSpan = absl::Hours(1);
inline constexpr std::size_t kRingBytes = std::size_t{32} << 20;  // of wire bytes
// What a frame takes besides its wire bytes, at most: the struct, its places in the allocator and
// in the ring. At the fastest pace an hour has 72,000 frames, so the ring takes 44 MiB in all at
// the very most; the 7,200 or fewer of a usual hour take 1.2 MiB and their bytes.
inline constexpr std::size_t kFrameOverhead = 176;

class Ring {
 public:
  using Frame = std::shared_ptr<const Published>;

  // The sequence is one above that of the frame before. What is forgotten for it is handed to the
  // caller, who frees it where nobody waits.
  std::vector<Frame> Add(Frame frame);

  // Null when there is none, or none yet.
  Frame Newest() const { return frames_.empty() ? nullptr : frames_.back(); }
  Frame At(std::int64_t sequence) const;

  struct Following {
    Frame frame;            // null when there is none
    std::int64_t lost = 0;  // how many after the one that was asked about are not kept any more
    std::int64_t seen = 0;  // everything up to this one is lost, passed over, or in `frame`
  };
  // The first frame after `sequence` that was sampled at `awake` or later.
  Following After(std::int64_t sequence, absl::Duration awake) const;

  std::size_t size() const { return frames_.size(); }
  std::size_t bytes() const { return bytes_; }  // of wire

 private:
  std::deque<Frame> frames_;
  std::size_t bytes_ = 0;
};

}  // namespace stageload::telemetry

#endif  // STAGELOAD_DAEMON_TELEMETRY_RING_H_
