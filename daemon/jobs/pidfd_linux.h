// A handle on a process that stays with it: Linux pidfd (pidfd_open(2), Linux 5.3). glibc 2.36
// declares the calls without C linkage, so a C++ program cannot link them (fixed in 2.37).
//
// Threading: pure calls into the kernel.
#ifndef STAGELOAD_DAEMON_JOBS_PIDFD_LINUX_H_
#define STAGELOAD_DAEMON_JOBS_PIDFD_LINUX_H_

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daemon/jobs/descriptor.h"

namespace stageload::jobs {

// Close-on-exec by itself. NotFound when no process has the pid.
inline absl::StatusOr<Descriptor> OpenPid(int pid) {
  Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (handle.ok()) return handle;
  const std::string tried = absl::StrCat("pidfd_open of process ", pid);
  if (errno == ESRCH || errno == EINVAL) return absl::NotFoundError(absl::StrCat(tried, ": gone"));
  if (errno == EMFILE || errno == ENFILE) {
    return absl::ResourceExhaustedError(absl::StrCat(tried, ": too many open descriptors"));
  }
  return absl::InternalError(
      std::string(absl::ErrnoToStatus(errno, tried).message()));  // ENOSYS: Linux before 5.3
}

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_PIDFD_LINUX_H_
