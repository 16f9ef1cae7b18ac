// The core: all that stageload decides, as a pure state machine. Events go in (events.h), effects
// come out (effects.h). Equal inputs give equal outputs: there is no I/O, no clock, no thread and
// no unordered container in here.
//
// What it decides, and where to read on:
//   who may start          admission.h, request_queue.h; what passes by itself: recovery.h
//   who pays for swap      charge_ledger.h
//   whom to stop           stopping.h
//   how often to look      sampling.h
//   what a run may need    profile.h
// docs/admission.md tells it with an example.
//
// Threading: one owner.
#ifndef STAGELOAD_DAEMON_CORE_SCHEDULER_H_
#define STAGELOAD_DAEMON_CORE_SCHEDULER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/instant.h"
#include "daemon/core/admission.h"
#include "daemon/core/blocker.h"
#include "daemon/core/charge_ledger.h"
#include "daemon/core/effects.h"
#include "daemon/core/events.h"
#include "daemon/core/ids.h"
#include "daemon/core/job.h"
#include "daemon/core/nesting.h"
#include "daemon/core/policy.h"
#include "daemon/core/process.h"
#include "daemon/core/profile.h"
#include "daemon/core/recovery.h"
#include "daemon/core/request_queue.h"
#include "daemon/core/sample.h"
#include "daemon/core/stopping.h"

namespace stageload::core {

struct ClientStatus {
  const JobRecord* record = nullptr;
  Usage usage;
  int processes = 0;
};

// A lease that is held or waited for.
struct Lease {
  LeaseId id{};
  JobId client{};
  std::uint64_t holder = 0;  // which of its programs: one may wait while another goes on
  std::string stage;
  Bytes memory;
  Instant asked;
  absl::Time granted_time;  // while it is held
  bool granted = false;
  bool forced = false;
  int bypassed = 0;  // how often others were admitted past it
};

class Scheduler {
 public:
  // How many candidates behind one that waits for memory are looked at in one step.
  static constexpr int kLookAhead = 100;

  // `next_id` is above every id that was ever given out.
  Scheduler(Config config, JobId next_id);

  Effects Step(const Instant& now, const Event& event);

  // When to step with a Tick at the latest, as Instant::awake; absent when nothing is due.
  std::optional<absl::Duration> NextDeadline() const;
  // Until the next sample, counted from the newest.
  absl::Duration SampleInterval(int subscribers) const;
  // What to look for in other programs' command lines for the next sample.
  std::vector<std::string> BusyPatterns() const { return queue_.BusyPatterns(); }

  // A pending or active client; null when there is none. Valid until the next Step().
  const JobRecord* Find(JobId id) const;
  Usage UsageOf(JobId id) const;
  bool IsPending(JobId id) const { return queue_.Find(id) != nullptr; }
  // Of a pending client; empty for any other. Never empty for one that stays pending.
  std::vector<Blocker> BlockersOf(const Instant& now, JobId id) const;
  std::vector<Blocker> BlockersOf(const Instant& now, LeaseId id) const;
  // What one that is pending would declare if it started now: of its profile, where it says "auto".
  std::optional<Bytes> DeclaredBy(const JobRecord& record) const;
  std::vector<ClientStatus> Clients() const;  // ascending by id
  const std::map<LeaseId, Lease>& leases() const { return leases_; }
  // Those that wait, in the order in which they may go.
  std::vector<LeaseId> WaitingLeases() const;
  const RequestQueue& queue() const { return queue_; }
  std::optional<JobId> FirstPending() const;
  int pending() const { return queue_.size(); }
  int active() const { return static_cast<int>(clients_.size()); }
  Bytes Reserved() const;
  bool draining() const { return draining_; }
  // Why the whole queue is held; absent when it is not.
  const std::optional<std::string>& queue_held() const { return queue_.held(); }
  // Whether a client may get these terms; InvalidArgument and FailedPrecondition name the field.
  absl::Status CheckUpdate(const JobRecord& record, const Policy& policy) const;
  const HostSample& host() const { return host_; }
  const ChargeLedger& ledger() const { return ledger_; }
  const Profiles& profiles() const { return profiles_; }
  // How many readings were dropped because they could not be true.
  std::int64_t implausible() const { return implausible_; }
  // The machine as the next request finds it.
  const Room& room() const;

