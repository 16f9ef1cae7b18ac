// The file `result` in a job's folder: how the command ended, as the shim saw it. Lines of
// key=value, so that a person can read it; what is absent has no line.
//
// Its space is taken before the command starts, so that a disk which fills up meanwhile cannot keep
// the end of the job from being written.
//
// Threading: one writer at a time, the holder of the job's lock. `folder` is a descriptor of the
// open folder.
#ifndef STAGELOAD_DAEMON_JOBS_RESULT_FILE_H_
#define STAGELOAD_DAEMON_JOBS_RESULT_FILE_H_

#include <string>

#include "absl/status/status.h"
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

// As errno has it; the folder is left without a result.
absl::Status ReserveResult(int folder);
// Into the reserved space, durably, and there as a whole or not at all. May be tried again.
absl::Status WriteResult(int folder, const Result& result);

std::string EncodeResult(const Result& result);
// DataLoss when it is not a result or says neither how the command ended.
absl::StatusOr<Result> DecodeResult(const std::string& text);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_RESULT_FILE_H_
