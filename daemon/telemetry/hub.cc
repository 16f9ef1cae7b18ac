// Two kinds of lock: the hub's own guards the queue and the list and is never held while a callback
// runs; one for each subscriber is held while its callback runs, so that the end of a subscription
// waits for that callback and for no other.
#include "daemon/telemetry/hub.h"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace stageload::telemetry {
namespace {

// Half a minute at the usual two frames a second, three seconds at the fastest pace.
constexpr std::size_t kMaxQueued = 64;

struct Subscriber {
  std::int64_t after = 0;  // gets only frames with a higher sequence
  std::mutex mutex;        // held while on_frame runs
  Hub::OnFrame on_frame;   // empty once the subscription has ended
};

}  // namespace

class Hub::Impl {
 public:
  explicit Impl(Encoder encoder) : encoder_(std::move(encoder)) {}

  std::uint64_t Add(OnFrame on_frame) {
    auto subscriber = std::make_shared<Subscriber>();
    subscriber->on_frame = std::move(on_frame);
    const std::lock_guard lock(mutex_);
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
    // Only the publisher writes sequence_, so it may read it without the lock.
    frame.sequence = sequence_ + 1;
    auto published = std::make_shared<Published>();
    published->bytes = encoder_(frame);
    published->frame = std::move(frame);
    {
      const std::lock_guard lock(mutex_);
      ++sequence_;
      newest_ = published;
      queue_.push_back(std::move(published));
      if (queue_.size() > kMaxQueued) queue_.pop_front();
    }
    queued_.notify_one();
  }

  std::shared_ptr<const Published> Newest() const {
    const std::lock_guard lock(mutex_);
    return newest_;
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
    queued_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
    return !stopped_;
  }

  // The oldest queued frame and who gets it; null when there is none.
  std::shared_ptr<const Published> Next(std::vector<std::shared_ptr<Subscriber>>& to) {
    to.clear();
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) return nullptr;
    auto next = std::move(queue_.front());
    queue_.pop_front();
    for (const auto& [id, subscriber] : subscribers_) {
      if (subscriber->after < next->frame.sequence) to.push_back(subscriber);
    }
    return next;
  }

  const Encoder encoder_;
  std::mutex delivering_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable queued_;
  std::int64_t sequence_ = 0;
  std::shared_ptr<const Published> newest_;
  std::deque<std::shared_ptr<const Published>> queue_;
  std::map<std::uint64_t, std::shared_ptr<Subscriber>> subscribers_;
  std::uint64_t last_id_ = 0;
  bool stopped_ = false;
};

Hub::Hub(Encoder encoder) : impl_(std::make_shared<Impl>(std::move(encoder))) {}
Hub::~Hub() = default;

std::unique_ptr<Hub::Subscription> Hub::Subscribe(OnFrame on_frame) {
  const std::uint64_t id = impl_->Add(std::move(on_frame));
  return std::unique_ptr<Subscription>(new Subscription(impl_, id));
}

int Hub::subscribers() const { return impl_->subscribers(); }
void Hub::Publish(Frame frame) { impl_->Publish(std::move(frame)); }
std::shared_ptr<const Published> Hub::Newest() const { return impl_->Newest(); }
void Hub::Run() { impl_->Run(); }
void Hub::Stop() { impl_->Stop(); }
void Hub::Deliver() { impl_->Deliver(); }

Hub::Subscription::Subscription(std::shared_ptr<Impl> impl, std::uint64_t id)
    : impl_(std::move(impl)), id_(id) {}
Hub::Subscription::~Subscription() { impl_->Remove(id_); }

}  // namespace stageload::telemetry
