// The file `job.lock` in a job's folder. The shim holds its flock(2) for all of its life and writes
// itself down in it before it runs anything, so the file tells for ever that a shim was here, and
// its lock tells whether it still is. Nothing can make a job run twice.
//
// Threading: pure calls into the kernel. `folder` is a descriptor of the open folder.
#ifndef STAGELOAD_DAEMON_JOBS_JOB_LOCK_H_
#define STAGELOAD_DAEMON_JOBS_JOB_LOCK_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/core/process.h"
#include "daemon/jobs/descriptor.h"

namespace stageload::jobs {

inline constexpr char kLockFile[] = "job.lock";

class JobLock {
 public:
  // Takes the lock and writes this process down, durably. AlreadyExists when one holds it or ever
  // wrote itself down.
  static absl::StatusOr<JobLock> Take(int folder);

  // Unwrites: this shim ran nothing and will not, another may.
  absl::Status Withdraw();

 private:
  explicit JobLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

// What the lock file says.
struct LockState {
  bool held = false;                          // now
  bool written = false;                       // by a shim, ever
  std::optional<core::ProcessIdentity> shim;  // absent when it cannot be read
};

// Takes the lock for an instant where it is free; Take() waits that out.
absl::StatusOr<LockState> ReadLock(int folder);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_JOB_LOCK_H_
