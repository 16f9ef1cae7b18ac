// launchd's way: the sockets of the LaunchAgent's `Sockets` are asked for by name.
#include <fcntl.h>
#include <launch.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "daemon/rpc/passed_socket.h"

namespace stageload::rpc {

absl::StatusOr<std::optional<int>> TakePassedSocket() {
  int* fds = nullptr;
  std::size_t count = 0;
  const int error = ::launch_activate_socket(kPassedSocketName, &fds, &count);
  // ESRCH: launchd has not started us; ENOENT: its file has no such socket (launch.h).
  if (error == ESRCH || error == ENOENT) return std::nullopt;
  if (error != 0) {
    return absl::ErrnoToStatus(
        error, absl::StrCat("ask launchd for the socket \"", kPassedSocketName, "\""));
  }
  const int fd = count == 1 ? fds[0] : -1;
  std::free(fds);
  if (fd < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("launchd has passed ", count, " sockets named \"", kPassedSocketName,
                     "\", and stageloadd takes one; renew the LaunchAgent with `stageloadctl "
                     "daemon install`"));
  }
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "set up the socket of launchd");
  }
  return fd;
}

}  // namespace stageload::rpc
