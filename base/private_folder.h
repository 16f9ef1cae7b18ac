// A folder that only its owner can change: nobody else can put another one in its place, since the
// same holds for each folder above it.
//
// Threading: no state; touches the file system.
#ifndef STAGELOAD_BASE_PRIVATE_FOLDER_H_
#define STAGELOAD_BASE_PRIVATE_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace stageload {

enum class Readable { kByOwnerOnly, kByAnyone };

// Makes `folder` (absolute) and what is missing above it with mode 0700, then checks it: a folder,
// no symbolic link, owned by us, not writable by others and readable as said. Each folder above it
// must be owned by root or us and not be writable by others, unless sticky as /tmp is; symbolic
// links there must be root's or ours and are followed.
// Errors: FailedPrecondition names the path, what was found and the fix; else what the system call
// says.
absl::Status MakePrivateFolder(const std::string& folder, Readable readable);

// The same check, and nothing is made. NotFound when the folder, or one above it, is not there.
absl::Status CheckPrivateFolder(const std::string& folder, Readable readable);

}  // namespace stageload

#endif  // STAGELOAD_BASE_PRIVATE_FOLDER_H_
