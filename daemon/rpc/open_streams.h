// The streams that would go on for ever by themselves, so that shutting down can end them all with
// a word instead of cutting them off.
//
// Threading: any thread.
#ifndef STAGELOAD_DAEMON_RPC_OPEN_STREAMS_H_
#define STAGELOAD_DAEMON_RPC_OPEN_STREAMS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace stageload::rpc {

class OpenStreams {
 public:
  using End = std::function<void(const absl::Status&)>;

  // Returns the key for Remove(), which must follow. Once EndAll() was called, `end` is called at
  // once.
  std::uint64_t Add(End end) {
    absl::Status ended;
    std::uint64_t key = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      key = next_++;
      ++open_;
      ended = ended_;
      if (ended.ok()) ends_[key] = end;
    }
    if (!ended.ok()) end(ended);
    return key;
  }

  void Remove(std::uint64_t key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_.erase(key);
    if (--open_ == 0) none_.notify_all();
  }

  void EndAll(const absl::Status& status) {
    std::map<std::uint64_t, End> ends;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = status;
      ends = std::exchange(ends_, {});
    }
    for (const auto& [key, end] : ends) end(status);
  }

  // Returns when all were removed, or after `within`.
  void AwaitNone(absl::Duration within) {
    std::unique_lock<std::mutex> lock(mutex_);
    none_.wait_for(lock, absl::ToChronoNanoseconds(within), [this] { return open_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  int open_ = 0;
  std::map<std::uint64_t, End> ends_;
  std::uint64_t next_ = 1;
  absl::Status ended_;  // OK until EndAll()
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_OPEN_STREAMS_H_
