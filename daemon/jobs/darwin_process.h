// A process of macOS as others know it, and signals to that very process.
//
// Threading: from any thread, as the kernel.
#ifndef STAGELOAD_DAEMON_JOBS_DARWIN_PROCESS_H_
#define STAGELOAD_DAEMON_JOBS_DARWIN_PROCESS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/core/process.h"
#include "daemon/jobs/darwin_kernel.h"
#include "daemon/jobs/signal.h"

namespace stageload::jobs {

// Of the process that has this pid now, zombies included. NotFound when there is none.
absl::StatusOr<core::ProcessIdentity> IdentityOf(DarwinKernel& kernel, std::int32_t pid);

// As SendSignal() of signal.h.
absl::Status SendSignalTo(DarwinKernel& kernel, const core::ProcessIdentity& identity, int signal,
                          const StillThere& still_there);

// If `identity` is a child of ours that has ended, or is just about to, then it is gone after this.
void ReapIfOurs(DarwinKernel& kernel, const core::ProcessIdentity& identity);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_DARWIN_PROCESS_H_
