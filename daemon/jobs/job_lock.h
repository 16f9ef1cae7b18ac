// The file `job.lock` in a job's folder. The shim holds its flock(2) for all of its life and writes
// itself down in it before it runs anything, so the file tells for ever that a shim was here, and
// its lock tells whether it still is. Nothing can make a job run twice. Below itself it writes down
// the command, so that this is found also when the shim was killed, and in the end what of the job
// lives on, which nobody could tell by its parent any more.
//
// Threading: pure calls into the kernel. `folder` is a descriptor of the open folder.
#ifndef STAGELOAD_DAEMON_JOBS_JOB_LOCK_H_
#define STAGELOAD_DAEMON_JOBS_JOB_LOCK_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/core/process.h"
#include "daemon/jobs/descriptor.h"

namespace stageload::jobs {

inline constexpr char kLockFile[] = "job.lock";
inline constexpr std::size_t kMostLeft = 32;

class JobLock {
 public:
  // Takes the lock, reserves the result's space and writes this process down, durably.
  // AlreadyExists when one holds it or ever wrote itself down; ResourceExhausted when the disk has
  // no room.
  static absl::StatusOr<JobLock> Take(int folder);

  // Unwrites: this shim ran nothing and will not, another may.
  absl::Status Withdraw();

  // Writes a process down: first the command, then those that it left. Not synced: only the end of
  // the machine could lose it, and the process with it. It makes no file and, while the file is
  // small, no block, so it works on a full disk as well.
  absl::Status Note(const core::ProcessIdentity& process);

 private:
  explicit JobLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

// What the lock file says.
struct LockState {
  bool held = false;                          // now
  bool written = false;                       // by a shim, ever
  std::optional<core::ProcessIdentity> shim;  // absent when it cannot be read
  bool earlier_boot = false;                  // that shim was of another boot
  // What the shim started in this boot; absent when it started nothing, or was killed before it
  // could say so.
  std::optional<core::ProcessIdentity> command;
  // Children of the shim when the command had ended, kMostLeft at most.
  std::vector<core::ProcessIdentity> left;
};

// Takes the lock for an instant where it is free; Take() waits that out.
absl::StatusOr<LockState> ReadLock(int folder);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_JOB_LOCK_H_
