// Plays engine::Engine around the real core, in its order: the core is stepped once for each
// letter, all that must last is committed at once, and only then is anything else carried out. It
// can crash at any point of a round and come back.
//
// Threading: one owner.
#ifndef STAGELOAD_TESTS_SIM_DAEMON_H_
#define STAGELOAD_TESTS_SIM_DAEMON_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/scheduler.h"
#include "tests/sim/digest.h"
#include "tests/sim/disk.h"
#include "tests/sim/invariants.h"
#include "tests/sim/plan.h"
#include "tests/sim/random.h"
#include "tests/sim/record.h"
#include "tests/sim/world.h"

namespace stageload::sim {

// What lies in a job's folder; it survives the daemon and the machine.
struct Folder {
  std::optional<core::ProcessIdentity> shim;  // that once held the lock
  std::string boot_id;                        // in which it did
  std::optional<core::Outcome> result;
  int starts = 0;  // of the command
};

// Whoever asked for something, and whose processes these are. Requests are known by an index that
// the daemon hands on and does not understand.
class Users {
 public:
  virtual ~Users() = default;
  virtual const core::Submit& SubmitOf(int request) = 0;
  virtual std::shared_ptr<const Program> ProgramOf(int request) = 0;
  virtual Folder& FolderOf(int request) = 0;

  virtual void Accepted(int request, core::JobId id) = 0;
  virtual void Refused(int request) = 0;
  virtual void GuardMayStart(int request) = 0;
  // A guard came back whose job has ended, or was never on disk.
  virtual void GuardUnknown(int request) = 0;
  virtual void StopRequested(int request) = 0;
  virtual void LeaseQueued(int request, core::LeaseId lease) = 0;
  virtual void LeaseGranted(int request, core::LeaseId lease) = 0;
  // Absent: it was refused at once.
  virtual void LeaseDenied(int request, std::optional<core::LeaseId> lease) = 0;
};

class Daemon {
 public:
  struct Parts {  // not owned
    World* world;
    Disk* disk;
    Users* users;
    Invariants* invariants;
    Counters* counters;
    Digest* digest;
    Record* record;
    StoreTrip* trip;  // null: what was committed comes back without one
  };
  Daemon(const Plan& plan, Parts parts, Random random)
      : plan_(plan), parts_(parts), random_(random), config_(plan.config) {}

  // ---- Its life ----
  bool up() const { return core_.has_value(); }
  void Start();
  // What is in its config file from here on; one that runs is told.
  void Reconfigure(const core::Config& config);
  void Round();
  // World::time() of the next round.
  absl::Duration WakeAt() const;
  void StallUntil(absl::Duration time) { stalled_until_ = time; }
  // Crashes after so many more steps, commits or effects.
  void CrashIn(int points) { points_left_ = points; }
  void CrashNow();
  bool crashed() const { return crashed_; }
  Faults faults;  // those of its own readings and starts; the driver turns them off

  // ---- Letters; lost while it is down ----
  bool Post(std::function<void()> letter);
  void Feed(const core::Event& event);
  void Submit(int request);
  void Acquire(int request, core::Acquire event);
  // A root has ended, as the kernel tells.
  void RootExited(int request);
  // A guard tells how its command ended.
  void ReportExit(int request, const core::Outcome& outcome);
  void Update(core::JobId id, const core::Policy& policy);
  // The guard of a daemon before goes on with this one.
  void ResumeGuard(int request);
  // The stream of a guard or a session is gone.
  void StreamGone(int request);

  std::optional<core::JobId> IdOf(int request) const;
  const core::Scheduler& core() const { return *core_; }
  const std::map<core::JobId, int>& requests() const { return request_of_; }

 private:
  struct Guarded {
    int callers = 0;
    std::optional<absl::Duration> resume_by;  // World::time()
    std::optional<absl::Duration> report_by;  // likewise
  };
  enum class Point { kStep, kBeforeCommit, kAfterCommit, kAmongEffects };

  void Pass(Point point);
  void Take(core::Effect effect);
  void CommitAndCarryOut();
  absl::Status Commit(const std::vector<core::Effect>& effects);
  void AnswerResuming();
  void CarryOutUnsaved(const std::vector<core::Effect>& effects);
  void CarryOut(const core::Effect& effect);
  void Guards();
  void CheckWhoRuns();

  void SampleIfDue();
  void TakeSample();
  void LookForBusyPrograms(core::Sample& sample);
  void Spoil(core::Sample& sample);
  core::ClientUsage UsageOf(core::JobId id);
  void SampleSoon();

  void Restore();
  std::vector<store::ProfileRow> ReadProfiles();
  std::vector<core::JobRecord> ReadRows();
  void Adopt(const core::JobRecord& record);
  void AwaitReturn(const core::ProcessIdentity& root);
  void Returned(const core::ProcessIdentity& root);
  void AdoptJob(const core::JobRecord& record);
  void AdoptGuard(const core::JobRecord& record);
  absl::Duration ReportBy(const core::JobRecord& record, const Guarded& guarded) const;
  void StartJob(core::JobId id);
  void Attach(core::JobId id, const core::ProcessIdentity& root);
  void JobEnded(core::JobId id);
  void RootEnded(core::JobId id, const core::Outcome& outcome);
  bool StillThere(const core::ProcessIdentity& identity) const;
  void LookAtTree();
  std::vector<core::ProcessIdentity> MembersOf(core::JobId id) const;
  void SignalTree(const core::Signal& signal);
  int SignalMembers(const core::Signal& signal, Signal number);
  std::optional<core::JobId> IdOfOwner(int owner) const;
  std::vector<core::EndedParent> EndedParents(const std::vector<core::JobId>& after) const;
  int RequestOf(core::JobId id) const { return request_of_.at(id); }

  const Plan& plan_;
  Parts parts_;
  Random random_;
  core::Config config_;

  // What a crash takes.
  std::optional<core::Scheduler> core_;
  std::vector<std::function<void()>> mail_;
  std::map<std::uint64_t, int> submissions_;  // by token
  std::map<std::uint64_t, int> acquiring_;    // likewise
  std::map<core::LeaseId, int> leases_;
  std::uint64_t next_token_ = 1;
  std::set<core::JobId> attached_;
  std::set<core::JobId> ended_here_;       // and all that hangs on it was carried out
  std::set<core::ProcessIdentity> known_;  // members that left their session
  std::map<core::JobId, Guarded> guarded_;
  std::set<core::JobId> resuming_;  // guards that wait to be told how their job stands
  // As in Engine::Impl: programs of the daemon before, and those of them that were being stopped.
  std::map<core::ProcessIdentity, absl::Duration> returning_;  // Instant::awake
  std::set<core::ProcessIdentity> stopping_before_;
  std::vector<core::Effect> effects_;
  std::vector<core::Effect> held_back_;
  std::vector<store::ProfileRow> learned_;
  std::map<std::string, std::string> settings_;
  std::map<core::JobId, core::JobRecord> unsaved_;
  absl::Duration next_sample_;     // World::time()
  absl::Duration next_busy_look_;  // likewise
  absl::Duration stalled_until_;
  absl::Duration jitter_;

  bool crashed_ = false;
  int points_left_ = -1;
  // Whose row it is, from its first commit on: the spec that is stored with it.
  std::map<core::JobId, int> request_of_;
};

}  // namespace stageload::sim

#endif  // STAGELOAD_TESTS_SIM_DAEMON_H_
