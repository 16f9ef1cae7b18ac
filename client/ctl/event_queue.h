// What can happen to a guard or a recording, in one queue for its one deciding thread.
//
// Threading: Push from any thread, Pop from one.
#ifndef STAGELOAD_CLIENT_CTL_EVENT_QUEUE_H_
#define STAGELOAD_CLIENT_CTL_EVENT_QUEUE_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/ctl/connection.h"
#include "stageload/v1/job.pb.h"

namespace stageload::ctl {

struct ChildChanged {
  int wait_status;
};
struct Signalled {
  int number;
};
// `call` tells the calls of one guard apart: what an earlier one said last may come late.
struct Answered {
  int call;
  v1::Job job;
};
struct CallEnded {
  int call;
  absl::Status status;
};
struct DaemonFound {
  Connection connection;
};
struct Interrupted {};  // Ctrl-C, while the command has the terminal
using GuardEvent =
    std::variant<ChildChanged, Signalled, Answered, CallEnded, DaemonFound, Interrupted>;

template <typename Event>
class EventQueue {
 public:
  void Push(Event event) {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    }
    wake_.notify_one();
  }

  // Nothing when `timeout` passes first.
  std::optional<Event> Pop(absl::Duration timeout) {
    std::unique_lock lock(mutex_);
    const auto some = [this] { return !events_.empty(); };
    if (timeout == absl::InfiniteDuration()) {
      wake_.wait(lock, some);
    } else if (!wake_.wait_for(lock, absl::ToChronoMilliseconds(timeout), some)) {
      return std::nullopt;
    }
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Event> events_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_EVENT_QUEUE_H_
