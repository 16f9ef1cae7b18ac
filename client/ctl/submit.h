// The call that queues a job, for submit, run and retry.
//
// Threading: blocks its thread.
#ifndef STAGELOAD_CLIENT_CTL_SUBMIT_H_
#define STAGELOAD_CLIENT_CTL_SUBMIT_H_

#include "absl/status/statusor.h"
#include "client/ctl/connection.h"
#include "client/lib/request_id.h"
#include "stageload/v1/job_service.pb.h"

namespace stageload::ctl {

using client::NewRequestId;
// How many daemons are asked, one after another, until a request with an id is answered.
inline constexpr int kSubmitTries = 10;

// The job as it stands once it is on the daemon's disk. A daemon that goes away before it has
// answered is asked again when it is back; that never makes two jobs.
absl::StatusOr<v1::Job> SubmitJob(const Connection& connection, v1::SubmitJobRequest request);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_SUBMIT_H_
