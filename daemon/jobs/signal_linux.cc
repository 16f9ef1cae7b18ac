#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "daemon/jobs/pidfd_linux.h"
#include "daemon/jobs/signal.h"

namespace stageload::jobs {

absl::Status SendSignal(const core::ProcessIdentity& identity, int signal,
                        const StillThere& still_there) {
  const absl::StatusOr<Descriptor> handle = OpenPid(identity.pid);
  if (!handle.ok()) return handle.status();
  if (!still_there(identity)) {
    return absl::NotFoundError(absl::StrCat("process ", identity.pid, " is gone"));
  }
  if (::syscall(SYS_pidfd_send_signal, handle->get(), signal, nullptr, 0) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno,
                             absl::StrCat("send signal ", signal, " to process ", identity.pid));
}

}  // namespace stageload::jobs
