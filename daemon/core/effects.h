// What the core wants done. The engine writes the durable ones (Save, Learned, Forgotten,
// QueueHeld) to disk, all those of a batch in one transaction, and only then carries out the
// others, in the order in which they were decided.
//
// Threading: plain values.
#ifndef STAGELOAD_DAEMON_CORE_EFFECTS_H_
#define STAGELOAD_DAEMON_CORE_EFFECTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/core/blocker.h"
#include "daemon/core/ids.h"
#include "daemon/core/job.h"
#include "daemon/core/profile.h"

namespace stageload::core {

struct Accepted {
  std::uint64_t token = 0;
  JobId id{};
};
struct Refused {
  std::uint64_t token = 0;
  absl::Status status;
};
// Durable: the row as it is now; `added` for a new one.
struct Save {
  JobRecord record;
  bool added = false;
};
// Durable: what a run has taught.
struct Learned {
  std::string profile;
  RunPeaks run;
};
// Durable: a profile has no runs any more.
struct Forgotten {
  std::string profile;
};
// Durable: why the whole queue is held; absent when it is not.
struct QueueHeld {
  std::optional<std::string> text;
};
// Run it (kJob), or tell its guard to (the guard sees RUNNING). Only after the Save before it.
struct Start {
  JobId id{};
  JobKind kind = JobKind::kJob;
};
// To the whole tree, each process only if it is still the one that was meant (IsStill()).
// kTerminate also lets stopped processes go on, so that their handlers run.
struct Signal {
  enum class Kind { kTerminate, kKill, kSuspend, kContinue };
  JobId id{};
  Kind kind = Kind::kTerminate;
};
// Tell the programs that registered as this client that its charge is near its budget or over it.
struct Warned {
  JobId id{};
  Bytes charge;
  Bytes swap_budget;
  std::string text;
};
// Tell them to end by themselves. For a session that may be signalled SIGTERM follows after
// `grace`; a job or guarded command gets it at once.
struct StopRequested {
  JobId id{};
  Reason reason = Reason::kNone;
  std::string text;
  absl::Duration grace;
};

struct LeaseQueued {
  std::uint64_t token = 0;
  LeaseId id{};
};
// `forced`: nothing else would ever have moved, so it was granted though it may not fit.
struct LeaseGranted {
  LeaseId id{};
  JobId client{};
  bool forced = false;
};
struct LeaseDenied {
  LeaseId id{};
  JobId client{};
  absl::Status status;
  std::vector<Blocker> blockers;  // of one that has given up
};

// For telemetry and the event history. See telemetry::Event for the words.
struct Note {
  std::string kind;
  std::optional<JobId> job;
  std::string text;
};

using Effect = std::variant<Accepted, Refused, Save, Learned, Forgotten, QueueHeld, Start, Signal,
                            Warned, StopRequested, LeaseQueued, LeaseGranted, LeaseDenied, Note>;
using Effects = std::vector<Effect>;

void Tell(Effects& effects, Note note);

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_EFFECTS_H_
