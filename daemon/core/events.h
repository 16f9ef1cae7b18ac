// What happens to the core. Each event is one thing that was seen or asked for; Scheduler::Step()
// answers it with effects (effects.h).
//
// Threading: plain values.
#ifndef STAGELOAD_DAEMON_CORE_EVENTS_H_
#define STAGELOAD_DAEMON_CORE_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/ids.h"
#include "daemon/core/job.h"
#include "daemon/core/policy.h"
#include "daemon/core/process.h"
#include "daemon/core/profile.h"
#include "daemon/core/sample.h"

namespace stageload::core {

// A job that another is to start after, and how it ended; absent when it never was. Only of those
// that the core does not know itself, since they have ended.
struct EndedParent {
  JobId id{};
  std::optional<JobState> state;
};

// A new client. It is answered by Accepted or Refused with the same token. A session is active at
// once; jobs and guards wait in the queue.
struct Submit {
  std::uint64_t token = 0;
  JobKind kind = JobKind::kJob;
  std::string name;
  std::string command;
  std::string working_directory;
  Policy policy;
  std::string group;
  std::string profile;
  std::string request_id;
  bool requeue = false;
  std::optional<JobId> retry_of;
  bool may_signal = true;  // of a session: whether it may be signalled, or only told
  bool notify = false;
  std::vector<JobId> after;
  std::vector<EndedParent> ended_parents;
  std::optional<absl::Time> begin_time;
  bool held = false;
  // Of a guard: the process that is held back; of a session: the one that registered.
  std::optional<ProcessIdentity> root;
  std::string boot_id;          // likewise
  std::optional<JobId> inside;  // of a guard: the active client in whose tree it is
};

// A row that was stored before this daemon started. All come before any other event, by id.
struct Restored {
  JobRecord record;
  std::vector<EndedParent> ended_parents = {};
};
// Likewise: a run that a profile remembers, oldest first.
struct ProfileRestored {
  std::string profile;
  RunPeaks run;
};
// Before all others: the queue was held, and why.
struct QueueHeldRestored {
  std::string text;
};

struct SampleTaken {
  Sample sample;
};

// The shim runs, or was found again; its tree is watched from now on.
struct Started {
  JobId id{};
  ProcessIdentity root;
  std::string boot_id;
  std::optional<JobId> inside = {};  // of a guard that was restored: as in Submit
};
// No process came of a Start, or none can of what waits for one, as its command is lost.
struct StartFailed {
  JobId id{};
  std::string text;
};
// The root of the tree has ended. `remaining` counts the processes of its tree that live on.
struct Exited {
  JobId id{};
  Outcome outcome;
  int remaining = 0;
  // One line for people: what lives on, or why nobody saw the end.
  std::string text = {};
  // When that was, where it was written down: a daemon may come long after it.
  std::optional<absl::Time> end_time = std::nullopt;
};
// The guard or session is gone: a guard's request is taken back if it still waits; a session ends,
// with its leases. `remaining` counts the processes of its tree that live on.
struct ClientGone {
  JobId id{};
  int remaining = 0;
};
// The machine went down under it. Nothing is started by itself after that until a user releases the
// queue, so that a job that took the machine down does not do it again.
struct NodeFailed {
  JobId id{};
};
// None of its processes could be signalled, and why.
struct SignalRefused {
  JobId id{};
  std::string text;
};
// Its first row could not be written, so it was never accepted: it is forgotten without a trace.
struct NotSaved {
  JobId id{};
};

// What a user asks. An id that is not there, or not in a state for it, changes nothing.
struct CancelAsked {
  JobId id{};
};
struct HoldAsked {
  JobId id{};
};
struct ReleaseAsked {
  JobId id{};
};
struct SuspendAsked {
  JobId id{};
};
struct ResumeAsked {
  JobId id{};
};
struct DrainAsked {
  bool drain = false;
};
// Nothing that waits is started, but guards; until ReleaseQueueAsked.
struct HoldQueueAsked {
  std::string text;  // why
};
struct ReleaseQueueAsked {};
// Other terms for a client; see Scheduler::CheckUpdate().
struct UpdateAsked {
  JobId id{};
  Policy policy;  // the whole of it
};
struct ForgetProfileAsked {
  std::string profile;
};
// What the machine's owner allows is another from here on. What runs keeps its terms; what waits is
// looked at under the new ones.
struct ConfigChanged {
  Config config;
};

// An active client wants to load `memory` for one stage. It is answered by LeaseQueued or Refused
// with the same token, then by LeaseGranted or LeaseDenied. What is `loaded` already, under a
// daemon that has gone, is granted at once, also to one that is being stopped: it asks for nothing.
struct Acquire {
  std::uint64_t token = 0;
  JobId client{};
  std::string stage;
  Bytes memory;
  std::optional<absl::Duration> start_timeout;
  bool loaded = false;
  std::uint64_t holder = 0;             // which of the client's programs asks
  std::optional<Bytes> footprint = {};  // of the client now, for one that no sample has yet
};
// A lease is given back, or no longer waited for.
struct LeaseReleased {
  LeaseId id{};
};

// Programs that were registered with the daemon before live on, and may come back to take up leases
// for what they hold: nothing else is admitted until then (Instant::awake).
struct ProgramsReturning {
  absl::Duration until;
};

// Time has passed (see Scheduler::NextDeadline()).
struct Tick {};

using Event =
    std::variant<Submit, Restored, ProfileRestored, QueueHeldRestored, SampleTaken, Started,
                 StartFailed, Exited, ClientGone, NodeFailed, SignalRefused, NotSaved, CancelAsked,
                 HoldAsked, ReleaseAsked, SuspendAsked, ResumeAsked, DrainAsked, HoldQueueAsked,
                 ReleaseQueueAsked, UpdateAsked, ForgetProfileAsked, ConfigChanged, Acquire,
                 LeaseReleased, ProgramsReturning, Tick>;

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_EVENTS_H_
