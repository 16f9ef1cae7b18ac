// An error of the disk, told with what to do about it.
//
// Threading: pure functions.
#ifndef STAGELOAD_BASE_DISK_ERROR_H_
#define STAGELOAD_BASE_DISK_ERROR_H_

#include <string>

#include "absl/status/status.h"

namespace stageload {

// "WHAT: Read-only file system; mount it writable, ...", with the code of absl::ErrnoToStatus. Of
// an errno that nobody can advise on, only the first part.
absl::Status DiskError(int error, const std::string& what);

}  // namespace stageload

#endif  // STAGELOAD_BASE_DISK_ERROR_H_
