#include "base/disk_error.h"

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace stageload {
namespace {

const char* AdviceFor(int error) {
  switch (error) {
    case EROFS:
      return "; mount it writable, or set STAGELOAD_HOME to a folder elsewhere";
    case ENOSPC:
    case EDQUOT:
      return "; free space on its disk";
    case EFBIG:
      return "; raise the limit of a file's size (ulimit -f), or see what its file system allows";
    case EACCES:
    case EPERM:
      return "; give it back to its user (chown, and chmod u+rw or u+rwx of a folder), or set "
             "STAGELOAD_HOME to a folder of your own";
    case EIO:
      return "; its disk fails: see what the system's log says of it";
    default:
      return "";
  }
}

}  // namespace

absl::Status DiskError(int error, const std::string& what) {
  const absl::Status status = absl::ErrnoToStatus(error, what);
  return absl::Status(status.code(), absl::StrCat(status.message(), AdviceFor(error)));
}

}  // namespace stageload
