// The lock comes first: who holds it may take a socket file that nobody listens at for a leftover.
#include "daemon/rpc/listening_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/disk_error.h"
#include "base/private_folder.h"
#include "base/socket_file.h"
#include "daemon/rpc/passed_socket.h"

namespace stageload::rpc {
namespace {

constexpr int kLockTries = 10;
constexpr int kLookAgainMs = 100;
// A daemon that was killed while it started a job leaves a child that has its descriptors, the lock
// among them, until it has executed its program.
constexpr int kLooksAtAnOrphan = 400;
constexpr int kLookAtOrphanMs = 5;

std::string NextLock(const Paths& paths) { return paths.lock + ".next"; }

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

absl::Status CheckFolderOf(const std::string& file, const std::string& user_home) {
  const auto slash = file.find_last_of('/');
  const std::string folder = file.substr(0, slash == std::string::npos ? 0 : slash);
  struct stat found {
  }, home{};
  const bool is_home = !user_home.empty() && ::stat(folder.c_str(), &found) == 0 &&
                       ::stat(user_home.c_str(), &home) == 0 && SameFile(found, home);
  return MakePrivateFolder(folder, is_home ? Readable::kByAnyone : Readable::kByOwnerOnly);
}

// An inode's number may be used again at once; its time of change differs then.
std::string Mark(const struct stat& file) {
#ifdef __APPLE__
  const timespec& changed = file.st_ctimespec;
#else
  const timespec& changed = file.st_ctim;
#endif
  return absl::StrCat(file.st_dev, " ", file.st_ino, " ", changed.tv_sec, " ", changed.tv_nsec);
}

// The pid that the holder wrote, or "unknown".
std::string HolderOf(int lock) {
  char buffer[32];
  const ssize_t got = ::pread(lock, buffer, sizeof(buffer), 0);
  std::string text(buffer, got > 0 ? static_cast<std::size_t>(got) : 0);
  text.resize(std::min(text.size(), text.find('\n')));
  const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  return !text.empty() && std::all_of(text.begin(), text.end(), digit) ? text : "unknown";
}

bool IsGone(const std::string& holder) {
  pid_t pid = 0;
  return absl::SimpleAtoi(holder, &pid) && pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

// The pid, and where it listens: a client may look for it elsewhere.
absl::Status WriteHolder(int lock, const std::string& path, const std::string& listens_at) {
  const std::string text = absl::StrCat(::getpid(), "\n", listens_at, "\n");
  if (::ftruncate(lock, 0) != 0 ||
      ::pwrite(lock, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return DiskError(errno, "write our pid to " + path);
  }
  return absl::OkStatus();
}

absl::Status NotAPlainFile(const std::string& path) {
  return absl::FailedPreconditionError(path + " is not a plain file; remove it and start again");
}

// Aborted when another file has taken its place by now.
absl::Status LockNow(int lock, const std::string& path, const std::string& listens_at) {
  struct stat opened {
  }, named{};
  if (::fstat(lock, &opened) != 0) return absl::ErrnoToStatus(errno, "look at " + path);
  if (!S_ISREG(opened.st_mode)) return NotAPlainFile(path);
  for (int looks = 0; ::flock(lock, LOCK_EX | LOCK_NB) != 0; ++looks) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return absl::ErrnoToStatus(errno, "lock " + path);
    const std::string holder = HolderOf(lock);
    if (!IsGone(holder) || looks == kLooksAtAnOrphan) {
      return absl::AlreadyExistsError(
          absl::StrCat("another stageloadd (pid ", holder, ") runs on this home: ", path));
    }
    ::poll(nullptr, 0, kLookAtOrphanMs);
  }
  if (::lstat(path.c_str(), &named) != 0 || !SameFile(opened, named)) {
    return absl::AbortedError(path + " was replaced while it was locked; start again");
  }
  return WriteHolder(lock, path, listens_at);
}

absl::StatusOr<int> TakeLock(const std::string& path, const std::string& listens_at) {
  absl::Status status;
  for (int tries = 0; tries < kLockTries; ++tries) {
    // O_NONBLOCK: a FIFO in its place must not make us wait.
    const int lock = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                            S_IRUSR | S_IWUSR);
    if (lock < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO)) {
      return NotAPlainFile(path);
    }
    if (lock < 0) return DiskError(errno, "open " + path);
    status = LockNow(lock, path, listens_at);
    if (status.ok()) return lock;
    ::close(lock);
    if (!absl::IsAborted(status)) break;
  }
  return status;
}

absl::StatusOr<int> NewSocket() {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "make a Unix socket");
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || ::fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
    const int failed = errno;
    ::close(fd);
    return absl::ErrnoToStatus(failed, "set up a Unix socket");
  }
  return fd;
}

absl::Status RemoveStale(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT ? absl::OkStatus() : absl::ErrnoToStatus(errno, "look at " + path);
  }
  if (!S_ISSOCK(found.st_mode)) {
    return absl::FailedPreconditionError(
        path + " is in the way of the socket and is not one; move it away");
  }
  // Of a daemon of another home that was given this path too, or launchd's: it must stay.
  if (SocketLives(path)) {
    return absl::AlreadyExistsError(absl::StrCat("another process listens at ", path,
                                                 "; stop it or set another STAGELOAD_SOCKET"));
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return DiskError(errno, "remove the old socket " + path);
  }
  return absl::OkStatus();
}

