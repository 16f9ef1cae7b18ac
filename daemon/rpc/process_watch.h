// TelemetryService.WatchProcess: readings of one process tree as the engine takes them.
//
// Threading: any thread.
#ifndef STAGELOAD_DAEMON_RPC_PROCESS_WATCH_H_
#define STAGELOAD_DAEMON_RPC_PROCESS_WATCH_H_

#include "absl/status/statusor.h"
#include "daemon/engine/engine.h"
#include "daemon/rpc/typed_call.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::rpc {

// Ends with the error that `request` is. A reader that is too slow for some 250 samples loses the
// oldest ones and is told how many; their events are kept.
void StartProcessWatch(StreamCall<v1::WatchProcessResponse> call, engine::Engine* engine,
                       const absl::StatusOr<engine::RecordRequest>& request);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_PROCESS_WATCH_H_
