#include "client/lib/patience.h"

#include "client/lib/quiet_thread.h"

namespace stageload::client {

Patience::Patience(grpc::ClientContext& context, absl::Duration within)
    : context_(context), thread_(QuietThread([this, within] { Wait(within); })) {}

Patience::~Patience() {
  Answered();
  thread_.join();
}

void Patience::Answered() {
  {
    const std::lock_guard lock(mutex_);
    answered_ = true;
  }
  changed_.notify_all();
}

bool Patience::ran_out() const {
  const std::lock_guard lock(mutex_);
  return ran_out_;
}

void Patience::Wait(absl::Duration within) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, absl::ToChronoMilliseconds(within), [this] { return answered_; })) {
    return;
  }
  ran_out_ = true;
  context_.TryCancel();
}

}  // namespace stageload::client
