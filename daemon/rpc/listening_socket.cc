#include "daemon/rpc/listening_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/rpc/private_folder.h"

namespace stageload::rpc {
namespace {

absl::Status Failed(const char* what, const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat(what, " ", path, ": ", std::strerror(errno)));
}

std::string FolderOf(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

// What the lock's holder wrote into it; "?" in the moment before it has.
std::string ReadPid(int lock) {
  char text[32] = {};
  const ssize_t size = pread(lock, text, sizeof text - 1, 0);
  std::string pid(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  while (!pid.empty() && pid.back() == '\n') pid.pop_back();
  return pid.empty() ? "?" : pid;
}

}  // namespace

absl::StatusOr<ListeningSocket> ListeningSocket::Open(const Paths& paths) {
  ListeningSocket socket;
  absl::Status status = CheckSocketPath(paths.socket);
  if (status.ok()) status = EnsurePrivateFolder(FolderOf(paths.lock));
  if (status.ok()) status = EnsurePrivateFolder(FolderOf(paths.socket));
  if (status.ok()) status = socket.Lock(paths.lock);
  if (status.ok()) status = socket.Listen(paths.socket);
  if (!status.ok()) return status;
  return socket;
}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept { *this = std::move(other); }

ListeningSocket& ListeningSocket::operator=(ListeningSocket&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  std::swap(socket_, other.socket_);
  return *this;
}

ListeningSocket::~ListeningSocket() {
  // Under the lock: no other daemon can have put its own there.
  if (socket_ >= 0) {
    unlink(path_.c_str());
    close(socket_);
  }
  if (lock_ >= 0) close(lock_);
}

absl::Status ListeningSocket::Lock(const std::string& path) {
  lock_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_ < 0) return Failed("open", path);
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Failed("lock", path);
    return absl::AlreadyExistsError(
        absl::StrCat("another stageloadd (pid ", ReadPid(lock_), ") holds ", path,
                     "; use it, or end it with: stageloadctl daemon stop"));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(lock_, 0) != 0 ||
      pwrite(lock_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return Failed("write", path);
  }
  return absl::OkStatus();
}

absl::Status ListeningSocket::Listen(const std::string& path) {
  struct stat found = {};
  if (lstat(path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode)) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is in the way and is no socket; move it away"));
    }
    // Left behind by a daemon that is gone, since the lock is ours.
    if (unlink(path.c_str()) != 0) return Failed("remove the old socket", path);
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return Failed("make a socket for", path);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  // The folder keeps others out; the mode does so too, from the first moment.
  const mode_t before = umask(0177);
  const int bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  umask(before);
  if (bound != 0 || listen(fd, SOMAXCONN) != 0) {
    const absl::Status status = Failed(bound != 0 ? "bind" : "listen at", path);
    close(fd);
    return status;
  }
  socket_ = fd;
  path_ = path;
  return absl::OkStatus();
}

}  // namespace stageload::rpc
