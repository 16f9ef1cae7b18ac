// The core: all that stageload decides, as a pure state machine. Events go in, effects come out;
// the engine writes the durable ones to disk, then carries out the others. Equal inputs give equal
// outputs: there is no I/O, no clock, no thread and no unordered container in here.
//
// Threading: one owner.
#ifndef STAGELOAD_DAEMON_CORE_SCHEDULER_H_
#define STAGELOAD_DAEMON_CORE_SCHEDULER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/instant.h"
#include "daemon/core/admission.h"
#include "daemon/core/blocker.h"
#include "daemon/core/charge_ledger.h"
#include "daemon/core/ids.h"
#include "daemon/core/job.h"
#include "daemon/core/policy.h"
#include "daemon/core/process.h"
#include "daemon/core/sample.h"
#include "daemon/core/stopping.h"

namespace stageload::core {

// ---- Events ----

// A new request. It is answered by Accepted or Refused with the same token.
struct Submit {
  std::uint64_t token = 0;
  JobKind kind = JobKind::kJob;
  std::string name;
  std::string command;
  std::string working_directory;
  Policy policy;
  std::optional<ProcessIdentity> root;  // of a guarded command: the process that is held back
  std::string boot_id;                  // likewise
};
// A row that was stored before this daemon started. All come before any other event, by id.
struct Restored {
  JobRecord record;
};
struct SampleTaken {
  Sample sample;
};
// The shim runs; its tree is watched from now on.
struct Started {
  JobId id{};
  ProcessIdentity root;
  std::string boot_id;
};
// No process came of a Start.
struct StartFailed {
  JobId id{};
  std::string text;
};
// The root of the tree has ended. `remaining` counts the processes of its tree that live on.
struct Exited {
  JobId id{};
  Outcome outcome;
  int remaining = 0;
};
struct CancelAsked {
  JobId id{};
};
// The guard that asked is gone: its request is taken back if it still waits.
struct ClientGone {
  JobId id{};
};
// The machine went down under it.
struct NodeFailed {
  JobId id{};
};
// Its first row could not be written, so it was never accepted: it is forgotten without a trace.
struct NotSaved {
  JobId id{};
};
// Time has passed (see NextDeadline()).
struct Tick {};

using Event = std::variant<Submit, Restored, SampleTaken, Started, StartFailed, Exited, CancelAsked,
                           ClientGone, NodeFailed, NotSaved, Tick>;

// ---- Effects, in the order in which they were decided ----

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
// Run it (kJob), or tell its guard to (the guard sees RUNNING). Only after the Save before it.
struct Start {
  JobId id{};
  JobKind kind = JobKind::kJob;
};
// To the whole tree, each process only if it is still the one that was meant.
struct Signal {
  enum class Kind { kTerminate, kKill };
  JobId id{};
  Kind kind = Kind::kTerminate;
};
// For telemetry and the event history. See telemetry::Event for the words.
struct Note {
  std::string kind;
  std::optional<JobId> job;
  std::string text;
};

using Effect = std::variant<Accepted, Refused, Save, Start, Signal, Note>;
using Effects = std::vector<Effect>;

// ---- What can be asked of it ----

struct ClientStatus {
  const JobRecord* record = nullptr;
  Usage usage;
  int processes = 0;
};

class Scheduler {
 public:
  // `next_id` is above every id that was ever given out.
  Scheduler(Config config, JobId next_id);

  Effects Step(const Instant& now, const Event& event);

  // When to step with a Tick at the latest, as Instant::awake; absent when nothing is due.
  std::optional<absl::Duration> NextDeadline() const;
  // Until the next sample, counted from the newest.
  absl::Duration SampleInterval(int subscribers) const;

