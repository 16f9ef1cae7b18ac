// Small files that are there as a whole or not at all, also after a power cut: written beside,
// synced, renamed into place, and the folder synced so that the name lasts.
//
// Threading: pure calls into the kernel. `folder` is a descriptor of the open folder.
#ifndef STAGELOAD_DAEMON_JOBS_DURABLE_FILE_H_
#define STAGELOAD_DAEMON_JOBS_DURABLE_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/jobs/descriptor.h"

namespace stageload::jobs {

// NotFound when it is not there; other errors as errno has them, with the path.
absl::StatusOr<Descriptor> OpenFolder(const std::string& path);

// Replaces `name` in the folder (mode 0600).
absl::Status WriteDurably(int folder, const std::string& name, std::string_view contents);

// The whole file; NotFound when it is not there.
absl::StatusOr<std::string> ReadWhole(int folder, const std::string& name);

// All of `contents` to the descriptor, over short writes.
absl::Status WriteAll(int descriptor, std::string_view contents);

// To the medium: fsync, and on macOS F_FULLFSYNC, since fsync(2) there leaves data in the drive.
absl::Status Sync(int descriptor, const std::string& what);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_DURABLE_FILE_H_
