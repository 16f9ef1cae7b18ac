// A server stream of states: who reads slowly skips states in between, never the last one. Memory
// is bounded by one message in flight and one that waits.
//
// Threading: Send(), End() from any thread; gRPC calls the reactions.
#ifndef STAGELOAD_DAEMON_RPC_LATEST_STREAM_H_
#define STAGELOAD_DAEMON_RPC_LATEST_STREAM_H_

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "daemon/rpc/status.h"

namespace stageload::rpc {

template <typename Message>
class LatestStream final : public grpc::ServerWriteReactor<Message> {
 public:
  // Lives until gRPC is done with it and the last shared_ptr is gone.
  static std::shared_ptr<LatestStream> Create() {
    std::shared_ptr<LatestStream> stream(new LatestStream);
    stream->self_ = stream;
    return stream;
  }

  // Called once, when the stream is over: everything was said, or the caller went away.
  void OnGone(std::function<void()> gone) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (self_ != nullptr) {
        gone_ = std::move(gone);
        return;
      }
    }
    gone();
  }

  void Send(Message message) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (end_) return;
    next_ = std::move(message);
    Pump(lock);
  }

  // What was sent before is still written.
  void End(const absl::Status& status) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (end_) return;
    end_ = ToGrpc(status);
    Pump(lock);
  }

  void OnWriteDone(bool ok) override {
    std::unique_lock<std::mutex> lock(mutex_);
    in_flight_ = false;
    if (!ok) cancelled_ = true;
    Pump(lock);
  }

  void OnCancel() override {
    std::unique_lock<std::mutex> lock(mutex_);
    cancelled_ = true;
    Pump(lock);
  }

  void OnDone() override {
    std::function<void()> gone;
    std::shared_ptr<LatestStream> self;  // destroyed last, when nothing of us is in use
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      gone = std::exchange(gone_, nullptr);
      self = std::move(self_);
    }
    if (gone) gone();
  }

 private:
  LatestStream() = default;

  // One write at a time; Finish once, with no write in flight. Releases the lock before it calls
  // into gRPC.
  void Pump(std::unique_lock<std::mutex>& lock) {
    if (finished_ || in_flight_) return;
    if (cancelled_) {
      finished_ = true;
      lock.unlock();
      this->Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the caller went away"));
    } else if (next_) {
      message_ = *std::exchange(next_, std::nullopt);
      in_flight_ = true;
      lock.unlock();
      this->StartWrite(&message_);
    } else if (end_) {
      finished_ = true;
      const grpc::Status status = *end_;
      lock.unlock();
      this->Finish(status);
    }
  }

  std::mutex mutex_;
  std::shared_ptr<LatestStream> self_;  // until OnDone
  std::function<void()> gone_;
  Message message_;
  std::optional<Message> next_;
  std::optional<grpc::Status> end_;
  bool in_flight_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_LATEST_STREAM_H_
