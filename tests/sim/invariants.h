// What must hold after every step, whatever happened (DESIGN.md 5.6). Kept from books of its own:
// what was fed to the core, what came out, and what was done to processes. The core's private sums
// are asked for only where they are themselves what is checked.
//
// Threading: one owner.
#ifndef STAGELOAD_TESTS_SIM_INVARIANTS_H_
#define STAGELOAD_TESTS_SIM_INVARIANTS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/instant.h"
#include "daemon/core/effects.h"
#include "daemon/core/events.h"
#include "daemon/core/scheduler.h"

namespace stageload::sim {

// Which of the invariants is broken. The first eight have the numbers of DESIGN.md 5.6.
enum class Rule {
  kReserve = 1,    // no admission leaves less than the reserve
  kOneEnd = 2,     // an accepted job ends in exactly one state; none is lost or runs twice
  kBypass = 3,     // nobody is passed for memory more often than allowed, or by whom it may not be
  kSignals = 4,    // only who opted in, only who is still the same
  kCharges = 5,    // charges and changes of swap add up
  kFresh = 6,      // nothing is admitted on a stale sample or while waking
  kProgress = 7,   // what is feasible is admitted in the end
  kOneVictim = 8,  // one host-level victim at a time
  kBlockers = 9,   // nothing starts that is blocked for another reason
  kStops = 10,     // every stop has its reason, its words, its time, and comes when it must
  kAnswers = 11,   // one answer for each question; no effect for what is not there
  kStored = 12,    // what was committed comes back as it was
};
const char* Name(Rule rule);

struct Violation {
  Rule rule = Rule::kReserve;
  std::string text;
};

// What a run went through. A counter that stays 0 over thousands of seeds means that the simulator
// does not reach what it counts.
enum class Count {
  kSteps,
  kSamples,
  kSubmits,
  kRefused,
  kStarts,
  kStartsDeclared,
  kStartsAuto,
  kGuardStarts,
  kGuardResumes,
  kSessions,
  kBypasses,
  kLeasesQueued,
  kLeasesGranted,
  kLeasesForced,
  kLeasesDenied,
  kLeasesTakenUp,
  kLeasesTakenUpStopping,
  kStopSwapBudget,
  kStopSwapLimit,
  kStopLowMemory,
  kStopCancelled,
  kStopTimeLimit,
  kStopAsked,
  kSuspendedBudget,
  kSuspendedAsked,
  kResumed,
  kWarned,
  kWouldStop,
  kKills,
  kEarlyKills,
  kStuck,
  kSignalRefused,
  kNoRoom,
  kDependencyNever,
  kStartFailed,
  kNodeFail,
  kUnknownEnd,
  kCompleted,
  kFailed,
  kImplausible,
  kGaps,
  kLearned,
  kRestored,
  kNotSaved,
  kCrashes,
  kCrashesBeforeCommit,
  kCrashesAfterCommit,
  kCrashesAmongEffects,
  kReboots,
  kCommitFailures,
  kSleeps,
  kStalls,
  kWallSteps,
  kPidsReused,
  kStoppedByIdentity,
  kDrains,
  kConfigs,
  kQueueHolds,
  kRequeued,
  kUpdated,
  kStoreTrips,
  kBlockedLevel,
  kBlockedPressure,
  kBlockedSwapLimit,
  kBlockedMemory,
  kBlockedStale,
  kBlockedWaking,
  kBlockedSwapping,
  kBlockedSettling,
  kBlockedRecovering,
  kBlockedBusy,
  kBlockedGroup,
  kBlockedDependency,
  kBlockedHeld,
  kBlockedNotBefore,
  kBlockedDraining,
  kBlockedQueueHeld,
  kBlockedOrder,
  kCounts
};
const char* Name(Count count);

class Counters {
 public:
  std::int64_t& operator[](Count count) { return counts_[static_cast<std::size_t>(count)]; }
  std::int64_t operator[](Count count) const { return counts_[static_cast<std::size_t>(count)]; }
  void Add(const Counters& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  }

 private:
  std::array<std::int64_t, static_cast<std::size_t>(Count::kCounts)> counts_{};
};

class Invariants {
 public:
  Invariants(const core::Config& config, Counters& counters)
      : config_(config), counters_(counters) {}

  // A daemon starts with this.
  void Configured(const core::Config& config) { config_ = config; }

  // Around each step of the core. `time` is the simulator's own clock (World::time()).
  void Before(absl::Duration time, const Instant& now, const core::Event& event);
  void After(const core::Event& event, const core::Effects& effects, const core::Scheduler& core);

