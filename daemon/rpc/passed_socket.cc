// What holds for a passed socket whoever has passed it.
#include "daemon/rpc/passed_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/socket_file.h"

namespace stageload::rpc {
namespace {

constexpr char kFix[] =
    "; renew the service's files with `stageloadctl daemon install`, or start stageloadd without a "
    "socket";

absl::Status Refuse(int fd, const std::string& what) {
  return absl::FailedPreconditionError(
      absl::StrCat("descriptor ", fd, ", passed to us to listen at, ", what, kFix));
}

// Of an option of SOL_SOCKET; nothing where the system does not tell.
std::optional<int> Option(int fd, int option) {
  int value = 0;
  socklen_t size = sizeof(value);
  if (::getsockopt(fd, SOL_SOCKET, option, &value, &size) != 0) return std::nullopt;
  return value;
}

// Where it is bound; empty for a socket without a name, or with an abstract one.
std::string PathOf(const sockaddr_un& address, socklen_t size) {
  const std::size_t before = offsetof(sockaddr_un, sun_path);
  if (size <= before || address.sun_path[0] == '\0') return "";
  return std::string(address.sun_path, ::strnlen(address.sun_path, size - before));
}

// Symbolic links in a path of the service's file lead to the same socket.
bool SamePlace(const std::string& one, const std::string& other) {
  struct stat a {
  }, b{};
  return one == other || (::stat(one.c_str(), &a) == 0 && ::stat(other.c_str(), &b) == 0 &&
                          a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

absl::Status CheckPlace(int fd, const std::string& bound, const std::string& path) {
  if (!SamePlace(bound, path)) {
    return Refuse(fd, absl::StrCat("is bound to \"", absl::Utf8SafeCHexEscape(bound),
                                   "\", and our clients connect to ", path));
  }
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 && errno == ENOENT) {
    return absl::NotFoundError(
        absl::StrCat("the socket ", path, ", passed to us, has lost its file"));
  }
  return absl::OkStatus();
}

bool HasWaiting(int listening) {
  pollfd polled{listening, POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

}  // namespace

absl::Status CheckPassedSocket(int fd, const std::string& path) {
  sockaddr_un address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return Refuse(fd, absl::StrCat("is no socket: ", std::strerror(errno)));
  }
  if (address.sun_family != AF_UNIX) return Refuse(fd, "is no Unix socket");
  if (Option(fd, SO_TYPE) != SOCK_STREAM) return Refuse(fd, "is no stream socket");
  // macOS does not tell (xnu bsd/kern/uipc_socket.c, sogetoptlock); launchd always listens.
  if (Option(fd, SO_ACCEPTCONN) == 0) return Refuse(fd, "does not listen");
  if (auto status = CheckPlace(fd, PathOf(address, size), path); !status.ok()) return status;
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return absl::ErrnoToStatus(errno, "make the passed socket non-blocking");
  }
  return absl::OkStatus();
}

std::optional<bool> LeadsTo(const std::string& path, int listening) {
  if (HasWaiting(listening)) return std::nullopt;
  const int probe = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (probe < 0) return std::nullopt;
  const sockaddr_un address = SocketAddress(path);
  static_cast<void>(::fcntl(probe, F_SETFD, FD_CLOEXEC));
  static_cast<void>(::fcntl(probe, F_SETFL, O_NONBLOCK));
  const int failed =
      ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0
                                                                                          : errno;
  // It is in the queue when connect() returns (Linux net/unix/af_unix.c, unix_stream_connect; xnu
  // bsd/kern/uipc_usrreq.c, unp_connect2).
  const bool arrived = HasWaiting(listening);
  ::close(probe);
  // Refused, or told that the queue is full: not by ours, which was empty.
  if (arrived || failed == 0 || failed == EAGAIN || failed == ECONNREFUSED ||
      failed == EPROTOTYPE || failed == ENOTSOCK || failed == ENOENT) {
    return arrived;
  }
  return std::nullopt;
}

}  // namespace stageload::rpc
