// Hands every frame to every subscriber. The engine publishes and goes on at once; a thread of the
// hub's own does the rest, so nobody who reads slowly is felt by the sampler.
//
// Threading: Publish() from one thread; Newest(), Subscribe() and the end of a Subscription from
// any; subscribers are called from the thread in Run(), or in Deliver().
#ifndef STAGELOAD_DAEMON_TELEMETRY_HUB_H_
#define STAGELOAD_DAEMON_TELEMETRY_HUB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/telemetry/frame.h"

namespace stageload::telemetry {

// A frame with its wire form, made once and shared by all.
struct Published {
  Frame frame;
  std::string bytes;  // what the encoder made of it
};

class Hub {
 public:
  // Turns a frame into its wire form; the hub does not know which.
  using Encoder = std::function<std::string(const Frame&)>;
  // May not block. Frames come in order; if the subscribers together are too slow, frames are left
  // out, which the gap in `sequence` shows.
  using OnFrame = std::function<void(const std::shared_ptr<const Published>&)>;

  explicit Hub(Encoder encoder);
  ~Hub();

  // Ends when destroyed; after that its callback is not running and is never called again (so it
  // must not be destroyed inside the callback).
  class Subscription;
  std::unique_ptr<Subscription> Subscribe(OnFrame on_frame);
  int subscribers() const;

  // Gives the frame its sequence number and queues it for delivery.
  void Publish(Frame frame);
  // Null before the first.
  std::shared_ptr<const Published> Newest() const;

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
