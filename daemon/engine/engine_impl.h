// The engine's inside. Its parts are in files of their own:
//   engine.cc            the loop, and the public face that makes letters of calls
//   engine_calls.cc      what callers ask
//   engine_sampling.cc   reading the machine
//   engine_sessions.cc   programs that registered themselves, and their leases
//   engine_recordings.cc what programs report, and reading single processes
//   engine_processes.cc  starting jobs, finding them again, signalling, their ends
//
// Threading: the engine's thread, but for Ask(), Tell(), RequestStop(), NewWatchToken() and
// PressureHinted().
#ifndef STAGELOAD_DAEMON_ENGINE_ENGINE_IMPL_H_
#define STAGELOAD_DAEMON_ENGINE_ENGINE_IMPL_H_

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/core/scheduler.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/mailbox.h"
#include "daemon/engine/process_tree.h"
#include "daemon/engine/watchers.h"

namespace stageload::engine {

using core::JobId;

absl::Status ShuttingDown();

class Engine::Impl {
 public:
  Impl(Options options, Parts parts) : options_(std::move(options)), parts_(parts) {}

  absl::Status Restore();
  absl::Status TellRecovery();
  void EndThoseWithoutCommand();
  void Run();
  void RequestStop() {
    stop_ = true;
    mailbox_.Wake();
  }

  // Posts `work`; it gets `done` to answer through. Turned away, `done` hears that we shut down.
  template <typename Done, typename Work>
  void Ask(Done done, Work work) {
    mailbox_.Post([this, done = std::move(done), work = std::move(work)](bool open) mutable {
      if (!open) return done(ShuttingDown());
      busy_ = true;
      work(std::move(done));
    });
  }
  void Tell(absl::AnyInvocable<void()> work) {
    mailbox_.Post([work = std::move(work)](bool open) mutable {
      if (open) work();
    });
  }

  // The public calls, on the engine's thread.
  void Submit(SubmitRequest request, OnJob done);
  void Guard(GuardRequest request, OnJob done);
  void ResumeGuard(JobId id, std::int32_t pid, OnJob done);
  void Get(JobId id, OnJob done);
  void List(store::ListQuery query, OnPage done);
  void Control(JobId id, Request request, OnJob done);
  void Retry(RetryRequest request, OnJob done);
  void Delete(JobId id, OnJob done);
  void ListQueue(store::ListQuery query, QueuePlace after, OnPage done);
  void GetSome(const std::vector<JobId>& ids,
               absl::AnyInvocable<void(absl::StatusOr<std::vector<JobView>>)> done);
  void ListEvents(store::EventQuery query, OnEvents done);
  void Update(JobId id, const Change& change, OnJob done);
  void Reconfigure(core::Config config, absl::Duration keep_history);
  void HoldQueue(std::string why, OnDone done);
  void ReleaseQueue(OnDone done);
  void ListProfiles(const std::string& name,
                    absl::AnyInvocable<void(absl::StatusOr<std::vector<ProfileView>>)> done);
  void DeleteProfile(const std::string& name, OnDone done);
  void WatchAll(WatchToken token, OnChanges on_changes);
  void UnwatchAll(WatchToken token) { watch_all_.erase(token); }
  void WithdrawGuard(JobId id);
  void ReportExit(JobId id, core::Outcome outcome, OnJob done);
  void Watch(WatchToken token, JobId id, OnChange on_change);
  void Unwatch(WatchToken token) { watchers_.Remove(token); }
  void ProcessExited(const core::ProcessIdentity& identity);
  void Register(WatchToken token, RegisterRequest request, OnSession on_event);
  void Enroll(WatchToken token, RegisterRequest request);
  bool IsBeingRegistered(std::int32_t pid) const;
  void Unregister(WatchToken token);
  void Acquire(WatchToken token, AcquireRequest request, OnLease on_lease);
  void Abandon(WatchToken token);
  void Release(const ReleaseRequest& request, OnDone done);
  void GiveBack(core::LeaseId id);
  absl::StatusOr<Reported> Report(const ReportRequest& request);
  void Record(WatchToken token, RecordRequest request, OnUpdate on_update);
  void StopRecording(WatchToken token) { recordings_.erase(token); }

