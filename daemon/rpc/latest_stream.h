// A server stream of states: who reads slowly skips states in between, never the last one. Memory
// is bounded by one message in flight and one that waits.
//
// Threading: Send(), End() from any thread; gRPC calls the reactions.
#ifndef STAGELOAD_DAEMON_RPC_LATEST_STREAM_H_
#define STAGELOAD_DAEMON_RPC_LATEST_STREAM_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/rpc/write_loop.h"

namespace stageload::rpc {

template <typename Message>
class LatestStream final : public WriteLoop<Message> {
 public:
  // Lives until the call is done and the last shared_ptr is gone.
  static std::shared_ptr<LatestStream> Create(StreamCall<Message> call) {
    std::shared_ptr<LatestStream> stream(new LatestStream(call.call()));
    stream->Keep(stream);
    return stream;
  }

  // Called once, when the stream is over: everything was said, or the caller went away.
  void OnGone(std::function<void()> gone) {
    {
      const Lock lock = this->Locked();
      if (this->kept() != nullptr) {
        gone_ = std::move(gone);
        return;
      }
    }
    gone();
  }

  void Send(Message message) {
    Lock lock = this->Locked();
    if (this->ending()) return;
    next_ = std::move(message);
    this->Pump(lock);
  }

  // What was sent before is still written.
  void End(const absl::Status& status) {
    Lock lock = this->Locked();
    this->EndWith(lock, status);
  }

 private:
  using Lock = typename WriteLoop<Message>::Lock;

  explicit LatestStream(Call& call)
      : WriteLoop<Message>(call, WriteLoop<Message>::AtEnd::kWriteWhatWaits) {}

  bool Take(Message& message) override {
    if (!next_) return false;
    message = *std::exchange(next_, std::nullopt);
    return true;
  }

  void Gone() override {
    std::function<void()> gone;
    {
      const Lock lock = this->Locked();
      gone = std::exchange(gone_, nullptr);
    }
    if (gone) gone();
  }

  std::function<void()> gone_;
  std::optional<Message> next_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_LATEST_STREAM_H_