  // All that was saved so far is on disk.
  void Committed();
  // A new daemon begins, in boot number `boot`; what was not committed never was.
  void Restarted(int boot);
  // All rows were fed: who was on disk is there again.
  void AfterRestore(const core::Scheduler& core);
  void MachineSlept(absl::Duration awake) {
    woke_at_ = slept_at_ = awake;
    noticed_at_.reset();
  }
  void CommandStarted(core::JobId id, int times);
  // A signal has reached a process. `owner_id` is whose it is; absent for one that nobody manages.
  void Signalled(const core::Signal& signal, std::optional<core::JobId> owner_id);
  void StoreGave(const core::JobRecord& stored, const core::JobRecord& read);

  void Break(Rule rule, std::string text);
  const std::optional<Violation>& violation() const { return violation_; }

  // For the driver's own use: how things stand according to the books.
  bool IsLive(core::JobId id) const;
  std::optional<core::JobState> StateOnDisk(core::JobId id) const;
  std::size_t live() const { return pending_.size() + active_.size(); }

 private:
  // All that is known of one client, from its submit on.
  struct Own {
    core::JobRecord row;               // as last saved
    std::vector<core::JobId> parents;  // as it was submitted; the row drops those that completed
    bool gone = false;                 // its first row was not saved
    bool attached = false;             // its process is known to this daemon
    bool due = false;
    int boot = 1;  // in which its row was last saved
    int passed = 0;
    std::optional<absl::Duration> last_busy;  // Instant::awake of the last match
    // By World::time().
    absl::Duration started;
    absl::Duration suspended_for;
    std::optional<absl::Duration> suspended_at;
    std::optional<absl::Duration> terminated;
    bool killed = false;
    bool warned = false;
    bool had_company = false;  // was ever not the only client
    bool was_read = false;     // a footprint, ever
    bool stuck = false;
    bool deaf = false;
    bool would_stop = false;
    std::optional<Bytes> swap_at_stop;
    std::optional<Bytes> expected;
    core::Usage usage;
    Bytes charge;
    bool alone = true;  // the only client since its start, with nothing missing in between
    std::optional<Bytes> swap_at_start;
    std::optional<absl::Duration> low_since;  // Instant::awake, below its kill_free without a break
    int low_samples = 0;                      // below it, in all
    absl::Duration low_for;                   // likewise; what calm took back is not subtracted
    std::set<core::LeaseId> leases;
  };
  struct OwnDemand {
    Percent wait_free;
    std::optional<Bytes> memory;
    std::optional<Bytes> swap_limit;
    Bytes swap_budget;
    std::optional<core::JobId> lease_of;
  };
  struct OwnLease {
    core::JobId client{};
    Bytes memory;
    int priority = 0;
    int passed = 0;
    bool granted = false;
    bool waits = true;  // for room; else it goes at once or not at all
    bool loaded = false;
  };

  // Books (invariants.cc). What is fed:
  template <typename T>
  void On(const T&) {}  // says nothing that the effects do not
  void On(const core::Submit& submit);
  void On(const core::Restored& restored);
  void On(const core::Acquire& acquire);
  void On(const core::SampleTaken& taken);
  void On(const core::HoldAsked& hold);
  void On(const core::ReleaseAsked& release);
  void On(const core::DrainAsked& asked);
  void On(const core::ConfigChanged& changed);
  void On(const core::QueueHeldRestored&);
  void On(const core::UpdateAsked& asked);
  void On(const core::QueueHeld& held);
  void On(const core::Started& started);
  void On(const core::SignalRefused& refused);
  void On(const core::NotSaved& lost);
  void On(const core::LeaseReleased& released);
  void On(const core::ProgramsReturning& returning);
  void TakeUsage(const core::Sample& sample);
  void TakeBusy(const core::Sample& sample);
  void TakeLevel(absl::Duration since_last, bool gap);
  void TakeSwap(std::optional<Bytes> swap_used, bool gap);
  void ResumeSwap(const core::JobRecord& row);
  // What comes out:
  void TakeEffect(const core::Effect& effect);
  void On(const core::Accepted& accepted);
  void On(const core::Refused& refused);
  void On(const core::Save& save);
  void On(const core::Learned& learned);
  void On(const core::Start& start);
  void On(const core::Signal& signal);
  void On(const core::Warned& warned);
  void On(const core::StopRequested& stop);
  void On(const core::LeaseQueued& queued);
  void On(const core::LeaseGranted& granted);
  void On(const core::LeaseDenied& denied);
  void On(const core::Note& note);
  void TakeNew(const core::JobRecord& row);
  void TakeChange(Own& own, const core::JobRecord& row);
  void Begin(Own& own, const core::JobRecord& row);
  void TakeRequeue(Own& own, const core::JobRecord& row);
  void TakeEnd(Own& own, const core::JobRecord& row);
  void Answer(std::uint64_t token);
  void MustBeLive(core::JobId id, const char* what);
  Own* Active(core::JobId id);
  Bytes Outstanding(const Own& own) const;
  Bytes Declared(const Own& own) const;
  absl::Duration RunningTime(const Own& own) const;
  void CheckAnswers();
  void CheckCounts(const core::Scheduler& core);
  void CountBlockers(const core::Scheduler& core);

