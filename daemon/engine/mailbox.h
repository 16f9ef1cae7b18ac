// What other threads want of the engine, in order. A letter is a closure that runs on the engine's
// thread, or, once the mailbox is closed, at once on the sender's with `open` false: so a caller is
// answered in any case.
//
// Threading: Post() and Wake() from any thread, Wait() and Close() from the engine's.
#ifndef STAGELOAD_DAEMON_ENGINE_MAILBOX_H_
#define STAGELOAD_DAEMON_ENGINE_MAILBOX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

namespace stageload::engine {

class Mailbox {
 public:
  using Letter = absl::AnyInvocable<void(bool open)>;

  void Post(Letter letter) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!closed_) {
        letters_.push_back(std::move(letter));
        wake_.notify_one();
        return;
      }
    }
    letter(false);
  }

  void Wake() {
    const std::lock_guard<std::mutex> lock(mutex_);
    woken_ = true;
    wake_.notify_one();
  }

  // All letters, after waiting for the first, for Wake() or for `timeout`.
  std::vector<Letter> Wait(absl::Duration timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                   [this] { return woken_ || !letters_.empty(); });
    woken_ = false;
    return std::exchange(letters_, {});
  }

  // Letters that were not taken; later ones are turned away.
  std::vector<Letter> Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    return std::exchange(letters_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Letter> letters_;
  bool woken_ = false;
  bool closed_ = false;
};

}  // namespace stageload::engine

#endif  // STAGELOAD_DAEMON_ENGINE_MAILBOX_H_
