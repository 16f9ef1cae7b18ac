// A folder that nobody but its owner can reach into: where the socket and the lock lie.
//
// Threading: pure calls into the kernel.
#ifndef STAGELOAD_DAEMON_RPC_PRIVATE_FOLDER_H_
#define STAGELOAD_DAEMON_RPC_PRIVATE_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace stageload::rpc {

// Makes `path` (and its parents) with mode 0700 where missing, then looks at the opened folder: it
// must be a real folder of this user that group and others may not enter, below folders that nobody
// else may rename it in. FailedPrecondition names the path, what was found, and the fix.
absl::Status EnsurePrivateFolder(const std::string& path);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_PRIVATE_FOLDER_H_
