// Calls as handlers see them: with the type of what they answer. Handles that are copied freely;
// the call itself lives until it has ended.
//
// Threading: any thread.
#ifndef STAGELOAD_DAEMON_RPC_TYPED_CALL_H_
#define STAGELOAD_DAEMON_RPC_TYPED_CALL_H_

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/engine/engine.h"
#include "daemon/rpc/call.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/status.h"

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

namespace stageload::rpc {

// As it goes over the wire.
grpc::ByteBuffer Serialized(const google::protobuf::MessageLite& message);
// Bytes that are on the wire already.
inline const grpc::ByteBuffer& Serialized(const grpc::ByteBuffer& bytes) { return bytes; }

// False when the bytes are of another type.
bool Parse(grpc::ByteBuffer& bytes, google::protobuf::MessageLite& message);

// One request, one answer. Exactly one of its functions is called, once.
template <typename Response>
class UnaryCall {
 public:
  explicit UnaryCall(Call& call) : call_(&call) {}

  void Answer(const Response& response) const { call_->Answer(Serialized(response)); }
  void AnswerBytes(const grpc::ByteBuffer& response) const { call_->Answer(response); }
  void Fail(const absl::Status& status) const { call_->Finish(ToGrpc(status)); }
  void End(const absl::Status& status, const Response& response = {}) const {
    return status.ok() ? Answer(response) : Fail(status);
  }

 private:
  Call* call_;
};

// One request, many answers: see write_loop.h.
template <typename Response>
class StreamCall {
 public:
  explicit StreamCall(Call& call) : call_(&call) {}

  // Instead of any answer.
  void Fail(const absl::Status& status) const { call_->Finish(ToGrpc(status)); }
  Call& call() const { return *call_; }

 private:
  Call* call_;
};

// For the engine: answers with the job, or the error.
template <typename Response>
engine::Engine::OnJob AnswerJob(UnaryCall<Response> call) {
  return [call](const absl::StatusOr<engine::JobView>& job) {
    Response response;
    if (job.ok()) *response.mutable_job() = ToProto(*job);
    call.End(job.status(), response);
  };
}

// For the engine: answers that it is done, or the error.
template <typename Response>
auto AnswerDone(UnaryCall<Response> call) {
  return [call](const absl::Status& status) { call.End(status); };
}

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_TYPED_CALL_H_
