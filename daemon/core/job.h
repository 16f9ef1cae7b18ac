// A job as it is kept: what was asked, how far it got, how it ended.
//
// Threading: plain values.
#ifndef STAGELOAD_DAEMON_CORE_JOB_H_
#define STAGELOAD_DAEMON_CORE_JOB_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/units.h"
#include "daemon/core/blocker.h"
#include "daemon/core/ids.h"
#include "daemon/core/policy.h"
#include "daemon/core/process.h"

namespace stageload::core {

// kJob is run by the daemon under a shim; kGuard is a child of the `stageloadctl guard` that asked;
// kSession runs already, registered itself and takes leases. The numbers are stored: only append.
enum class JobKind { kJob = 0, kGuard = 1, kSession = 2 };

// Slurm's words. kCompleted and all after it are end states. The numbers are stored: only append.
enum class JobState {
  kPending = 1,
  kRunning = 2,
  kSuspended = 3,
  kStopping = 4,
  kCompleted = 5,
  kFailed = 6,
  kCancelled = 7,
  kTimeout = 8,
  kOutOfMemory = 9,
  kNoRoom = 10,
  kNodeFail = 11,
  kUnknown = 12,
};
constexpr bool IsEnd(JobState state) { return state >= JobState::kCompleted; }
constexpr bool IsActive(JobState state) { return state != JobState::kPending && !IsEnd(state); }
const char* Name(JobState state);  // "PENDING"

// Why we stopped a job, or ended it without a start. The numbers are stored: only append.
enum class Reason {
  kNone = 0,
  kSwapBudget = 1,       // charge > budget
  kSwapLimit = 2,        // swap used > the job's swap limit
  kLowMemory = 3,        // level < kill_free
  kCancelled = 4,        // a user asked
  kStartTimeout = 5,     // no room in time
  kStartFailed = 6,      // the command could not be started
  kClientGone = 7,       // the guard that asked went away before its start
  kLost = 8,             // it ended while nobody could see how
  kDependencyNever = 9,  // it was to start after a job that failed or is gone
  kTimeLimit = 10,       // it ran longer than its time limit
  kSuspendAsked = 11,    // a user suspended it
};
const char* Name(Reason reason);  // "SWAP_BUDGET"

// How a process ended. Exactly one of exit_code and signal is set, or neither when nobody saw it.
struct Outcome {
  std::optional<int> exit_code;
  std::optional<int> signal;
  // errno of a command that could not be executed; exit_code is then 127.
  std::optional<int> start_errno;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// What the daemon runs; captured at submit, opaque to the rules.
struct JobSpec {
  std::vector<std::string> argv;         // argv[0] is looked up in the job's own PATH
  std::string working_directory;         // absolute
  std::vector<std::string> environment;  // "NAME=value"; may be that of many jobs
  std::vector<std::string> variables;    // likewise, over it
  std::uint32_t umask = 022;
  // Soft limits by RLIMIT_* number of this platform.
  std::vector<std::pair<int, std::uint64_t>> soft_limits;
};

// What the job finds around it: `environment` with `variables` in their places or behind it.
std::vector<std::string> WholeEnvironment(const JobSpec& spec);

// "python train.py": argv joined for display, cut at 4 KiB.
std::string DisplayCommand(const std::vector<std::string>& argv);

// For how long a request waited for one kind of thing: the first of its blockers.
struct Waited {
  BlockerKind kind = BlockerKind::kOrder;
  absl::Duration time;  // asleep or awake
  std::string text;     // the blocker as it was last read; empty when it was not read again

  friend bool operator==(const Waited&, const Waited&) = default;
};

// One row: everything about a job but its spec. Times are wall times for people.
struct JobRecord {
  JobId id{};
  JobKind kind = JobKind::kJob;
  std::string name;               // as given, else the base name of argv[0]
  std::string command;            // argv joined for display, cut at 4 KiB
  std::string working_directory;  // of kJob
  Policy policy;
  std::string group;       // shares a limit with others of the group; empty is none
  std::string profile;     // under which its peaks are remembered; empty is none
  std::string request_id;  // the caller's own name for this submit; a repeat is answered, not run
  bool requeue = false;    // waits again, held, when the machine went down under it
  std::optional<JobId> retry_of;  // the ended job of which this is another run
  bool may_signal = true;         // a session may ask never to be signalled
  bool notify = false;            // people want to be told of its end

  // What it waits for besides room.
  std::vector<JobId> after;              // that have not completed yet
  std::optional<absl::Time> begin_time;  // wall
  bool held = false;                     // until a user releases it
  std::vector<Waited> waited;            // so far, in the order in which it first did

  JobState state = JobState::kPending;
  Reason reason = Reason::kNone;
  std::string reason_text;  // one line with the figures
  Outcome outcome;

  absl::Time submit_time;
  std::optional<absl::Time> start_time;  // of its admission
  std::optional<absl::Time> end_time;

  // The process at the root of its tree: the shim of a job, the command of a guard.
  std::optional<ProcessIdentity> root;
  std::string boot_id;  // of the boot in which it was started; empty before

  // Moments of that boot, as Instant::awake: they mean the same to the next daemon of the boot.
  std::optional<absl::Duration> started_awake;    // its admission
  std::optional<absl::Duration> suspended_awake;  // since when it is suspended
  absl::Duration suspended_for;                   // in all, before that
  std::optional<absl::Duration> stop_awake;       // its first SIGTERM, from which the grace counts

  Bytes charge;                         // swap put down to it, at its end or at the last write
  std::optional<Bytes> swap_at_charge;  // swap used when that was read
  std::optional<absl::Duration> charge_awake;       // when that was, as Instant::awake
  std::optional<absl::Duration> charge_continuous;  // and as Instant::continuous
  Bytes forgiven;    // of it, by resuming it after it was suspended for its budget
  int bypassed = 0;  // how often others were admitted past it while it waited for memory

  std::optional<Bytes> peak_footprint;  // absent when it was never sampled
  // The most by which available fell and swap grew since its start, which sees memory that no
  // footprint shows. Absent unless it was the only client for the whole of its run.
  std::optional<Bytes> true_peak;
  std::optional<Bytes> available_at_start;
  std::optional<Bytes> swap_at_start;
  bool alone = true;  // so far

  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_JOB_H_
