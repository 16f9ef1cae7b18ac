// The daemon's Unix socket, and the lock that says there is one daemon for this home.
//
// Threading: one owner. Listen() sets the process's umask for the time of a bind, so call it before
// other threads create files.
#ifndef STAGELOAD_DAEMON_RPC_LISTENING_SOCKET_H_
#define STAGELOAD_DAEMON_RPC_LISTENING_SOCKET_H_

#include <sys/types.h>

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/paths.h"

namespace stageload::rpc {

class ListeningSocket {
 public:
  // Checks the folders of the lock and of the socket (makes them with mode 0700 when missing),
  // takes the lock and writes our pid into it: this home is ours from then on, and nobody can
  // connect yet. `user_home` is the user's home folder: when the socket or the lock lies right in
  // it, it may be readable (but not writable) by others; any other folder may not.
  // Errors: AlreadyExists (another daemon, with its pid), FailedPrecondition (a folder or file that
  // others could change, or of the wrong kind: names it, what was found and the fix),
  // InvalidArgument (path too long), else what the system call says.
  static absl::StatusOr<ListeningSocket> Lock(const Paths& paths,
                                              const std::string& user_home = "");
  // The same, but when another daemon has the home it waits until that leaves. One that can make
  // room for us sees it by NextWaits(). `give_up` is asked ten times a second.
  // Errors: as Lock(); Cancelled after give_up; AlreadyExists when another waits already.
  static absl::StatusOr<ListeningSocket> LockWhenFree(const Paths& paths,
                                                      const std::function<bool()>& give_up,
                                                      const std::string& user_home = "");
  // Listens with a socket of mode 0600. A socket that nobody listens at is replaced. Once.
  // Errors: AlreadyExists (somebody listens at this path), FailedPrecondition (something else is in
  // the way), else what the system call says.
  absl::Status Listen();
  // Instead of Listen(): takes the socket that launchd or systemd has passed to us, and with it the
  // descriptor. Its file is theirs and is never removed by us; where that is gone, or what is there
  // instead is a socket that nobody listens at, we listen with a socket of our own in its place.
  // Once.
  // Errors: FailedPrecondition (its path is another socket by now, where another daemon serves);
  // else as CheckPassedSocket() and Listen().
  absl::Status TakeOver(int passed);
  // Lock() and Listen().
  static absl::StatusOr<ListeningSocket> Open(const Paths& paths,
                                              const std::string& user_home = "");

  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&& other) noexcept;
  // Removes the socket's file if we have made it and it is still ours, then gives up the lock.
  ~ListeningSocket();

  // Whether a daemon waits in LockWhenFree() for us to leave. Any thread.
  bool NextWaits() const;

  // After Listen() or TakeOver(), from the thread that accepts: NotFound when the socket's file is
  // gone, or nobody listens at what has its place, and FailedPrecondition when another socket has
  // it, so that nobody reaches us.
  absl::Status CheckReached();
  // Whether it listens with a socket that was passed to it, and not with one of its own.
  bool IsPassed() const { return fd_ >= 0 && path_.empty(); }

  // Non-blocking and close-on-exec; lives as long as this object. -1 before Listen() or
  // TakeOver().
  int fd() const { return fd_; }

 private:
  ListeningSocket() = default;

  std::string wanted_;  // where Listen() puts the socket
  std::string next_;    // locked by the daemon that waits for us to leave
  std::string path_;    // empty until there is a file to remove
  dev_t device_{};      // of that file
  ino_t inode_{};
  std::string reached_;  // what tells the file from others, once it is sure that it leads to us
  int fd_ = -1;
  int lock_ = -1;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_LISTENING_SOCKET_H_
