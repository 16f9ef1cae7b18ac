#include "base/socket_file.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace stageload {

sockaddr_un SocketAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

bool SocketLives(const std::string& path) {
  const sockaddr_un address = SocketAddress(path);
  if (path.size() >= sizeof(address.sun_path)) return false;
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