  void PressureHinted();
  void Note(const core::Note& note);  // announces it, and keeps it in the store
  void Keep(const core::Note& note);

  void SetExitWatcher(jobs::ExitWatcher* watcher) { exit_watcher_ = watcher; }
  WatchToken NewWatchToken() { return next_watch_token_++; }

 private:
  // After something ended or started, the next sample comes this soon: what it changed decides who
  // is admitted next.
  static constexpr absl::Duration kSoon = absl::Milliseconds(20);

  struct Submission {
    std::optional<core::JobSpec> spec;
    std::vector<OnJob> done;  // more than one when it was sent again before the first was on disk
    std::string request_id;
  };
  // A guarded command that was admitted or waits.
  struct Guarded {
    int callers = 0;                          // streams of its guard
    std::optional<absl::Duration> resume_by;  // Instant::awake; for the guard of an earlier daemon
    std::optional<absl::Duration> report_by;  // likewise; set when its process has ended
  };
  // A registration.
  struct Session {
    std::optional<JobId> client;  // once it is on disk
    core::ProcessIdentity root;
    // The root of the client that it brings, while that is not on disk yet.
    std::optional<core::ProcessIdentity> being_saved;
    bool joined = false;
    Caller caller;
    OnSession on_event;
    bool suspended = false;                       // as it was told
    std::map<core::LeaseId, std::string> leases;  // held or waited for; their request ids
  };
  // A client of the daemon before that was a session.
  struct Returning {
    std::string name;
    core::Policy policy;
    bool may_signal = false;
    bool stopping = false;  // and to be stopped by this daemon, too, once it has come back
    absl::Duration until;   // when it is waited for no longer (Instant::awake)
  };
  using ReturningByRoot = std::map<core::ProcessIdentity, Returning>;
  // A lease that is asked for and not granted yet.
  struct Acquisition {
    WatchToken session = 0;
    std::optional<core::LeaseId> lease;  // once the core has said so
    std::string request_id;
    OnLease on_lease;
    ToldBlockers told;
  };
  // What a client says of itself.
  struct Said {
    std::map<std::string, double> gauges;
    std::string stage;
  };
  struct Recording {
    core::ProcessIdentity root;
    ProcessTree tree{::getpid()};  // its own, since one may be inside another
    absl::Duration interval;
    absl::Duration next;  // Instant::awake
    OnUpdate on_update;
    std::vector<telemetry::Event> events;  // to tell
  };

  // One round.
  absl::Duration UntilNextWork() const;
  void Round(std::vector<Mailbox::Letter> letters);
  void Feed(const core::Event& event);
  std::vector<core::EndedParent> EndedParents(const std::vector<JobId>& after);
  void Take(core::Effect effect);
  void CommitAndCarryOut();
  absl::Status Commit(const std::vector<core::Effect>& effects);
  void CarryOutUnsaved(std::vector<core::Effect>& effects, const absl::Status& status);
  void Answer(std::uint64_t token, absl::StatusOr<JobView> answer);
  void CarryOut(core::Effect& effect);
  void TellWatchers(const std::set<JobId>& changed);
  void AnswerTurnedAway();
  void LeaveIfIdle(const Instant& now);
  bool AnsweredBefore(const std::string& request_id, OnJob& done);
  absl::Status CheckState(const core::JobRecord& record, Request request) const;
  void AnswerWhenSaved(JobId id, OnJob done);
  void AnswerWhenSaved(OnDone done);
  void AfterEnd(const core::JobRecord& record);
  JobPage PageInQueueOrder(const store::ListQuery& query, QueuePlace after);
  void AddUnsavedEnds(const store::ListQuery& query, std::vector<core::JobRecord>& rows) const;
  absl::Status AddEnded(const store::ListQuery& query, QueuePlace after, JobPage& page);
  void EndedOrNotFound(JobId id, OnJob done);
  void ForgetOld(const Instant& now);

