// The library's search for a command, in the PATH that we have.
//
// Threading: as there; it reads the environment.
#ifndef STAGELOAD_CLIENT_CTL_COMMAND_PATH_H_
#define STAGELOAD_CLIENT_CTL_COMMAND_PATH_H_

#include <cstdlib>
#include <string>

#include "absl/status/statusor.h"
#include "client/lib/command_path.h"

namespace stageload::ctl {

using client::FindCommand;

inline absl::StatusOr<std::string> FindInPath(const std::string& command) {
  const char* path = std::getenv("PATH");
  return FindCommand(command, path == nullptr ? "/bin:/usr/bin" : path);
}

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_COMMAND_PATH_H_