absl::Status Bind(int fd, const std::string& path) {
  const sockaddr_un address = SocketAddress(path);
  // The folder keeps others out; the mode does so too, from the first moment.
  const mode_t before = ::umask(S_IXUSR | S_IRWXG | S_IRWXO);
  const int failed =
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
  ::umask(before);
  return failed == 0 ? absl::OkStatus() : DiskError(failed, "bind the socket " + path);
}

}  // namespace

absl::StatusOr<ListeningSocket> ListeningSocket::Lock(const Paths& paths,
                                                      const std::string& user_home) {
  if (auto status = CheckSocketPath(paths.socket); !status.ok()) return status;
  for (const std::string& file : {paths.lock, paths.socket}) {
    if (auto status = CheckFolderOf(file, user_home); !status.ok()) return status;
  }
  ListeningSocket socket;
  const auto lock = TakeLock(paths.lock, paths.socket);
  if (!lock.ok()) return lock.status();
  socket.lock_ = *lock;
  socket.wanted_ = paths.socket;
  socket.next_ = NextLock(paths);
  return socket;
}

absl::StatusOr<ListeningSocket> ListeningSocket::LockWhenFree(const Paths& paths,
                                                              const std::function<bool()>& give_up,
                                                              const std::string& user_home) {
  absl::StatusOr<ListeningSocket> socket = Lock(paths, user_home);
  if (!absl::IsAlreadyExists(socket.status())) return socket;
  const absl::StatusOr<int> next = TakeLock(NextLock(paths), paths.socket);
  if (!next.ok()) return next.status();
  while (absl::IsAlreadyExists(socket.status())) {
    if (give_up()) {
      socket = absl::CancelledError(
          absl::StrCat("told to end while it waited: ", std::string(socket.status().message())));
      break;
    }
    ::poll(nullptr, 0, kLookAgainMs);
    socket = Lock(paths, user_home);
  }
  ::close(*next);
  return socket;
}

bool ListeningSocket::NextWaits() const {
  const int next = ::open(next_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (next < 0) return false;
  const bool waits = ::flock(next, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(next);
  return waits;
}

absl::Status ListeningSocket::TakeOver(int passed) {
  const absl::Status status = CheckPassedSocket(passed, wanted_);
  if (absl::IsNotFound(status)) {
    ::close(passed);
    return Listen();
  }
  fd_ = passed;
  if (!status.ok()) return status;
  const absl::Status reached = CheckReached();
  if (!absl::IsNotFound(reached)) return reached;
  // As one of ours that made its own socket here, and was killed.
  ::close(std::exchange(fd_, -1));
  return Listen();
}

absl::Status ListeningSocket::CheckReached() {
  struct stat found {};
  if (::lstat(wanted_.c_str(), &found) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return absl::OkStatus();  // cannot be told now
    return absl::NotFoundError(
        absl::StrCat("the socket's file ", wanted_, " is gone, so nobody reaches it"));
  }
  const std::string mark = Mark(found);
  if (mark == reached_) return absl::OkStatus();
  const std::optional<bool> leads_here = LeadsTo(wanted_, fd_);
  if (!leads_here) return absl::OkStatus();  // the next time
  if (!*leads_here && !SocketLives(wanted_)) {
    return absl::NotFoundError(absl::StrCat("nobody listens at ", wanted_,
                                            ", which has taken the place of our socket's file, so "
                                            "nobody reaches ours"));
  }
  if (!*leads_here) {
    return absl::FailedPreconditionError(absl::StrCat(
        wanted_,
        " is not our socket any more, so nobody reaches ours; another daemon that has made ",
        "its own there serves. On macOS the agent may be loaded in two sessions, gui/", ::getuid(),
        " and user/", ::getuid(), ": `launchctl bootout` one of them"));
  }
  reached_ = mark;
  return absl::OkStatus();
}

absl::Status ListeningSocket::Listen() {
  if (auto status = RemoveStale(wanted_); !status.ok()) return status;
  const auto fd = NewSocket();
  if (!fd.ok()) return fd.status();
  fd_ = *fd;
  if (auto status = Bind(*fd, wanted_); !status.ok()) return status;
  struct stat made {};
  if (::lstat(wanted_.c_str(), &made) != 0) {
    return absl::ErrnoToStatus(errno, "look at the new socket " + wanted_);
  }
  path_ = wanted_;
  device_ = made.st_dev;
  inode_ = made.st_ino;
  if (::listen(*fd, SOMAXCONN) != 0) return absl::ErrnoToStatus(errno, "listen at " + wanted_);
  return absl::OkStatus();
}

absl::StatusOr<ListeningSocket> ListeningSocket::Open(const Paths& paths,
                                                      const std::string& user_home) {
  absl::StatusOr<ListeningSocket> socket = Lock(paths, user_home);
  if (!socket.ok()) return socket;
  if (auto status = socket->Listen(); !status.ok()) return status;
  return socket;
}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept { *this = std::move(other); }

ListeningSocket& ListeningSocket::operator=(ListeningSocket&& other) noexcept {
  std::swap(wanted_, other.wanted_);
  std::swap(next_, other.next_);
  std::swap(path_, other.path_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  std::swap(reached_, other.reached_);
  std::swap(fd_, other.fd_);
  std::swap(lock_, other.lock_);
  return *this;
}

ListeningSocket::~ListeningSocket() {
  struct stat found {};
  if (!path_.empty() && ::lstat(path_.c_str(), &found) == 0 && found.st_dev == device_ &&
      found.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
  if (fd_ >= 0) ::close(fd_);
  if (lock_ >= 0) ::close(lock_);  // last: until here no other daemon touches the socket's file
}

}  // namespace stageload::rpc
