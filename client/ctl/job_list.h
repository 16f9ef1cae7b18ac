// All jobs of some states, however many pages they take.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_JOB_LIST_H_
#define STAGELOAD_CLIENT_CTL_JOB_LIST_H_

#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/connection.h"
#include "stageload/v1/job.pb.h"

namespace stageload::ctl {

// Newest id first; no states means all.
absl::StatusOr<std::vector<v1::Job>> ListJobs(const Connection& connection,
                                              const std::vector<v1::JobState>& states);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_JOB_LIST_H_
