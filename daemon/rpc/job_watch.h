// WatchJobs: every job that has not ended, then each that changes. Between two messages only ids
// are kept, so who reads slowly gets the newest state of each job and costs no more than its id.
//
// Threading: any thread.
#ifndef STAGELOAD_DAEMON_RPC_JOB_WATCH_H_
#define STAGELOAD_DAEMON_RPC_JOB_WATCH_H_

#include "daemon/engine/engine.h"
#include "daemon/rpc/typed_call.h"
#include "stageload/v1/job_service.pb.h"

namespace stageload::rpc {

// Ends with UNAVAILABLE when the engine stops.
void WatchJobs(StreamCall<v1::WatchJobsResponse> call, engine::Engine* engine,
               const v1::WatchJobsRequest& request);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_JOB_WATCH_H_