  // Sampling.
  void SampleIfDue(const Instant& now);
  void TakeSample(const Instant& now);
  void LookForBusyPrograms(const Instant& now, const std::vector<std::string>& patterns,
                           const std::vector<host::Process>& table, core::Sample& sample);
  std::set<std::int32_t> CallersOfGuards(const std::vector<host::Process>& table) const;
  core::ClientUsage UsageOf(JobId id);
  core::Usage UsageOf(const std::vector<core::ProcessIdentity>& members);
  absl::StatusOr<std::vector<host::Process>> UpdateTree();
  void PublishFrame();
  void SampleSoon() { next_sample_ = std::min(next_sample_, Now().awake + kSoon); }

  // Sessions.
  static bool IsForSessions(const core::Effect& effect);
  void CarryOutForSessions(const core::Effect& effect);
  void Accept(WatchToken token, const absl::StatusOr<JobView>& job);
  void Join(WatchToken token, JobId client);
  void TellRegistered(Session& session);
  void AwaitReturn(const core::JobRecord& record);
  ReturningByRoot::const_iterator ClientBefore(std::int32_t pid) const;
  void Returned(const core::ProcessIdentity& root);
  void TellSessions(const std::set<JobId>& changed);
  void TellPressure();
  void TellWaitingLeases();
  void EndSessionsOf(JobId client);
  void TurnSessionsAway();
  void ForSessionsOf(JobId client, const std::function<void(Session&)>& tell);
  absl::StatusOr<WatchToken> SessionOf(JobId client, const Caller& caller);
  bool PassOn(JobId client);
  bool PassOnFrom(JobId client, const core::ProcessIdentity& ended);
  std::optional<Bytes> FreshFootprint(JobId client);
  std::optional<core::LeaseId> HeldAs(const AcquireRequest& request) const;
  absl::Status CheckUnused(const AcquireRequest& request) const;
  void AcquireRefused(std::uint64_t token, const absl::Status& status);
  void LeaseIsQueued(const core::LeaseQueued& queued);
  void LeaseIsGranted(const core::LeaseGranted& granted);
  void LeaseIsDenied(const core::LeaseDenied& denied);
  void AnswerAcquisition(WatchToken token, absl::StatusOr<LeaseEvent> answer);
  std::optional<WatchToken> AcquisitionOf(core::LeaseId id) const;
  void TellWaiting(Acquisition& acquisition, std::vector<core::Blocker> blockers);
  void ForgetLease(core::LeaseId id);
  std::optional<WatchToken> HolderOf(core::LeaseId id) const;

  // Reports and recordings.
  std::vector<core::ProcessIdentity> WithAncestors(std::int32_t pid) const;
  std::optional<JobId> ClientAround(std::int32_t pid);
  void TakeMark(const telemetry::Mark& mark, std::optional<JobId> client,
                const std::vector<core::ProcessIdentity>& from, Reported& reported);
  bool IsRecordingDue(absl::Duration now) const;
  void ReadRecordings(const Instant& now, const core::HostSample& host,
                      const std::vector<host::Process>& table);
  RecordingUpdate ReadRecording(Recording& recording, const Instant& now,
                                const core::HostSample& host);
  void TellRecordingsOf(JobId client, const telemetry::Event& event);
  void SendEvents(Recording& recording);
  void SendEventsOfRecordings();

  // Frames.
  void FillClients(telemetry::Frame& frame);
  void FillWaiting(telemetry::Frame& frame);

  // Processes.
  void StartJob(JobId id);
  void HinderStart(JobId id, const absl::Status& why);
  void StartLater(JobId id, const absl::Status& why, bool for_ever);
  void StartDelayed(const Instant& now);
  void NoticeUnwritten(const Instant& now, const core::ClientUsage& usage);
  void Adopt(const core::JobRecord& record);
  void AdoptJob(const core::JobRecord& record);
  void AdoptGuard(const core::JobRecord& record);
  absl::Duration ReportBy(const core::JobRecord& record, const Guarded& guarded) const;
  void Attach(JobId id, const core::ProcessIdentity& root, ProcessTree::Root kind,
              std::optional<JobId> inside = std::nullopt);
  void SignalTree(const core::Signal& signal);
  std::size_t SignalMembers(const std::vector<core::ProcessIdentity>& members, int number);
  bool StillThere(const core::ProcessIdentity& identity) const;
  void JobEnded(JobId id);
  void SessionEnded(JobId id);
  void GuardEnded(JobId id, const core::Outcome& outcome);
  void RootEnded(JobId id, const core::Outcome& outcome, std::string unseen);
  bool AttachOrphan(JobId id, const jobs::Found& found);
  std::string LeftBehind(JobId id);
  std::optional<std::int32_t> PidOf(const core::JobRecord& record);
  void GuardsThatSaidNothing(const Instant& now);

