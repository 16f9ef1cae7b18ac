// The life of a shim: take the job's lock, start its command, keep its output, write how it ended.
// It depends on nobody: its parent may die, and signals to its group or session do not end it.
//
// Threading: one thread in the whole process.
#ifndef STAGELOAD_DAEMON_JOBS_SHIM_SHIM_H_
#define STAGELOAD_DAEMON_JOBS_SHIM_SHIM_H_

#include <string>

#include "daemon/jobs/descriptor.h"

namespace stageload::jobs {

// Returns the process's exit code: 0 once a result is written.
int RunShim(const std::string& folder, Descriptor channel);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_SHIM_SHIM_H_
