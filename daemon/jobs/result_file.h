// The file `result` in a job's folder: how the command ended, as the shim saw it. Lines of
// key=value, so that a person can read it; what is absent has no line.
//
// Threading: pure functions.
#ifndef STAGELOAD_DAEMON_JOBS_RESULT_FILE_H_
#define STAGELOAD_DAEMON_JOBS_RESULT_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/units.h"
#include "daemon/core/job.h"

namespace stageload::jobs {

inline constexpr char kResultFile[] = "result";

struct Result {
  core::Outcome outcome;
  absl::Time start_time;  // of the command, not of the shim
  absl::Time end_time;
  // Of the command and the children it waited for (getrusage(2)).
  Bytes max_rss;
  absl::Duration user_time;
  absl::Duration system_time;
  Bytes log_dropped;  // output that never reached the log, since it could not be written
};

std::string EncodeResult(const Result& result);
// DataLoss when it is not a result or says neither how the command ended.
absl::StatusOr<Result> DecodeResult(const std::string& text);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_RESULT_FILE_H_
