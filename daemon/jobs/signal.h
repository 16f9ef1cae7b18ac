// Sending a signal to the process that was meant, or to nobody.
//
// Threading: pure calls into the kernel.
#ifndef STAGELOAD_DAEMON_JOBS_SIGNAL_H_
#define STAGELOAD_DAEMON_JOBS_SIGNAL_H_

#include <functional>

#include "absl/status/status.h"
#include "daemon/core/process.h"

namespace stageload::jobs {

// True while this very process exists (read from the process table, not from a cache).
using StillThere = std::function<bool(const core::ProcessIdentity&)>;

// Takes a handle on the pid, asks `still_there`, then signals through the handle, so that a pid
// that is used again in between gets nothing (pidfd_open(2) and pidfd_send_signal(2), Linux 5.3).
// NotFound when the process is gone, PermissionDenied when it may not be signalled.
absl::Status SendSignal(const core::ProcessIdentity& identity, int signal,
                        const StillThere& still_there);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_SIGNAL_H_
