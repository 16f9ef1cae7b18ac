// Following a job from the outside: waiting for its start and its end, copying its output. Shared
// by run, submit, wait and logs. A daemon that goes away meanwhile is no end of a job: they go on
// with the next one.
//
// Threading: each call blocks its thread; Connection may be shared.
#ifndef STAGELOAD_CLIENT_CTL_JOB_FOLLOW_H_
#define STAGELOAD_CLIENT_CTL_JOB_FOLLOW_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "client/ctl/connection.h"
#include "client/ctl/progress.h"
#include "stageload/v1/job_service.pb.h"

namespace stageload::ctl {

absl::StatusOr<v1::Job> GetJob(const Connection& connection, std::int64_t id);

// FailedPrecondition when it has ended already.
absl::StatusOr<v1::Job> CancelJob(const Connection& connection, std::int64_t id);

// The job at the first state for which `enough` holds. While it is PENDING, `progress` is kept up
// to date.
absl::StatusOr<v1::Job> AwaitJob(const Connection& connection, std::int64_t id,
                                 const std::function<bool(const v1::Job&)>& enough,
                                 Progress& progress);
absl::StatusOr<v1::Job> AwaitEnd(const Connection& connection, std::int64_t id, Progress& progress);

// Calls `sink` with each piece of output, until the end of the log or a false.
absl::Status ReadLogs(const Connection& connection, const v1::ReadLogsRequest& request,
                      const std::function<bool(const v1::ReadLogsResponse&)>& sink);

// A sink: the job's stdout to ours, its stderr to ours; output that was lost is told on stderr.
bool CopyPiece(const v1::ReadLogsResponse& piece);

// Shows what it waits for, copies its output (DataLoss where it cannot), returns it as it ended.
absl::StatusOr<v1::Job> FollowJob(const Connection& connection, std::int64_t id);

// Tells how it ended, where an exit code does not; returns the exit code.
int Finish(const absl::StatusOr<v1::Job>& job);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_JOB_FOLLOW_H_
