// Hands every frame to every subscriber, and keeps the last hour of them for who comes later. The
// engine publishes and goes on at once; a thread of the hub's own does the rest, so nobody who
// reads slowly is felt by the sampler.
//
// Memory: the ring (ring.h: at most 32 MiB of wire bytes, kFrameOverhead a frame), which is the
// queue of what is to be delivered as well, and the one frame in delivery. A frame that a
// subscriber holds on to lives for as long as it does.
//
// Threading: Publish() from one thread; everything that asks or subscribes, and the end of a
// Subscription, from any; subscribers are called from the thread in Run(), or in Deliver(). No lock
// is held for longer than it takes to find a frame.
#ifndef STAGELOAD_DAEMON_TELEMETRY_HUB_H_
#define STAGELOAD_DAEMON_TELEMETRY_HUB_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "daemon/telemetry/frame.h"
#include "daemon/telemetry/published.h"
#include "daemon/telemetry/ring.h"

namespace stageload::telemetry {

inline constexpr int kMaxSubscribers = 1000;
// Delivery that is further behind than this leaves frames out: half a minute at the usual two
// frames a second, three seconds at the fastest pace.
inline constexpr std::int64_t kMaxQueued = 64;

class Hub {
 public:
  // Turns a frame into its wire form; the hub does not know which.
  using Encoder = std::function<Encoded(const Frame&)>;
  // May not block. Frames come in order; if the subscribers together are too slow, frames are left
  // out, which the gap in `sequence` shows.
  using OnFrame = std::function<void(const std::shared_ptr<const Published>&)>;

  explicit Hub(Encoder encoder);
  ~Hub();

  // Ends when destroyed; after that its callback is not running and is never called again (so it
  // must not be destroyed inside the callback).
  class Subscription;
  // To all frames from now on. ResourceExhausted (TOO_MANY_SUBSCRIBERS) beyond kMaxSubscribers.
  absl::StatusOr<std::unique_ptr<Subscription>> Subscribe(OnFrame on_frame);
  int subscribers() const;

  // Gives the frame its sequence number and queues it for delivery.
  void Publish(Frame frame);
  // Null before the first.
  std::shared_ptr<const Published> Newest() const;
  // Of the ring; also what was not delivered yet.
  std::shared_ptr<const Published> At(std::int64_t sequence) const;
  Ring::Following After(std::int64_t sequence, absl::Duration awake) const;

  void Run();  // delivers until Stop()
  void Stop();
  void Deliver();  // what Run() does for the frames queued now; for tests

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

class Hub::Subscription {
 public:
  ~Subscription();

 private:
  friend class Hub;
  Subscription(std::shared_ptr<Impl> impl, std::uint64_t id);
  std::shared_ptr<Impl> impl_;
  std::uint64_t id_;
};

}  // namespace stageload::telemetry

#endif  // STAGELOAD_DAEMON_TELEMETRY_HUB_H_
