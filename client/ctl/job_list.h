// Jobs, however many pages they take.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_JOB_LIST_H_
#define STAGELOAD_CLIENT_CTL_JOB_LIST_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/ctl/connection.h"
#include "stageload/v1/job_service.pb.h"

namespace stageload::ctl {

// Calls `each` with every job that the request asks for, each id once, until it says false. The
// request's page size and token are ours. `queue_held`, if given, gets why the whole queue is held.
absl::Status ListJobs(const Connection& connection, v1::ListJobsRequest request,
                      const std::function<bool(const v1::Job&)>& each,
                      std::optional<std::string>* queue_held = nullptr);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_JOB_LIST_H_
