// What the daemon and a new shim say to each other over one socket, a line each way:
//
//   shim:   "locked"            the job's lock is taken and written, durably
//           "taken <by whom>"   another shim has or had it
//           "full <why>"        the disk has no room for what a shim writes
//           "failed <why>"
//   daemon: "go"                only after "locked"
//
// A shim that gets no "go" runs nothing and unwrites its lock. So a daemon that gives up on a slow
// shim, or dies in between, knows that the job has not run and can be started again.
//
// Threading: constants.
#ifndef STAGELOAD_DAEMON_JOBS_START_CHANNEL_H_
#define STAGELOAD_DAEMON_JOBS_START_CHANNEL_H_

namespace stageload::jobs {

inline constexpr int kStartChannel = 3;  // the shim's descriptor
inline constexpr char kLocked[] = "locked";
inline constexpr char kTaken[] = "taken ";
inline constexpr char kNoRoom[] = "full ";
inline constexpr char kFailed[] = "failed ";
inline constexpr char kGo[] = "go\n";

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_START_CHANNEL_H_
