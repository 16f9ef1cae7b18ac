#include "daemon/rpc/call.h"

#include <utility>

namespace stageload::rpc {

Call::Call(Handler handler) : handler_(std::move(handler)) { StartRead(&message_); }

void Call::OnReadDone(bool ok) {
  if (!ok) {
    // gRPC has refused what was too large already, with a word of its own.
    return Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the call has no request"));
  }
  const Handler handler = std::exchange(handler_, nullptr);
  grpc::ByteBuffer request;
  request.Swap(&message_);
  handler(*this, request);
}

void Call::Answer(const grpc::ByteBuffer& response) {
  message_ = response;
  StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
}

void Call::Write(const grpc::ByteBuffer& message) {
  message_ = message;
  StartWrite(&message_);
}

void Call::Bind(StreamReactions* stream) {
  bool cancelled = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stream_ = stream;
    cancelled = cancelled_;
  }
  if (cancelled) stream->OnCancel();
}

void Call::OnWriteDone(bool ok) {
  message_.Clear();
  StreamReactions* stream = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stream = stream_;
  }
  if (stream != nullptr) stream->OnWriteDone(ok);
}

void Call::OnCancel() {
  StreamReactions* stream = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
    stream = stream_;
  }
  if (stream != nullptr) stream->OnCancel();
}

void Call::OnDone() {
  if (stream_ != nullptr) stream_->OnDone();
  delete this;
}

}  // namespace stageload::rpc
