// Two kinds of lock: the hub's own guards the ring and the list and is never held while a callback
// runs; one for each subscriber is held while its callback runs, so that the end of a subscription
// waits for that callback and for no other.
#include "daemon/telemetry/hub.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"

namespace stageload::telemetry {
namespace {

struct Subscriber {
  std::int64_t after = 0;  // gets only frames with a higher sequence
  std::mutex mutex;        // held while on_frame runs
  Hub::OnFrame on_frame;   // empty once the subscription has ended
};

}  // namespace

class Hub::Impl {
 public:
  explicit Impl(Encoder encoder) : encoder_(std::move(encoder)) {}

  absl::StatusOr<std::uint64_t> Add(OnFrame on_frame) {
    auto subscriber = std::make_shared<Subscriber>();
    subscriber->on_frame = std::move(on_frame);
    const std::lock_guard lock(mutex_);
    if (subscribers_.size() >= static_cast<std::size_t>(kMaxSubscribers)) {
      return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                            subscribers_.size(), " subscribers watch already, the limit is ",
                            kMaxSubscribers, "; end one of them")),
                        kTooManySubscribers);
    }
    subscriber->after = sequence_;
    subscribers_.emplace(++last_id_, std::move(subscriber));
    return last_id_;
  }

  void Remove(std::uint64_t id) {
    std::shared_ptr<Subscriber> subscriber;
    {
      const std::lock_guard lock(mutex_);
      auto node = subscribers_.extract(id);
      subscriber = std::move(node.mapped());
    }
    OnFrame ended;  // what it holds is freed outside the locks
    const std::lock_guard lock(subscriber->mutex);
    ended.swap(subscriber->on_frame);
  }

  int subscribers() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(subscribers_.size());
  }

  void Publish(Frame frame) {
    // Only the publisher writes sequence_ and last_with_events_, so it may read them without the
    // lock.
    frame.sequence = sequence_ + 1;
    auto published = std::make_shared<Published>();
    published->sequence = frame.sequence;
    published->awake = frame.time.awake;
    published->wire = encoder_(frame);
    published->events_before = last_with_events_;
    if (published->wire.events_size > 0) last_with_events_ = frame.sequence;
    std::vector<Ring::Frame> forgotten;  // freed outside the lock
    {
      const std::lock_guard lock(mutex_);
      ++sequence_;
      forgotten = ring_.Add(std::move(published));
    }
    queued_.notify_one();
  }

  std::shared_ptr<const Published> Newest() const {
    const std::lock_guard lock(mutex_);
    return ring_.Newest();
  }
  std::shared_ptr<const Published> At(std::int64_t sequence) const {
    const std::lock_guard lock(mutex_);
    return ring_.At(sequence);
  }
  Ring::Following After(std::int64_t sequence, absl::Duration awake) const {
    const std::lock_guard lock(mutex_);
    return ring_.After(sequence, awake);
  }

  void Run() {
    while (WaitForFrame()) Deliver();
  }

  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    queued_.notify_all();
  }

  void Deliver() {
    const std::lock_guard delivering(delivering_);  // keeps the order, whoever delivers
    std::vector<std::shared_ptr<Subscriber>> to;
    while (const auto published = Next(to)) {
      for (const auto& subscriber : to) {
        const std::lock_guard lock(subscriber->mutex);
        if (subscriber->on_frame) subscriber->on_frame(published);
      }
    }
  }

 private:
  // False once stopped.
  bool WaitForFrame() {
    std::unique_lock lock(mutex_);
    queued_.wait(lock, [this] { return stopped_ || delivered_ < sequence_; });
    return !stopped_;
  }

  // The next frame to be delivered and who gets it; null when there is none.
  std::shared_ptr<const Published> Next(std::vector<std::shared_ptr<Subscriber>>& to) {
    to.clear();
    const std::lock_guard lock(mutex_);
    const std::int64_t after = std::max(delivered_, sequence_ - kMaxQueued);
    auto next = ring_.After(after, -absl::InfiniteDuration()).frame;
    if (next == nullptr) return nullptr;
    delivered_ = next->sequence;
    for (const auto& [id, subscriber] : subscribers_) {
      if (subscriber->after < next->sequence) to.push_back(subscriber);
    }
    return next;
  }

  const Encoder encoder_;
  std::int64_t last_with_events_ = 0;  // the publisher's
  std::mutex delivering_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable queued_;
  std::int64_t sequence_ = 0;   // of the newest frame
  std::int64_t delivered_ = 0;  // up to this one
  Ring ring_;
  std::map<std::uint64_t, std::shared_ptr<Subscriber>> subscribers_;
  std::uint64_t last_id_ = 0;
  bool stopped_ = false;
};

Hub::Hub(Encoder encoder) : impl_(std::make_shared<Impl>(std::move(encoder))) {}
Hub::~Hub() = default;

absl::StatusOr<std::unique_ptr<Hub::Subscription>> Hub::Subscribe(OnFrame on_frame) {
  const absl::StatusOr<std::uint64_t> id = impl_->Add(std::move(on_frame));
  if (!id.ok()) return id.status();
  return std::unique_ptr<Subscription>(new Subscription(impl_, *id));
}

int Hub::subscribers() const { return impl_->subscribers(); }
void Hub::Publish(Frame frame) { impl_->Publish(std::move(frame)); }
std::shared_ptr<const Published> Hub::Newest() const { return impl_->Newest(); }
std::shared_ptr<const Published> Hub::At(std::int64_t sequence) const {
  return impl_->At(sequence);
}
Ring::Following Hub::After(std::int64_t sequence, absl::Duration awake) const {
  return impl_->After(sequence, awake);
}
void Hub::Run() { impl_->Run(); }
void Hub::Stop() { impl_->Stop(); }
void Hub::Deliver() { impl_->Deliver(); }

Hub::Subscription::Subscription(std::shared_ptr<Impl> impl, std::uint64_t id)
    : impl_(std::move(impl)), id_(id) {}
Hub::Subscription::~Subscription() { impl_->Remove(id_); }

}  // namespace stageload::telemetry
