// The file `spec` in a job's folder: what the daemon asks of the shim. Numbers in little-endian
// order and strings with their length in front, since arguments and variables are bytes, not text.
//
// Threading: pure functions.
#ifndef STAGELOAD_DAEMON_JOBS_SPEC_FILE_H_
#define STAGELOAD_DAEMON_JOBS_SPEC_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/core/job.h"

namespace stageload::jobs {

inline constexpr char kSpecFile[] = "spec";

std::string EncodeSpec(const core::JobSpec& spec);
// DataLoss when it is cut, has bytes too many, or is of another format.
absl::StatusOr<core::JobSpec> DecodeSpec(std::string_view bytes);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_SPEC_FILE_H_