  // Admission (invariants_admission.cc).
  void CheckAdmission(const Own& own, const core::JobRecord& row);
  void CheckLease(const core::LeaseGranted& granted);
  void TakeUp(const core::LeaseGranted& granted, OwnLease& lease, Own& client);
  void CheckForced(const core::LeaseGranted& granted);
  void CheckOwnReasons(const Own& own);
  void CheckNobodyIsForgotten();
  static OwnDemand DemandOf(const core::JobRecord& row);
  void BreakIf(const std::string& who, const std::optional<Violation>& found);
  std::optional<Violation> Unfresh() const;
  std::optional<Violation> Blocked(const OwnDemand& demand) const;
  std::optional<Violation> TooLarge(Bytes memory) const;
  std::optional<Violation> StillRecovering() const;
  Bytes Promised() const;
  bool NeverFits(const core::JobRecord& row) const;
  bool IsCandidate(const Own& own) const;
  bool GroupIsFull(const std::string& group) const;
  void PassBy(const Own& admitted, bool declares);
  bool IsSuspended(const OwnLease& lease) const;
  void PassByLease(const OwnLease& admitted, core::LeaseId id);

  // Stopping (invariants_stopping.cc).
  void CheckStop(const Own& own, const core::JobRecord& row);
  void CheckLowMemoryStop(const Own& own);
  void CheckVictim(const Own& victim);
  void CheckLesson(const core::Learned& learned);
  void CheckSignal(const core::Signal& signal);
  void CheckKill(const Own& own);
  void CheckSuspend(const Own& own, const core::JobRecord& row);
  void CheckEndState(const Own& own, const core::JobRecord& row);
  void CheckOverdue(const core::Scheduler& core);
  bool VictimGoes() const;
  void CheckGoesOn(const Own& own, bool victim_goes);
  void CheckBudget(const Own& own, Bytes charge);
  void CheckTimes(const Own& own);
  void CheckSums(const core::Scheduler& core);

  core::Config config_;
  Counters& counters_;
  std::optional<Violation> violation_;

  std::map<core::JobId, Own> own_;
  std::map<core::JobId, Own> disk_;
  std::set<core::JobId> dirty_;
  std::set<core::JobId> pending_;
  std::set<core::JobId> active_;
  std::map<core::LeaseId, OwnLease> leases_;
  std::map<std::uint64_t, bool> asked_;  // tokens of this daemon: whether answered
  std::optional<core::Acquire> acquiring_;
  bool taken_up_ = false;  // what it said that it holds
  std::optional<core::JobId> accepting_;
  std::optional<core::JobId> starting_;  // saved as RUNNING, its Start is to follow

  // The machine as the core was told.
  absl::Duration time_;
  Instant now_;
  int boot_ = 1;
  const core::Event* event_ = nullptr;
  const core::Scheduler* core_ = nullptr;  // after the step
  core::HostSample host_;                  // the newest, without what cannot be true
  std::optional<Instant> sampled_;
  bool sample_after_gap_ = false;
  absl::Duration interval_ = absl::Milliseconds(500);
  std::optional<absl::Duration> woke_at_;     // Instant::awake
  std::optional<absl::Duration> noticed_at_;  // of the first step after it
  std::optional<absl::Duration> slept_at_;    // likewise, also before this daemon
  std::optional<absl::Duration> newest_;      // of this daemon's steps
  struct Reading {
    absl::Duration at;
    Bytes bytes;
  };
  std::deque<Reading> swap_window_;
  std::optional<core::JobId> settling_;
  absl::Duration settling_since_;
  absl::Duration returning_until_ = -absl::InfiniteDuration();  // Instant::awake
  bool draining_ = false;
  bool queue_held_ = false;
  bool queue_held_on_disk_ = false;
  std::optional<absl::Duration> victim_gone_;  // Instant::awake

  // Of clients that ended a short time ago and held much.
  struct Ended {
    absl::Duration at;
    Bytes held;
    std::optional<Bytes> available;  // then
    std::optional<Bytes> most;       // since
  };
  std::deque<Ended> ended_;
  std::optional<absl::Duration> last_end_;  // Instant::awake, of any client

  // Swap, by our own count.
  std::optional<Bytes> baseline_;
  std::optional<absl::Duration> baseline_at_;  // Instant::awake, of one from before this daemon
  Bytes total_growth_;
  std::uint64_t steps_ = 0;
};

}  // namespace stageload::sim

#endif  // STAGELOAD_TESTS_SIM_INVARIANTS_H_
