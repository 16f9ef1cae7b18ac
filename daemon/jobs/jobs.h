// Starting jobs and finding them again. Each job has a folder (jobs/<id>, 0700) with its spec, its
// lock, its log and, in the end, its result; a stageload-shim in a session of its own runs the
// command and outlives the daemon. See docs/architecture.md, "A job's folder".
//
// Threading: all calls from one thread.
#ifndef STAGELOAD_DAEMON_JOBS_JOBS_H_
#define STAGELOAD_DAEMON_JOBS_JOBS_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/core/ids.h"
#include "daemon/core/job.h"
#include "daemon/core/process.h"
#include "daemon/jobs/result_file.h"

namespace stageload::jobs {

// What a job's folder says about it.
struct Found {
  enum class State {
    kNeverStarted,  // no shim ever took the lock: the command did not run
    kRunning,       // a shim holds the lock
    kEnded,         // a result is there
    kLost,          // a shim had the lock, is gone, and left no result
  };
  State state = State::kNeverStarted;
  // The shim that has or had the lock, as it wrote itself down.
  std::optional<core::ProcessIdentity> shim;
  // The machine went down since it took the lock.
  bool earlier_boot = false;
  // What it started, if it lived to write that down. Of kLost it may run still.
  std::optional<core::ProcessIdentity> command;
  // Of kEnded: what the shim still had to look after then; their children are not named.
  std::vector<core::ProcessIdentity> left;
  Result result;  // of kEnded
};

class Jobs {
 public:
  // `folder` holds the job folders (made 0700 when missing); `shim` is the shim's path. A shim that
  // has not taken its job's lock within `start_timeout` is given up.
  Jobs(std::string folder, std::string shim, absl::Duration start_timeout = absl::Seconds(10));

  // `find` gives the shim's path, or an empty one, when it is no longer where it was.
  void FindShimBy(std::function<std::string()> find) { find_shim_ = std::move(find); }

  // The folder of one job, whether it exists or not.
  std::string FolderOf(core::JobId id) const;

  // Makes the folder, writes the spec durably, spawns the shim with nothing of the daemon's but
  // /dev/null, and returns the shim's pid, a child of this process that must be reaped by
  // ExitWatcher. When this returns, the shim has the lock or has failed. A command that cannot be
  // executed is no error here: the result says so. AlreadyExists when a shim has taken this job's
  // lock in this boot, or left its result; what an earlier boot cut off is forgotten.
  // ResourceExhausted when the disk has no room, Unavailable when the folder cannot be written for
  // another reason; it may be tried again after both. FailedPrecondition when there is no shim any
  // more, until there is one.
  //
  // Where the shim was given up it is Unavailable too, and that shim will run nothing.
  absl::StatusOr<pid_t> Start(core::JobId id, const core::JobSpec& spec);

  // Reads the folder. Safe at any time, also while the shim writes.
  absl::StatusOr<Found> Inspect(core::JobId id) const;

  // Every job that has a folder, ascending.
  std::vector<core::JobId> Folders() const;
  // What the folder's job runs; NotFound once it has ended.
  absl::StatusOr<core::JobSpec> SpecOf(core::JobId id) const;

  // Forgets the environment and limits of an ended job (the spec file); its log stays.
  absl::Status DropSpec(core::JobId id) const;
  // Removes the folder of an ended job with its log. FailedPrecondition while a shim holds its
  // lock.
  absl::Status Remove(core::JobId id) const;

 private:
  absl::Status Prepare(core::JobId id, const core::JobSpec& spec);
  absl::StatusOr<pid_t> SpawnShim(core::JobId id, int channel);
  absl::Status ForgetRun(core::JobId id) const;
  void ReapAbandoned();

  std::string folder_;
  std::string shim_;
  std::function<std::string()> find_shim_;
  absl::Duration start_timeout_;
  std::vector<pid_t> abandoned_;  // shims that were given up and are still our children
};

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_JOBS_H_
