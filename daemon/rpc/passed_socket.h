// A listening socket that launchd or systemd has opened for us. It stays open with them while the
// daemon restarts, so who connects meanwhile waits instead of being refused.
//
// Threading: before other threads exist (it changes the environment).
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
// FailedPrecondition names what it is instead and what to do.
absl::Status CheckPassedSocket(int fd, const std::string& path);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_PASSED_SOCKET_H_
