// Finds a command as execvp would, so that a missing one is told before anything waits for room.
//
// Threading: pure but for the file system.
#ifndef STAGELOAD_CLIENT_LIB_COMMAND_PATH_H_
#define STAGELOAD_CLIENT_LIB_COMMAND_PATH_H_

#include <string>

#include "absl/status/statusor.h"

namespace stageload::client {

// `command` itself when it has a slash, else the first executable file of that name in `path`.
// NotFound, or PermissionDenied when it is there and cannot be executed.
absl::StatusOr<std::string> FindCommand(const std::string& command, const std::string& path);

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_COMMAND_PATH_H_
