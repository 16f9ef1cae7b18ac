#include "client/lib/interrupt.h"

namespace stageload::client {

void Interrupt::Raise() {
  const std::lock_guard lock(mutex_);
  raised_ = true;
  for (grpc::ClientContext* call : calls_) call->TryCancel();
  wake_.notify_all();
}

bool Interrupt::raised() const {
  const std::lock_guard lock(mutex_);
  return raised_;
}

bool Interrupt::Pause(absl::Duration pause) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, absl::ToChronoMilliseconds(pause), [this] { return raised_; });
}

Interrupt::Call::Call(Interrupt& interrupt, grpc::ClientContext& context)
    : interrupt_(interrupt), context_(context) {
  const std::lock_guard lock(interrupt_.mutex_);
  interrupt_.calls_.insert(&context_);
  // One that has not begun yet fails as soon as it does.
  if (interrupt_.raised_) context_.TryCancel();
}

Interrupt::Call::~Call() {
  const std::lock_guard lock(interrupt_.mutex_);
  interrupt_.calls_.erase(&context_);
}

}  // namespace stageload::client