 private:
  struct Stop {
    enum class Step { kNotSent, kAsked, kTerminated, kKilled };
    Step step = Step::kNotSent;
    std::optional<absl::Duration> next_at;    // Instant::awake of the next step
    std::optional<absl::Duration> killed_at;  // the first SIGKILL
    bool host_level = false;                  // chosen for low memory of the whole machine
    std::optional<Bytes> swap_at_start;
    Bytes charge;  // with which it was stopped
  };
  struct Client {
    JobRecord record;
    Usage usage;
    int processes = 0;
    LowLevel low_level;
    bool restored = false;  // it ran under the daemon before
    bool found = false;     // its processes were, by this daemon
    bool warned = false;
    bool over_budget_told = false;  // of on_over_budget = warn
    bool would_stop = false;        // said in a dry run
    Bytes saved_charge;             // in its row
    bool stuck = false;             // cannot be signalled, or does not end
    bool deaf = false;              // none of its processes can be signalled
    std::optional<Stop> stop;
    std::optional<Outcome> outcome;      // of a root that ended before the rest of its tree
    std::string exit_text;               // what Exited said beside it
    std::optional<absl::Time> end_time;  // likewise
    std::set<LeaseId> leases;            // held
    std::set<LeaseId> wanted;            // waited for
    std::optional<Bytes> expected;       // see Reservation
  };
  // Leases go in order of their client's priority, then arrival.
  using LeaseRank = std::pair<int, LeaseId>;
  struct WaitingLease {
    LeaseRank rank;
    std::optional<absl::Duration> give_up;  // Instant::awake
    absl::Duration timeout;
  };

  void On(const Instant& now, const Submit& event, Effects& effects);
  void On(const Instant& now, const Restored& event, Effects& effects);
  void On(const Instant& now, const ProfileRestored& event, Effects& effects);
  void On(const Instant& now, const QueueHeldRestored& event, Effects& effects);
  void On(const Instant& now, const SampleTaken& event, Effects& effects);
  void On(const Instant& now, const Started& event, Effects& effects);
  void On(const Instant& now, const StartFailed& event, Effects& effects);
  void On(const Instant& now, const Exited& event, Effects& effects);
  void On(const Instant& now, const ClientGone& event, Effects& effects);
  void On(const Instant& now, const NodeFailed& event, Effects& effects);
  void On(const Instant& now, const SignalRefused& event, Effects& effects);
  void On(const Instant& now, const NotSaved& event, Effects& effects);
  void On(const Instant& now, const CancelAsked& event, Effects& effects);
  void On(const Instant& now, const HoldAsked& event, Effects& effects);
  void On(const Instant& now, const ReleaseAsked& event, Effects& effects);
  void On(const Instant& now, const SuspendAsked& event, Effects& effects);
  void On(const Instant& now, const ResumeAsked& event, Effects& effects);
  void On(const Instant& now, const DrainAsked& event, Effects& effects);
  void On(const Instant& now, const HoldQueueAsked& event, Effects& effects);
  void On(const Instant& now, const ReleaseQueueAsked& event, Effects& effects);
  void On(const Instant& now, const UpdateAsked& event, Effects& effects);
  void On(const Instant& now, const ForgetProfileAsked& event, Effects& effects);
  void On(const Instant& now, const ConfigChanged& event, Effects& effects);
  void On(const Instant& now, const Acquire& event, Effects& effects);
  void On(const Instant& now, const LeaseReleased& event, Effects& effects);
  void On(const Instant& now, const ProgramsReturning& event, Effects& effects);
  void On(const Instant& now, const Tick& event, Effects& effects);

  Client* Active(JobId id);  // null when it is not
  void Nest(JobId id, std::optional<JobId> inside);

  // Entering (scheduler.cc).
  absl::Status CheckSubmit(const Submit& event) const;
  absl::Status CheckPlace(JobKind kind) const;
  bool DropCompleted(JobRecord& record, const std::vector<EndedParent>& ended) const;
  void AddPending(const Instant& now, JobRecord record, std::optional<absl::Duration> give_up,
                  const std::vector<EndedParent>& ended, Effects& effects);
  void MarkStarted(const Instant& now, JobRecord& record) const;
  Client& AddClient(JobRecord record);
  void RestoreClient(const Instant& now, JobRecord record);
  void ReadSample(const Instant& now, bool gap, const Sample& sample, Effects& effects);
  void TakeReadings(const Instant& now, const Sample& sample, Effects& effects);
  void NoticeCompany(Effects& effects);
  void SaveCharges(Effects& effects);
  void CountWait(const Instant& now, JobId id);
  void CountWaits(const Instant& now, Effects& effects);
  void LearnPeaks(Client& client) const;

