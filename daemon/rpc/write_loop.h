// What all our server streams have in common: one write at a time, then one Finish, and an object
// that lives until its call is done. What there is to write, a stream says itself.
//
// Threading: any thread. What a stream shares with its reactions is under Locked().
#ifndef STAGELOAD_DAEMON_RPC_WRITE_LOOP_H_
#define STAGELOAD_DAEMON_RPC_WRITE_LOOP_H_

#include <grpcpp/support/status.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "daemon/rpc/call.h"
#include "daemon/rpc/status.h"
#include "daemon/rpc/typed_call.h"

namespace stageload::rpc {

template <typename Message>
class WriteLoop : public StreamReactions {
 public:
  void OnWriteDone(bool ok) final {
    Lock lock = Locked();
    in_flight_ = false;
    if (ok) {
      Sent();
    } else {
      cancelled_ = true;
    }
    Pump(lock);
  }

  void OnCancel() final {
    Lock lock = Locked();
    cancelled_ = true;
    Pump(lock);
  }

  void OnDone() final {
    std::shared_ptr<WriteLoop> self;  // destroyed last, when nothing of us is in use
    {
      const Lock lock = Locked();
      self = std::move(self_);
    }
    Gone();
  }

 protected:
  using Lock = std::unique_lock<std::mutex>;

  // Whether what waits is written before an end that was asked for.
  enum class AtEnd { kWriteWhatWaits, kLeaveIt };
  WriteLoop(Call& call, AtEnd at_end) : call_(call), at_end_(at_end) {}

  // Right after the object was made, in the call's handler.
  void Keep(std::shared_ptr<WriteLoop> self) {
    self_ = std::move(self);
    call_.Bind(this);
  }
  Lock Locked() { return Lock(mutex_); }
  std::shared_ptr<WriteLoop> kept() const { return self_; }  // null once the call is done; locked

  // Puts the next message into `message`; false when there is none. Locked.
  virtual bool Take(Message& message) = 0;
  // The message that Take() gave last is on its way. Locked.
  virtual void Sent() {}
  // There is nothing to write now. Locked; may let go of the lock to ask for more.
  virtual void Idle(Lock&) {}
  // The stream is over. Not locked.
  virtual void Gone() {}

  // Releases the lock before it calls into the call.
  void Pump(Lock& lock) {
    if (finished_ || in_flight_) return;
    if (cancelled_) {
      return Leave(lock, grpc::Status(grpc::StatusCode::CANCELLED, "the caller went away"));
    }
    if (end_ && at_end_ == AtEnd::kLeaveIt) return Leave(lock, *end_);
    if (Message message; Take(message)) {
      in_flight_ = true;
      lock.unlock();
      call_.Write(Serialized(message));
    } else if (end_) {
      Leave(lock, *end_);
    } else {
      Idle(lock);
    }
  }

  // The first end stands.
  void EndWith(Lock& lock, const absl::Status& status) {
    if (!end_) end_ = ToGrpc(status);
    Pump(lock);
  }
  bool ending() const { return end_.has_value(); }  // locked

 private:
  void Leave(Lock& lock, const grpc::Status& status) {
    const grpc::Status last = status;
    finished_ = true;
    lock.unlock();
    call_.Finish(last);
  }

  Call& call_;  // not to be used once finished_
  const AtEnd at_end_;
  std::mutex mutex_;
  std::shared_ptr<WriteLoop> self_;  // until OnDone
  std::optional<grpc::Status> end_;
  bool in_flight_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_WRITE_LOOP_H_
