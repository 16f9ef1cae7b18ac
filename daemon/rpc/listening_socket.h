// The socket, and the lock that says whose it is: one daemon for one home.
//
// Threading: one owner.
#ifndef STAGELOAD_DAEMON_RPC_LISTENING_SOCKET_H_
#define STAGELOAD_DAEMON_RPC_LISTENING_SOCKET_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/paths.h"

namespace stageload::rpc {

class ListeningSocket {
 public:
  // Checks the folders, takes the lock, and only then replaces a socket file that was left behind.
  // AlreadyExists names the pid of the daemon that holds the lock; FailedPrecondition a folder or
  // file that is not as it must be, with the fix; InvalidArgument a path that is too long.
  static absl::StatusOr<ListeningSocket> Open(const Paths& paths);

  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&& other) noexcept;
  // Removes the socket file, if it is still ours, and gives up the lock.
  ~ListeningSocket();

  int fd() const { return socket_; }

 private:
  ListeningSocket() = default;
  absl::Status Lock(const std::string& path);
  absl::Status Listen(const std::string& path);

  std::string path_;
  int lock_ = -1;
  int socket_ = -1;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_LISTENING_SOCKET_H_