  // Admission (scheduler_admission.cc).
  void Admit(const Instant& now, Effects& effects);
  bool AdmitNext(const Instant& now, Effects& effects);
  bool AdmitInner(const Instant& now, const std::vector<LeaseId>& passed, Effects& effects);
  // `forced` says why, for one that goes though it may not fit.
  void AdmitStart(const Instant& now, JobId id, const std::optional<std::string>& forced,
                  Effects& effects);
  void Grant(const Instant& now, LeaseId id, const std::optional<std::string>& forced,
             Effects& effects);
  void TakeAsLoaded(Client& client);
  bool ForceProgress(const Instant& now, Effects& effects);
  bool EveryClientWaits() const;
  static bool IsDead(const Client& client);
  std::string WhyForced(const Instant& now, std::string_view waits) const;
  bool IsSuspended(const Lease& lease) const;
  bool CanEverFit(const Demand& demand) const;
  std::optional<LeaseId> FirstLease() const;
  const RequestQueue::Request* FirstStart() const;
  bool ForceInner(const Instant& now, Effects& effects);
  std::vector<JobId> WaitingInside() const;
  bool WaitsForInner(JobId id) const;
  bool WaitsWithAll(const Client& client) const;
  bool GiveUpWaiting(const Instant& now, Effects& effects);
  void DropLease(LeaseId id);
  void DenyWanted(Client& client, Effects& effects);
  void DenyWhatNeverFits(Effects& effects);
  void DenyLease(LeaseId id, absl::Status status, std::vector<Blocker> blockers, Effects& effects);
  Demand DemandOfStart(const JobRecord& record) const;
  Demand DemandOfLease(const Lease& lease) const;
  Bytes LeasedBy(const Client& client) const;
  std::optional<Bytes> DeclaredWith(const Client& client, Bytes within) const;
  std::optional<Bytes> DeclaredWithAll(const Client& client, Bytes more) const;
  Bytes MoreThanDeclared(const Client& client, Bytes more) const;
  std::optional<Bytes> LeastDeclaredWith(const Client& client, Bytes more) const;
  absl::Status CheckFitsWithin(const Client& client, Bytes more, const char* memory_field) const;
  Bytes FootprintInside(JobId id) const;
  Bytes UnspentSwap(const Client& client) const;
  Reservation ReservationOf(const Client& client) const;
  void Passed(const std::vector<LeaseId>& leases, const std::vector<JobId>& starts,
              Effects& effects);
  std::optional<Blocker> OrderBlocker(std::int64_t own_id, bool declares) const;

  // Stopping (scheduler_stopping.cc).
  void CheckBudgets(const Instant& now, Effects& effects);
  void Warn(const Client& client, Bytes charge, std::string text, Effects& effects);
  void OverBudgetOf(const Instant& now, Client& client, Effects& effects);
  void CheckTimeLimits(const Instant& now, Effects& effects);
  void CheckLowLevel(const Instant& now, Effects& effects);
  bool MayTakeHostVictim(const Instant& now) const;
  void StopClient(const Instant& now, Client& client, Reason reason, std::string text,
                  Effects& effects);
  void Terminate(const Instant& now, Client& client, Effects& effects);
  void CheckEscalation(const Instant& now, Effects& effects);
  void Escalate(const Instant& now, Client& client, Effects& effects);
  void Kill(const Instant& now, Client& client, const std::string& why, Effects& effects);
  void Stuck(const Instant& now, Client& client, const std::string& why, Effects& effects);
  void Suspend(const Instant& now, Client& client, Reason reason, std::string text,
               Effects& effects);
  void WouldDo(const Instant& now, Client& client, Reason reason, const std::string& text,
               Effects& effects);
  std::optional<absl::Duration> TimeLimitAt(const Client& client) const;

  // Ends (scheduler.cc).
  void EndClient(const Instant& now, JobId id, const Outcome& outcome, Effects& effects);
  JobRecord EndRecord(const Client& client, const Outcome& outcome) const;
  Client RemoveClient(const Instant& now, JobId id, Effects& effects);
  void EndPending(const Instant& now, JobId id, JobState state, Reason reason, std::string text,
                  Effects& effects);
  void Finish(const Instant& now, JobRecord record, Effects& effects);
  void CancelChildren(const Instant& now, Effects& effects);
  void Requeue(const Instant& now, JobRecord record, Effects& effects);
  void HoldQueue(const Instant& now, std::string text, Effects& effects);

  Config config_;
  JobId next_id_;
  RequestQueue queue_;
  Nesting nesting_;  // pending or active guards inside active clients
  std::map<JobId, Client> clients_;
  ChargeLedger ledger_;
  Profiles profiles_;
  std::vector<std::pair<JobId, JobState>>
      failed_parents_;  // whose children are still to be cancelled

  std::map<LeaseId, Lease> leases_;
  std::map<LeaseId, WaitingLease> waiting_leases_;
  std::set<LeaseRank> lease_queue_;
  LeaseId next_lease_{1};

  HostSample host_;                 // the newest plausible one
  std::optional<Instant> sampled_;  // when it was taken
  std::optional<Instant> newest_;   // of all steps
  Bytes swap_change_;               // from the sample before to it
  absl::Duration since_sample_before_ = absl::InfiniteDuration();
  absl::Duration interval_ = kIntervalAtStart;
  std::int64_t implausible_ = 0;
  std::string implausible_text_;                    // the last told
  std::optional<absl::Duration> host_victim_gone_;  // Instant::awake when the last one had ended

  std::optional<absl::Duration> woke_at_;  // Instant::awake
  std::optional<Room::Settling> settling_;
  Recovery recovery_;
  SwapWindow swap_window_;
  absl::Duration returning_until_ = -absl::InfiniteDuration();  // Instant::awake
  bool draining_ = false;

  mutable std::optional<Room> room_;  // until something that it holds changes

  static constexpr absl::Duration kIntervalAtStart = absl::Milliseconds(500);
};

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_SCHEDULER_H_
