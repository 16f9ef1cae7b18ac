// Answering a unary call from the engine's thread.
//
// Threading: any thread. The reactor and the response live until Finish() (gRPC callback API).
#ifndef STAGELOAD_DAEMON_RPC_UNARY_H_
#define STAGELOAD_DAEMON_RPC_UNARY_H_

#include <grpcpp/support/server_callback.h>

#include "absl/status/statusor.h"
#include "daemon/engine/engine.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/status.h"

namespace stageload::rpc {

// Ends the call with an error.
inline grpc::ServerUnaryReactor* Fail(grpc::CallbackServerContext* context,
                                      const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

// For the engine: puts the job into `response` and ends the call.
template <typename Response>
engine::Engine::OnJob AnswerJob(grpc::ServerUnaryReactor* reactor, Response* response) {
  return [reactor, response](absl::StatusOr<engine::JobView> job) {
    if (job.ok()) *response->mutable_job() = ToProto(*job);
    reactor->Finish(ToGrpc(job.status()));
  };
}

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_UNARY_H_
