// kqueue(2), EVFILT_PROC with NOTE_EXIT: told once. A process that has ended gives ESRCH, also one
// that nobody has waited for yet (xnu bsd/kern/kern_event.c, filt_procattach).
#include <fcntl.h>
#include <signal.h>
#include <sys/event.h>
#include <unistd.h>

#include <cerrno>

#include "client/ctl/process_handle.h"

namespace stageload::ctl {

ProcessHandle::ProcessHandle(pid_t pid) : pid_(pid), fd_(kqueue()) {
  // posix_spawn(2) hands it on, other than fork(2).
  if (fd_.valid()) (void)fcntl(fd_.get(), F_SETFD, FD_CLOEXEC);
  struct kevent change;
  EV_SET(&change, static_cast<uintptr_t>(pid), EVFILT_PROC, EV_ADD, NOTE_EXIT, 0, nullptr);
  if (!fd_.valid() || kevent(fd_.get(), &change, 1, nullptr, 0, nullptr) == 0) return;
  ended_ = errno == ESRCH;
  fd_.Reset();
}

bool ProcessHandle::Ended() {
  if (ended_) return true;
  if (fd_.valid()) {
    struct kevent event;
    const timespec now{};
    ended_ = kevent(fd_.get(), nullptr, 0, &event, 1, &now) > 0;
  } else {  // out of descriptors: the pid must do
    ended_ = kill(pid_, 0) != 0 && errno == ESRCH;
  }
  return ended_;
}

}  // namespace stageload::ctl
