#include "base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace stageload {

void OpenStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // The lowest free descriptor is this one, since those below are open by now.
    const int mode = fd == STDOUT_FILENO ? O_RDONLY : O_RDWR;
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", mode) != fd) return;
  }
}

}  // namespace stageload