  Instant Now() const { return parts_.host->Clock(); }
  void SetTerms(Terms terms, core::Submit& event);
  void Enqueue(const core::Submit& event, std::optional<core::JobSpec> spec, OnJob done);
  const core::JobRecord* InMemory(JobId id) const;
  absl::StatusOr<JobView> View(JobId id);
  JobView ViewOf(core::JobRecord record);
  void Announce(const core::Note& note);
  Readings ReadingsFor(std::optional<JobId> client) const;
  void LogFirstWaiting();

  Options options_;
  Parts parts_;
  jobs::ExitWatcher* exit_watcher_ = nullptr;
  Mailbox mailbox_;
  std::atomic<bool> stop_ = false;
  std::atomic<WatchToken> next_watch_token_ = 1;
  std::atomic<bool> hinted_ = false;  // and its letter is not read yet

  std::optional<core::Scheduler> core_;
  ProcessTree tree_{::getpid()};
  Watchers watchers_;
  std::map<WatchToken, OnChanges> watch_all_;
  std::map<WatchToken, Session> sessions_;
  // Until the process around theirs is a client or is none.
  std::vector<std::pair<WatchToken, RegisterRequest>> waiting_registrations_;
  std::map<WatchToken, Acquisition> acquisitions_;
  std::map<std::uint64_t, WatchToken> acquiring_;  // by the core's token
  std::map<JobId, Said> said_;
  ReturningByRoot returning_;
  std::map<WatchToken, Recording> recordings_;
  std::optional<core::Pressure> pressure_;  // as sessions were told
  std::map<JobId, Guarded> guarded_;
  std::map<JobId, std::int32_t> commands_;       // pids of jobs' commands, once asked for
  std::map<JobId, int> starts_;                  // after the first, of jobs whose shim ran nothing
  std::map<JobId, absl::Duration> delayed_;      // by the disk, until this Instant::awake
  std::map<JobId, absl::Duration> empty_since_;  // jobs whose shim has nothing to look after
  std::map<JobId, std::string> hindered_;        // what the disk keeps a job from, for who looks
  std::uint64_t next_submit_token_ = 1;
  std::map<std::uint64_t, Submission> submissions_;
  std::map<std::string, std::uint64_t> requests_;  // request ids of submissions, by token
  absl::Duration next_forget_;                     // Instant::awake

  // Of the round in hand.
  std::vector<core::Effect> effects_;
  // Gets how the commit went.
  std::vector<absl::AnyInvocable<void(const absl::Status&)>> after_commit_;
  std::set<JobId> changed_;
  // Their rows are new. What happened to them is told once these are on disk, and else never did.
  std::set<JobId> added_;
  std::vector<core::Note> notes_of_added_;
  store::Batch batch_;
  // Rows whose write failed, to be tried again; nothing that hangs on them is carried out before.
  std::map<JobId, core::JobRecord> unsaved_;
  std::vector<core::Effect> held_back_;
  std::string store_error_;

  absl::Duration next_sample_;                            // Instant::awake
  absl::Duration published_ = -absl::InfiniteDuration();  // the newest frame's
  absl::Duration last_read_;                              // likewise; also of one that failed
  absl::Duration next_busy_look_;                         // likewise
  std::string sample_error_;
  std::pair<JobId, std::vector<core::BlockerKind>> first_waits_;  // as it was logged
  bool sampled_ = false;                                          // in this round
  Instant sample_time_;
  std::vector<telemetry::Event> events_;  // since the last frame
  absl::Duration last_busy_;
  bool busy_ = false;
};

}  // namespace stageload::engine

#endif  // STAGELOAD_DAEMON_ENGINE_ENGINE_IMPL_H_
