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
  std::string runtime;  // folder: socket and lock
  std::string socket;   // the Unix socket
  std::string lock;     // flock of the one daemon; holds its pid in decimal
  std::string config;   // config.toml
  std::string store;    // SQLite file
  std::string jobs;     // folder of job folders
};

// Looks up one environment variable; nullopt when unset. An empty value counts as unset.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

// DESIGN section 10, "Paths": $STAGELOAD_HOME puts everything in one folder; else the platform's
// folders. $STAGELOAD_SOCKET overrides the socket alone, and the lock stays beside the store.
// A relative $STAGELOAD_HOME is InvalidArgument, since the daemon changes its folder, and so is a
// socket path longer than a sockaddr_un holds (103 bytes here on both platforms, so that a home
// works on each), with its length and the limit.
absl::StatusOr<Paths> ResolvePaths(const Environment& environment);

// The process's own environment.
Environment ProcessEnvironment();

// InvalidArgument when `path` is longer than a Unix socket's path may be.
absl::Status CheckSocketPath(const std::string& path);

}  // namespace stageload

#endif  // STAGELOAD_BASE_PATHS_H_
