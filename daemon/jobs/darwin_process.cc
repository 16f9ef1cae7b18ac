#include "daemon/jobs/darwin_process.h"

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace stageload::jobs {
namespace {

absl::Status Gone(std::int32_t pid) {
  return absl::NotFoundError(absl::StrCat("process ", pid, " is gone"));
}

// A process that execs again and again between the look and the signal is not met by its version;
// one such exec is likely (the shim's of its command), more than this many in a row are not.
constexpr int kTries = 5;

}  // namespace

// As host/ does it: the unique id, or the start time where a kernel does not tell that.
absl::StatusOr<core::ProcessIdentity> IdentityOf(DarwinKernel& kernel, std::int32_t pid) {
  core::ProcessIdentity identity{.pid = pid, .start = 0};
  DarwinKernel::Identifiers identifiers;
  int error = kernel.ReadIdentifiers(pid, &identifiers);
  identity.start = identifiers.unique_id;
  if (error != 0 && error != ESRCH) error = kernel.ReadStart(pid, &identity.start);
  if (error == ESRCH) return Gone(pid);
  if (error != 0) {
    return absl::ErrnoToStatus(error, absl::StrCat("read the identity of process ", pid));
  }
  return identity;
}

absl::Status SendSignalTo(DarwinKernel& kernel, const core::ProcessIdentity& identity, int signal,
                          const StillThere& still_there) {
  int error = ESRCH;
  for (int tries = 0; error == ESRCH && tries < kTries; ++tries) {
    DarwinKernel::Identifiers identifiers;
    const bool told = kernel.ReadIdentifiers(identity.pid, &identifiers) == 0;
    if (told && identifiers.unique_id != identity.start) return Gone(identity.pid);
    if (!still_there(identity)) return Gone(identity.pid);
    error = told ? kernel.KillExactly(identity.pid, identifiers.version, signal) : ENOSYS;
  }
  // A pid is not used again before 99,999 others were (xnu bsd/kern/kern_fork.c, forkproc), so what
  // was still there an instant ago has it still.
  if (error == ENOSYS) error = kernel.Kill(identity.pid, signal);
  if (error == 0) return absl::OkStatus();
  if (error == ESRCH) return Gone(identity.pid);
  return absl::ErrnoToStatus(error,
                             absl::StrCat("send signal ", signal, " to process ", identity.pid));
}

// The pid of a child is its own until it has been waited for, so what is seen here is what is
// reaped. NOTE_EXIT comes before the child can be waited for (xnu bsd/kern/kern_exit.c, proc_exit):
// Reap() waits for that moment.
void ReapIfOurs(DarwinKernel& kernel, const core::ProcessIdentity& identity) {
  const auto found = IdentityOf(kernel, identity.pid);
  if (found.ok() && *found == identity) kernel.Reap(identity.pid);
}

}  // namespace stageload::jobs
