#include "base/socket_file.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

namespace stageload {

bool SocketLives(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  // A socket of another type: both kernels look at that before they look at the queue, and say
  // EPROTOTYPE (xnu bsd/kern/uipc_usrreq.c, unp_connect; Linux net/unix/af_unix.c, unix_find_bsd).
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  if (fd < 0) return true;
  static_cast<void>(::fcntl(fd, F_SETFD, FD_CLOEXEC));
  const int failed =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
  ::close(fd);
  return failed != ECONNREFUSED && failed != ENOENT && failed != ENOTDIR;
}

}  // namespace stageload
