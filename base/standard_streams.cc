#include "base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace stageload {

void OpenStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // The lowest free descriptor is this one, since those below are open by now.
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) return;
  }
}

}  // namespace stageload
