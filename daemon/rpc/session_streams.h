// The streams of a registered program: its registration, and each lease that it waits for.
//
// Threading: any thread.
#ifndef STAGELOAD_DAEMON_RPC_SESSION_STREAMS_H_
#define STAGELOAD_DAEMON_RPC_SESSION_STREAMS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/engine/engine.h"
#include "daemon/rpc/typed_call.h"
#include "stageload/v1/admission_service.pb.h"

namespace stageload::rpc {

// Each begins with what the engine answers, or ends with the error that `request` is.
void StartSession(StreamCall<v1::RegisterResponse> call, engine::Engine* engine,
                  absl::StatusOr<engine::RegisterRequest> request);
void StartAcquire(StreamCall<v1::AcquireResponse> call, engine::Engine* engine,
                  absl::StatusOr<engine::AcquireRequest> request);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_SESSION_STREAMS_H_
