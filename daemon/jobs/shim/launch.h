// Starting the job's command exactly as it was submitted: its own environment, folder, umask and
// soft limits, its own PATH, a process group of its own and nothing of the shim's.
//
// Threading: one thread in the whole process, since umask, folder and limits are the process's.
#ifndef STAGELOAD_DAEMON_JOBS_SHIM_LAUNCH_H_
#define STAGELOAD_DAEMON_JOBS_SHIM_LAUNCH_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/job.h"

namespace stageload::jobs {

// Soft limits by RLIMIT_* number, as in core::JobSpec.
using Limits = std::vector<std::pair<int, std::uint64_t>>;

// Raises this process's own limits on descriptors and file sizes as far as it may, so that a job's
// small limits do not keep the shim from its log. Returns what they were, for the job.
Limits RaiseOwnLimits();

struct Launched {
  pid_t pid = 0;     // 0 when it could not be started
  int error = 0;     // errno then
  std::string text;  // one line for people then
};

// `inherited` are limits that hold where the spec names none. The shim's own folder is "/" after
// this, and its umask and limits are as before.
Launched Launch(const core::JobSpec& spec, const Limits& inherited, int stdout_end, int stderr_end);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_SHIM_LAUNCH_H_
