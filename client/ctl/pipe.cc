#include "client/ctl/pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace stageload::ctl {

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe(ends) != 0) return absl::ErrnoToStatus(errno, "make a pipe");
  Pipe made{UniqueFd(ends[0]), UniqueFd(ends[1])};
  for (const int end : ends) (void)fcntl(end, F_SETFD, FD_CLOEXEC);
  return made;
}

}  // namespace stageload::ctl
