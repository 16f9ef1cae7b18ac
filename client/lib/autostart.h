// Starts a daemon for this user in the background, as Watchman does, so that every command works on
// a machine where nobody set anything up.
//
// Threading: before other threads exist (it reads the environment).
#ifndef STAGELOAD_CLIENT_LIB_AUTOSTART_H_
#define STAGELOAD_CLIENT_LIB_AUTOSTART_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/paths.h"
#include "client/lib/unique_fd.h"

namespace stageload::client {

// $STAGELOAD_DAEMON, else the stageloadd beside this program, else the one in $PATH.
absl::StatusOr<std::string> FindDaemon(const Environment& environment);

// ErrorInfo-like reason of the error below, which never comes over the wire.
inline constexpr char kOtherSocket[] = "OTHER_SOCKET";

// FailedPrecondition (kOtherSocket) when the daemon of this home listens elsewhere, which is named:
// two logins, one with $XDG_RUNTIME_DIR and one without, look for it at two places.
absl::Status CheckNotElsewhere(const Paths& paths);

// Spawns the daemon in a session of its own with nothing of ours and waits until it answers at
// paths.socket; the connected socket. Of two that start one at once, the daemon's lock decides and
// both connect to the winner. Unavailable with the daemon's own words when it does not come up.
absl::StatusOr<UniqueFd> StartDaemon(const Paths& paths, std::vector<std::string> arguments,
                                     absl::Duration timeout = absl::Seconds(10));

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_AUTOSTART_H_
