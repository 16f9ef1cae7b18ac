// pidfd_open(2): readable once the process has ended.
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "client/ctl/process_handle.h"

namespace stageload::ctl {

ProcessHandle::ProcessHandle(pid_t pid)
    : pid_(pid), fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {
  ended_ = !fd_.valid() && errno == ESRCH;
}

bool ProcessHandle::Ended() {
  if (ended_) return true;
  if (fd_.valid()) {
    pollfd ready{fd_.get(), POLLIN, 0};
    ended_ = poll(&ready, 1, 0) > 0;
  } else {  // out of descriptors, or a kernel before 5.3: the pid must do
    ended_ = kill(pid_, 0) != 0 && errno == ESRCH;
  }
  return ended_;
}

}  // namespace stageload::ctl
