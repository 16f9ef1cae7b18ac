// Where stageload keeps its things. Both programs must come to the same answer, or a client would
// wait at a socket that no daemon has.
//
// Threading: pure functions of the environment that is passed in.
#ifndef STAGELOAD_BASE_PATHS_H_
#define STAGELOAD_BASE_PATHS_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace stageload {

struct Paths {
  std::string state;    // folder: store, jobs (created 0700 by the daemon)
  std::string logs;     // folder: the daemon's own log
  std::string runtime;  // folder of the socket
  std::string socket;   // the Unix socket
  // flock of the one daemon; holds its pid in decimal. Beside the store, which is what it guards:
  // two logins with and without $XDG_RUNTIME_DIR have two sockets but one store.
  std::string lock;
  std::string config;  // config.toml
  std::string store;   // SQLite file
  std::string jobs;    // folder of job folders
};

// Looks up one environment variable; nullopt when unset. An empty value counts as unset.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

// DESIGN section 10, "Paths": $STAGELOAD_HOME puts everything in one folder; else the platform's
// folders. $STAGELOAD_SOCKET overrides the socket alone, and the lock stays beside the store.
// InvalidArgument: a relative $STAGELOAD_HOME or $STAGELOAD_SOCKET, since the daemon changes its
// folder; no home at all; a socket path longer than a sockaddr_un holds (103 bytes here on both
// platforms, so that a home works on each), with its length and the limit.
absl::StatusOr<Paths> ResolvePaths(const Environment& environment);

// The same for a platform by name.
enum class Platform { kLinux, kMacos };
absl::StatusOr<Paths> ResolvePathsOn(Platform platform, const Environment& environment);

// The process's own environment.
Environment ProcessEnvironment();

// InvalidArgument when `path` is longer than a Unix socket's path may be.
absl::Status CheckSocketPath(const std::string& path);

}  // namespace stageload

#endif  // STAGELOAD_BASE_PATHS_H_
