// WatchJobs: every job that has not ended, then each that changes. Between two messages only ids
// are kept, so who reads slowly gets the newest state of each job and costs no more than its id.
//
// Threading: any thread.
#ifndef STAGELOAD_DAEMON_RPC_JOB_WATCH_H_
#define STAGELOAD_DAEMON_RPC_JOB_WATCH_H_

#include <grpcpp/support/server_callback.h>

#include "daemon/engine/engine.h"
#include "stageload/v1/job_service.pb.h"

namespace stageload::rpc {

// Lives until gRPC is done with it. Ends with UNAVAILABLE when the engine stops.
grpc::ServerWriteReactor<v1::WatchJobsResponse>* WatchJobs(engine::Engine* engine,
                                                           const v1::WatchJobsRequest& request);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_JOB_WATCH_H_
