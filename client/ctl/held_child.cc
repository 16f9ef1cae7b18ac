// Two pipes and a fork.
#include "client/ctl/held_child.h"

#include <unistd.h>

#include <cerrno>

#include "base/file_limit.h"
#include "base/file_size_limit.h"
#include "client/ctl/environment.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/pipe.h"

namespace stageload::ctl {
namespace {

// The child's whole life before its command. Only calls that are safe after a fork.
[[noreturn]] void Hold(int go, int failed, char** argv) {
  (void)setpgid(0, 0);
  char byte = 0;
  ssize_t got = 0;
  do {
    got = read(go, &byte, 1);
  } while (got < 0 && errno == EINTR);
  if (got != 1) _exit(kExitOk);
  RestoreFileLimit();
  RestoreFileTooLarge();
  execvp(argv[0], argv);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(failed, &error, sizeof error);
  _exit(kExitCannotStart);
}

}  // namespace

absl::StatusOr<HeldChild> HeldChild::Fork(std::vector<std::string> argv) {
  absl::StatusOr<Pipe> go = MakePipe();
  if (!go.ok()) return go.status();
  absl::StatusOr<Pipe> failed = MakePipe();
  if (!failed.ok()) return failed.status();
  const std::vector<char*> pointers = Pointers(argv);
  HeldChild child;
  child.pid_ = fork();
  if (child.pid_ < 0) return absl::ErrnoToStatus(errno, "fork");
  if (child.pid_ == 0) {
    close(go->write.Release());  // or it would never see the end of file
    Hold(go->read.get(), failed->write.get(), const_cast<char**>(pointers.data()));
  }
  // Here too: whichever comes first, the group is there when we go on.
  (void)setpgid(child.pid_, child.pid_);
  child.go_ = std::move(go->write);
  child.failed_ = std::move(failed->read);
  return child;
}

int HeldChild::LetGo() {
  const char byte = 1;
  ssize_t done = 0;
  do {
    done = write(go_.get(), &byte, 1);
  } while (done < 0 && errno == EINTR);
  go_.Reset();
  int error = 0;
  do {
    done = read(failed_.get(), &error, sizeof error);
  } while (done < 0 && errno == EINTR);
  failed_.Reset();
  return done == sizeof error ? error : 0;
}

}  // namespace stageload::ctl
