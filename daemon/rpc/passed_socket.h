// A listening socket that launchd or systemd has opened for us. It stays open with them while the
// daemon restarts, so who connects meanwhile waits instead of being refused.
//
// Threading: TakePassedSocket() before other threads exist (it changes the environment).
#ifndef STAGELOAD_DAEMON_RPC_PASSED_SOCKET_H_
#define STAGELOAD_DAEMON_RPC_PASSED_SOCKET_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace stageload::rpc {

// The name of the socket in the LaunchAgent's `Sockets` and of the descriptor in systemd's unit.
inline constexpr char kPassedSocketName[] = "Listeners";

// The descriptor that was passed to this process, close-on-exec; nothing when none was. On Linux
// the variables that name it are taken out of the environment, so that no child takes itself for
// the one they mean. Once.
// Errors: FailedPrecondition when something was passed that is not one descriptor.
absl::StatusOr<std::optional<int>> TakePassedSocket();

// Makes sure that `fd` is a Unix stream socket that listens at `path`, and makes it non-blocking.
// FailedPrecondition names what it is instead and what to do; NotFound: its file is gone.
absl::Status CheckPassedSocket(int fd, const std::string& path);

// Whether who connects at `path` arrives at `listening`, and not at another socket that was bound
// there since: tried with a connection, which is closed at once. No descriptor tells the file that
// its socket is bound to. Nothing when it cannot be told now, as while connections wait to be
// accepted; nobody else may accept meanwhile.
std::optional<bool> LeadsTo(const std::string& path, int listening);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_PASSED_SOCKET_H_