  // A pending or active job; null when there is none. Valid until the next Step().
  const JobRecord* Find(JobId id) const;
  Usage UsageOf(JobId id) const;
  bool IsPending(JobId id) const { return pending_.count(id) > 0; }
  // Of a pending job; empty for any other.
  std::vector<Blocker> BlockersOf(const Instant& now, JobId id) const;
  // The place in the queue of each, from 1; 0 for one that does not wait. One walk for all.
  std::vector<std::int64_t> QueuePositions(const std::vector<JobId>& ids) const;
  std::vector<ClientStatus> Clients() const;  // ascending by id
  std::optional<JobId> FirstPending() const;
  int pending() const { return static_cast<int>(pending_.size()); }
  int active() const { return static_cast<int>(clients_.size()); }
  Bytes Reserved() const;
  const HostSample& host() const { return host_; }
  const ChargeLedger& ledger() const { return ledger_; }

 private:
  struct Pending {
    JobRecord record;
    std::optional<absl::Duration> give_up;  // Instant::awake
  };
  struct Stop {
    std::optional<absl::Duration> kill_at;  // Instant::awake; absent until SIGTERM was sent
    bool killed = false;
    bool host_level = false;  // chosen for low memory of the whole machine
    std::optional<Bytes> swap_at_start;
    Bytes charge;                           // with which it was stopped
  };
  struct Client {
    JobRecord record;
    Usage usage;
    int processes = 0;
    LowLevel low_level;
    bool warned = false;
    std::optional<Stop> stop;
    std::optional<Outcome> outcome;  // of a root that ended before the rest of its tree
  };
  // Higher priority first, then arrival.
  using QueueKey = std::pair<int, JobId>;

  void On(const Instant& now, const Submit& event, Effects& effects);
  void On(const Instant& now, const Restored& event, Effects& effects);
  void On(const Instant& now, const SampleTaken& event, Effects& effects);
  void On(const Instant& now, const Started& event, Effects& effects);
  void On(const Instant& now, const StartFailed& event, Effects& effects);
  void On(const Instant& now, const Exited& event, Effects& effects);
  void On(const Instant& now, const CancelAsked& event, Effects& effects);
  void On(const Instant& now, const ClientGone& event, Effects& effects);
  void On(const Instant& now, const NodeFailed& event, Effects& effects);
  void On(const Instant& now, const NotSaved& event, Effects& effects);
  void On(const Instant& now, const Tick& event, Effects& effects);

  // Admission.
  void AddPending(JobRecord record, std::optional<absl::Duration> give_up);
  JobRecord TakePending(JobId id);
  void Admit(const Instant& now, Effects& effects);
  void GiveUpWaiting(const Instant& now, Effects& effects);
  Room RoomAt(const Instant& now) const;

  // Stopping.
  void CheckBudgets(const Instant& now, Effects& effects);
  void CheckLowLevel(const Instant& now, absl::Duration elapsed, Effects& effects);
  bool MayTakeHostVictim(const Instant& now) const;
  void StopClient(const Instant& now, Client& client, Reason reason, std::string text,
                  Effects& effects);
  void SendTerm(const Instant& now, Client& client, Effects& effects);
  void CheckEscalation(const Instant& now, Effects& effects);
  void Kill(const Instant& now, Client& client, const std::string& why, Effects& effects);

  // Ends.
  void EndClient(const Instant& now, JobId id, const Outcome& outcome, Effects& effects);
  void EndPending(const Instant& now, JobId id, JobState state, Reason reason, std::string text,
                  Effects& effects);
  void Finish(const Instant& now, JobRecord record, Effects& effects) const;

  Config config_;
  JobId next_id_;
  std::map<JobId, Pending> pending_;
  std::set<QueueKey> queue_;
  std::set<std::pair<absl::Duration, JobId>> give_ups_;
  std::map<JobId, Client> clients_;
  ChargeLedger ledger_;

  HostSample host_;                 // the newest plausible one
  std::optional<Instant> sampled_;  // when it was taken
  Bytes swap_change_;               // from the sample before to it
  absl::Duration since_sample_before_ = absl::InfiniteDuration();
  absl::Duration interval_ = kIntervalAtStart;
  std::optional<absl::Duration> host_victim_gone_;  // Instant::awake when the last one had ended

  static constexpr absl::Duration kIntervalAtStart = absl::Milliseconds(500);
};

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_SCHEDULER_H_
