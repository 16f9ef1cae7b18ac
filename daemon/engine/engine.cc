#include "daemon/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_reason.h"
#include "daemon/core/scheduler.h"
#include "daemon/engine/busy_programs.h"
#include "daemon/engine/mailbox.h"
#include "daemon/engine/process_tree.h"
#include "daemon/engine/rows_from_folders.h"
#include "daemon/engine/watchers.h"

namespace stageload::engine {
namespace {

using core::JobId;

// After something ended or started, the next sample comes this soon: what it changed decides who is
// admitted next.
constexpr absl::Duration kSoon = absl::Milliseconds(20);
// How long a guard may take to say how its command ended, before that counts as unseen.
constexpr absl::Duration kReportWithin = absl::Seconds(2);
// How long the guard of a daemon that has gone is waited for. It tries as long itself.
constexpr absl::Duration kResumeWithin = absl::Seconds(10);
// How often a tree is read again and signalled while SIGKILL finds new members.
constexpr int kKillRounds = 5;
// How often a job is started again whose shim ended before it ran anything.
constexpr int kMaxStarts = 3;
// A shim stays no longer than this after the last process of its job, unless the disk keeps it.
constexpr absl::Duration kResultWithin = absl::Seconds(5);
constexpr absl::Duration kStartAgain = absl::Seconds(1);
constexpr absl::Duration kBusyInterval = absl::Milliseconds(900);
// Old history goes in small parts, so that nobody waits for it.
constexpr absl::Duration kForgetInterval = absl::Minutes(1);
constexpr int kForgetAtOnce = 100;

// Of what an ended job left running, so many are named.
constexpr int kLeftShown = 3;

absl::Status ShuttingDown() {
  return WithReason(absl::UnavailableError("the daemon is shutting down; try again"),
                    kShuttingDown);
}

absl::Status NotFound(JobId id) {
  return WithReason(absl::NotFoundError(absl::StrCat("there is no job ", core::Value(id))),
                    kJobNotFound);
}

absl::Status WrongState(const core::JobRecord& record, const std::string& needs) {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat("job ", core::Value(record.id), " is ",
                                                 core::Name(record.state), "; ", needs)),
      kWrongState);
}

absl::Status Ended(const core::JobRecord& record) {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat("job ", core::Value(record.id),
                                                 " has ended already: ", core::Name(record.state))),
      kJobEnded);
}

int NumberOf(core::Signal::Kind kind) {
  switch (kind) {
    case core::Signal::Kind::kTerminate:
      return SIGTERM;
    case core::Signal::Kind::kKill:
      return SIGKILL;
    case core::Signal::Kind::kSuspend:
      return SIGSTOP;
    case core::Signal::Kind::kContinue:
      return SIGCONT;
  }
  return SIGTERM;
}

// The setting under which the store keeps why the queue is held.
constexpr char kQueueHeld[] = "queue_held";

// Why nobody saw how a job ended.
std::string Unseen(const jobs::Found& found) {
  return absl::StrCat("its shim",
                      found.shim ? absl::StrCat(" (process ", found.shim->pid, ")") : std::string(),
                      " was killed, so nobody saw how its command ended");
}

// "submitted" and "refused" come by the thousand and say nothing that the rows do not.
bool IsKept(const core::Note& note) { return note.kind != "submitted" && note.kind != "refused"; }

}  // namespace

class Engine::Impl {
 public:
  Impl(Options options, Parts parts) : options_(std::move(options)), parts_(parts) {}

  absl::Status Restore();
  absl::Status TellRecovery();
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
  void Retry(JobId id, std::optional<Bytes> memory, std::vector<JobId> after, OnJob done);
  void Delete(JobId id, OnJob done);
  void ListQueue(store::ListQuery query, QueuePlace after, OnPage done);
  void GetSome(const std::vector<JobId>& ids,
               absl::AnyInvocable<void(absl::StatusOr<std::vector<JobView>>)> done);
  void Update(JobId id, const Change& change, OnJob done);
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

  void SetExitWatcher(jobs::ExitWatcher* watcher) { exit_watcher_ = watcher; }
  WatchToken NewWatchToken() { return next_watch_token_++; }

 private:
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
  absl::StatusOr<std::vector<host::Process>> UpdateTree();
  void PublishFrame();
  void SampleSoon() { next_sample_ = std::min(next_sample_, Now().awake + kSoon); }

  // Processes.
  void StartJob(JobId id);
  void StartLater(JobId id, const absl::Status& why, bool for_ever);
  void StartDelayed(const Instant& now);
  void NoticeUnwritten(const Instant& now, const core::ClientUsage& usage);
  void Adopt(const core::JobRecord& record);
  void AdoptJob(const core::JobRecord& record);
  void AdoptGuard(const core::JobRecord& record);
  absl::Duration ReportBy(const core::JobRecord& record, const Guarded& guarded) const;
  void Attach(JobId id, const core::ProcessIdentity& root, ProcessTree::Root kind);
  void SignalTree(const core::Signal& signal);
  std::size_t SignalMembers(const std::vector<core::ProcessIdentity>& members, int number);
  bool StillThere(const core::ProcessIdentity& identity) const;
  void JobEnded(JobId id);
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
  void Note(const core::Note& note);

  Options options_;
  Parts parts_;
  jobs::ExitWatcher* exit_watcher_ = nullptr;
  Mailbox mailbox_;
  std::atomic<bool> stop_ = false;
  std::atomic<WatchToken> next_watch_token_ = 1;

  std::optional<core::Scheduler> core_;
  ProcessTree tree_;
  Watchers watchers_;
  std::map<WatchToken, OnChanges> watch_all_;
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
  store::Batch batch_;
  // Rows whose write failed, to be tried again; nothing that hangs on them is carried out before.
  std::map<JobId, core::JobRecord> unsaved_;
  std::vector<core::Effect> held_back_;
  std::string store_error_;

  absl::Duration next_sample_;     // Instant::awake
  absl::Duration next_busy_look_;  // likewise
  std::string sample_error_;
  bool sampled_ = false;  // in this round
  Instant sample_time_;
  std::vector<telemetry::Event> events_;  // since the last frame
  absl::Duration last_busy_;
  bool busy_ = false;
};

// ---- The loop ----

absl::Status Engine::Impl::Restore() {
  if (absl::Status status = TellRecovery(); !status.ok()) return status;
  const absl::StatusOr<JobId> next_id = parts_.store->NextId();
  if (!next_id.ok()) return next_id.status();
  const absl::StatusOr<std::vector<core::JobRecord>> rows = parts_.store->Unended();
  if (!rows.ok()) return rows.status();
  core_.emplace(options_.config, *next_id);
  next_sample_ = Now().awake;
  last_busy_ = Now().awake;
  const absl::StatusOr<std::string> held = parts_.store->Setting(kQueueHeld);
  if (!held.ok()) return held.status();
  if (!held->empty()) Feed(core::QueueHeldRestored{*held});
  const absl::StatusOr<std::vector<store::ProfileRow>> profiles = parts_.store->Profiles();
  if (!profiles.ok()) return profiles.status();
  for (const store::ProfileRow& row : *profiles) Feed(core::ProfileRestored{row.profile, row.run});
  for (const core::JobRecord& row : *rows) {
    Feed(core::Restored{row, EndedParents(row.after)});
  }
  for (const core::JobRecord& row : *rows) Adopt(row);
  SampleIfDue(Now());
  CommitAndCarryOut();
  return absl::OkStatus();
}

// Once after a damaged store was left behind: jobs whose rows are lost get new ones.
absl::Status Engine::Impl::TellRecovery() {
  const absl::StatusOr<std::string> recovery = parts_.store->Setting(store::kRecovery);
  if (!recovery.ok() || recovery->empty()) return recovery.status();
  store::Batch batch = RowsFromFolders(*parts_.jobs, *parts_.store, *parts_.host);
  batch.settings[store::kRecovery] = "";
  Note({"store_damaged", std::nullopt, *recovery});
  for (const store::EventRow& event : batch.events) Note({event.kind, event.job, event.text});
  return parts_.store->Commit(batch);
}

void Engine::Impl::Run() {
  while (!stop_) Round(mailbox_.Wait(UntilNextWork()));
  for (Mailbox::Letter& letter : mailbox_.Close()) letter(false);
  (void)Commit(
      {});  // rows of the last round; failing, the next start finds the same in the folders
  AnswerTurnedAway();
}

absl::Duration Engine::Impl::UntilNextWork() const {
  absl::Duration at = next_sample_;
  if (const auto deadline = core_->NextDeadline()) at = std::min(at, *deadline);
  for (const auto& [id, guarded] : guarded_) {
    if (guarded.report_by) at = std::min(at, *guarded.report_by);
    if (guarded.resume_by) at = std::min(at, *guarded.resume_by);
  }
  for (const auto& [id, again] : delayed_) at = std::min(at, again);
  if (!effects_.empty()) return absl::ZeroDuration();
  return std::max(absl::ZeroDuration(), at - Now().awake);
}

void Engine::Impl::Round(std::vector<Mailbox::Letter> letters) {
  busy_ = false;
  for (Mailbox::Letter& letter : letters) letter(true);
  const Instant now = Now();
  GuardsThatSaidNothing(now);
  StartDelayed(now);
  if (const auto deadline = core_->NextDeadline(); deadline && *deadline <= now.awake) {
    Feed(core::Tick{});
  }
  SampleIfDue(now);
  CommitAndCarryOut();
  ForgetOld(now);
  LeaveIfIdle(now);
}

void Engine::Impl::Feed(const core::Event& event) {
  for (core::Effect& effect : core_->Step(Now(), event)) Take(std::move(effect));
}

// How those ended that the core no longer knows; it knows the others itself.
std::vector<core::EndedParent> Engine::Impl::EndedParents(const std::vector<JobId>& after) {
  std::vector<core::EndedParent> ended;
  for (const JobId id : after) {
    if (core_->Find(id) != nullptr) continue;
    const core::JobRecord* unsaved = InMemory(id);
    const absl::StatusOr<core::JobRecord> row =
        unsaved == nullptr ? parts_.store->Get(id) : *unsaved;
    ended.push_back({id, row.ok() ? std::optional(row->state) : std::nullopt});
  }
  return ended;
}

// Sorts an effect into the batch; what it asks to do waits for the commit.
void Engine::Impl::Take(core::Effect effect) {
  if (const auto* save = std::get_if<core::Save>(&effect)) {
    const JobId id = save->record.id;
    changed_.insert(id);
    if (!save->added) unsaved_[id] = save->record;
  }
  if (const auto* learned = std::get_if<core::Learned>(&effect)) {
    batch_.learned.push_back({learned->profile, learned->run});
    return;
  }
  if (const auto* forgotten = std::get_if<core::Forgotten>(&effect)) {
    batch_.forgotten.push_back(forgotten->profile);
    return;
  }
  if (const auto* held = std::get_if<core::QueueHeld>(&effect)) {
    batch_.settings[kQueueHeld] = held->text.value_or("");
    return;
  }
  if (const auto* note = std::get_if<core::Note>(&effect)) {
    Note(*note);
    if (IsKept(*note)) batch_.events.push_back({Now().wall, note->job, note->kind, note->text});
    return;
  }
  effects_.push_back(std::move(effect));
}

void Engine::Impl::CommitAndCarryOut() {
  // What is decided from here on belongs to the next round.
  std::vector<core::Effect> effects = std::exchange(effects_, {});
  const std::set<JobId> changed = std::exchange(changed_, {});
  const absl::Status status = Commit(effects);
  if (status.ok()) {
    for (core::Effect& effect : std::exchange(held_back_, {})) CarryOut(effect);
    for (core::Effect& effect : effects) CarryOut(effect);
    TellWatchers(changed);
  } else {
    CarryOutUnsaved(effects, status);
    // An end that is not written yet is true all the same: the next daemon would find it too. A
    // start is not: a guard that hears of it runs its command.
    std::set<JobId> ended;
    for (const JobId id : changed) {
      const auto row = unsaved_.find(id);
      if (row != unsaved_.end() && core::IsEnd(row->second.state)) ended.insert(id);
    }
    TellWatchers(ended);
    changed_.insert(changed.begin(), changed.end());
  }
  for (auto& work : std::exchange(after_commit_, {})) work(status);
  if (sampled_) PublishFrame();
}

absl::Status Engine::Impl::Commit(const std::vector<core::Effect>& effects) {
  for (std::size_t i = 0; i + 1 < effects.size(); ++i) {
    const auto* save = std::get_if<core::Save>(&effects[i]);
    if (save == nullptr || !save->added) continue;
    // The core says Accepted right after the first Save of a row.
    const auto& accepted = std::get<core::Accepted>(effects[i + 1]);
    batch_.added.push_back({save->record, std::move(submissions_.at(accepted.token).spec)});
  }
  for (const auto& [id, record] : unsaved_) batch_.changed.push_back(record);
  if (batch_.empty() && store_error_.empty()) return absl::OkStatus();

  const absl::Status status = parts_.store->Commit(batch_);
  const store::Batch failed = std::exchange(batch_, {});
  if (status.ok()) {
    if (!store_error_.empty()) Note({"store_works", std::nullopt, "the store is written again"});
    store_error_.clear();
    unsaved_.clear();
    return status;
  }
  batch_.learned = failed.learned;
  batch_.forgotten = failed.forgotten;
  batch_.settings = failed.settings;
  if (store_error_ != status.message()) {
    store_error_ = std::string(status.message());
    Note({"store_failed", std::nullopt, store_error_});
  }
  return status;
}

// The batch is not on disk. New requests were never accepted; stops are carried out all the same,
// since a full disk must not keep swap growing; starts and what follows an end wait until their
// rows are written.
void Engine::Impl::CarryOutUnsaved(std::vector<core::Effect>& effects, const absl::Status& status) {
  std::set<JobId> refused;
  for (core::Effect& effect : effects) {
    if (const auto* accepted = std::get_if<core::Accepted>(&effect)) {
      refused.insert(accepted->id);
      unsaved_.erase(accepted->id);
      Feed(core::NotSaved{accepted->id});
      Note({"refused", accepted->id, std::string(status.message())});
      Answer(accepted->token, status);
    } else if (std::holds_alternative<core::Refused>(effect) ||
               std::holds_alternative<core::Signal>(effect)) {
      CarryOut(effect);
    } else if (const auto* start = std::get_if<core::Start>(&effect);
               start != nullptr && refused.count(start->id) == 0) {
      held_back_.push_back(effect);
    } else if (const auto* save = std::get_if<core::Save>(&effect);
               save != nullptr && core::IsEnd(save->record.state)) {
      held_back_.push_back(effect);
    }
  }
}

void Engine::Impl::Answer(std::uint64_t token, absl::StatusOr<JobView> answer) {
  auto submission = submissions_.extract(token);
  if (submission.empty()) return;
  requests_.erase(submission.mapped().request_id);
  for (OnJob& done : submission.mapped().done) done(answer);
}

void Engine::Impl::CarryOut(core::Effect& effect) {
  if (auto* accepted = std::get_if<core::Accepted>(&effect)) {
    Answer(accepted->token, View(accepted->id));
  } else if (auto* refused = std::get_if<core::Refused>(&effect)) {
    Answer(refused->token, refused->status);
  } else if (auto* start = std::get_if<core::Start>(&effect)) {
    if (start->kind == core::JobKind::kJob) StartJob(start->id);
    SampleSoon();
  } else if (auto* signal = std::get_if<core::Signal>(&effect)) {
    SignalTree(*signal);
  } else if (auto* save = std::get_if<core::Save>(&effect)) {
    if (core::IsEnd(save->record.state)) AfterEnd(save->record);
  }
}

// What follows an end that is on disk.
void Engine::Impl::AfterEnd(const core::JobRecord& record) {
  tree_.Remove(record.id);
  guarded_.erase(record.id);
  starts_.erase(record.id);
  commands_.erase(record.id);
  delayed_.erase(record.id);
  hindered_.erase(record.id);
  empty_since_.erase(record.id);
  if (record.kind == core::JobKind::kJob) {
    (void)parts_.jobs->DropSpec(record.id);  // only tidies; a job that never ran has none
  }
  if (options_.on_end) options_.on_end(record);
  SampleSoon();
}

void Engine::Impl::TellWatchers(const std::set<JobId>& changed) {
  for (const JobId id : changed) {
    if (watchers_.Watches(id)) watchers_.Tell(id, View(id), Now().awake);
  }
  if (!changed.empty()) {
    for (const auto& [token, on_changes] : watch_all_) {
      on_changes(std::vector<JobId>(changed.begin(), changed.end()));
    }
  }
  if (!sampled_) return;
  for (const JobId id : watchers_.Ids()) {
    if (!core_->IsPending(id)) continue;
    if (watchers_.IsNews(id, core_->BlockersOf(Now(), id), Now().awake)) {
      watchers_.Tell(id, View(id), Now().awake);
    }
  }
}

void Engine::Impl::AnswerTurnedAway() {
  for (auto& [token, submission] : std::exchange(submissions_, {})) {
    for (OnJob& done : submission.done) done(ShuttingDown());
  }
  after_commit_.clear();
  watchers_.EndAll(ShuttingDown());
  for (const auto& [token, on_changes] : std::exchange(watch_all_, {})) on_changes(ShuttingDown());
}

void Engine::Impl::LeaveIfIdle(const Instant& now) {
  if (busy_ || core_->pending() > 0 || core_->active() > 0 || parts_.hub->subscribers() > 0) {
    last_busy_ = now.awake;
  }
  if (!options_.idle_exit || now.awake - last_busy_ < *options_.idle_exit) return;
  options_.idle_exit.reset();
  if (options_.on_idle) options_.on_idle();
}

// ---- Sampling ----

void Engine::Impl::SampleIfDue(const Instant& now) {
  sampled_ = false;
  const bool due = now.awake >= next_sample_;
  if (due) TakeSample(now);
  // Also when none was due: what happened since may ask for an earlier one, such as a request that
  // ends the idle pace.
  const absl::Duration next = now.awake + core_->SampleInterval(parts_.hub->subscribers());
  next_sample_ = due ? next : std::min(next_sample_, next);
}

void Engine::Impl::TakeSample(const Instant& now) {
  absl::StatusOr<core::HostSample> host = parts_.host->Sample();
  if (!host.ok()) {
    if (sample_error_ == host.status().message()) return;
    sample_error_ = std::string(host.status().message());
    return Note({"sample_failed", std::nullopt, sample_error_});
  }
  core::Sample sample;
  sample.host = *std::move(host);
  const std::vector<std::string> patterns = core_->BusyPatterns();
  const bool look = !patterns.empty() && now.awake >= next_busy_look_;
  if (!tree_.empty() || look) {
    if (const auto table = UpdateTree(); table.ok()) {
      for (const core::ClientStatus& client : core_->Clients()) {
        if (!client.record->root) continue;
        sample.clients.push_back(UsageOf(client.record->id));
        if (client.record->kind == core::JobKind::kJob) NoticeUnwritten(now, sample.clients.back());
      }
      if (look) LookForBusyPrograms(now, patterns, *table, sample);
    }
  }
  sample_error_.clear();
  sample_time_ = now;
  sampled_ = true;
  Feed(core::SampleTaken{std::move(sample)});
}

// The ancestors of guarded commands: the shell that runs "stageload guard --busy X" has X in its
// own command line.
std::set<std::int32_t> Engine::Impl::CallersOfGuards(
    const std::vector<host::Process>& table) const {
  std::map<std::int32_t, std::int32_t> parents;
  for (const host::Process& process : table) parents[process.identity.pid] = process.parent;
  std::set<std::int32_t> callers;
  for (const auto& [id, guarded] : guarded_) {
    const core::JobRecord* record = core_->Find(id);
    if (record == nullptr || !record->root) continue;
    for (auto entry = parents.find(record->root->pid); entry != parents.end();
         entry = parents.find(entry->second)) {
      if (entry->second <= 1 || !callers.insert(entry->second).second) break;
    }
  }
  return callers;
}

// Reads every command line, so not with each fast sample.
void Engine::Impl::LookForBusyPrograms(const Instant& now, const std::vector<std::string>& patterns,
                                       const std::vector<host::Process>& table,
                                       core::Sample& sample) {
  next_busy_look_ = now.awake + kBusyInterval;
  const std::set<std::int32_t> callers = CallersOfGuards(table);
  sample.busy = LookForBusy(patterns, table, *parts_.host, [&](const core::ProcessIdentity& p) {
    return tree_.Contains(p) || callers.count(p.pid) > 0;
  });
}

// The process table, which the trees have taken in.
absl::StatusOr<std::vector<host::Process>> Engine::Impl::UpdateTree() {
  absl::StatusOr<std::vector<host::Process>> table = parts_.host->Processes();
  if (table.ok()) tree_.Update(*table);
  return table;
}

core::ClientUsage Engine::Impl::UsageOf(JobId id) {
  core::ClientUsage client;
  client.id = id;
  const std::vector<core::ProcessIdentity> members = tree_.MembersOf(id);
  client.processes = static_cast<int>(members.size());
  for (const core::ProcessIdentity& member : members) {
    const absl::StatusOr<core::Usage> usage = parts_.host->Usage(member);
    if (!usage.ok()) continue;  // ended since the table was read
    if (usage->footprint) {
      client.usage.footprint = client.usage.footprint.value_or(Bytes(0)) + *usage->footprint;
    }
    if (usage->swapped) {
      client.usage.swapped = client.usage.swapped.value_or(Bytes(0)) + *usage->swapped;
    }
  }
  return client;
}

void Engine::Impl::PublishFrame() {
  telemetry::Frame frame;
  frame.time = sample_time_;
  frame.interval = core_->SampleInterval(parts_.hub->subscribers());
  frame.host = core_->host();
  for (const core::ClientStatus& client : core_->Clients()) {
    const core::JobRecord& record = *client.record;
    frame.clients.push_back({record.id, record.name, record.state, client.usage, record.charge,
                             record.policy.swap_budget, record.policy.memory, client.processes});
  }
  frame.pending = core_->pending();
  frame.active = core_->active();
  if (const auto first = core_->FirstPending()) frame.blockers = core_->BlockersOf(Now(), *first);
  frame.events = std::exchange(events_, {});
  frame.reserved = core_->Reserved();
  parts_.hub->Publish(std::move(frame));
  sampled_ = false;
}

void Engine::Impl::Note(const core::Note& note) {
  telemetry::Event event{note.kind, note.job, note.text, Now().wall};
  if (options_.on_event) options_.on_event(event);
  events_.push_back(std::move(event));
}

// ---- Processes ----

bool Engine::Impl::StillThere(const core::ProcessIdentity& identity) const {
  const absl::StatusOr<host::Process> process = parts_.host->Find(identity.pid);
  return process.ok() && core::IsStill(identity, process->identity);
}

void Engine::Impl::StartJob(JobId id) {
  const core::JobRecord* record = core_->Find(id);
  if (record == nullptr || !core::IsActive(record->state)) return;
  if (record->state == core::JobState::kStopping) {
    return Feed(core::StartFailed{id, "it was stopped before it was started"});
  }
  absl::StatusOr<core::JobSpec> spec = parts_.store->Spec(id);
  if (!spec.ok() && !absl::IsNotFound(spec.status())) return StartLater(id, spec.status(), false);
  if (!spec.ok()) {
    return Feed(core::StartFailed{
        id, absl::StrCat("read what to run: ", std::string(spec.status().message()))});
  }
  spec->environment = core::WholeEnvironment(*spec);
  spec->variables.clear();
  const absl::StatusOr<pid_t> pid = parts_.jobs->Start(id, *spec);
  if (absl::IsAlreadyExists(pid.status())) return AdoptJob(core::JobRecord(*record));
  if (!pid.ok()) return StartLater(id, pid.status(), absl::IsResourceExhausted(pid.status()));
  // The shim is our child and not reaped yet, so its pid is its own even if it has ended.
  const absl::StatusOr<host::Process> shim = parts_.host->Find(*pid);
  if (!shim.ok()) return JobEnded(id);
  Attach(id, shim->identity, ProcessTree::Root::kShim);
}

// A disk that is full does not cost a job its start; one that fails has some more tries.
void Engine::Impl::StartLater(JobId id, const absl::Status& why, bool for_ever) {
  const int tries = ++starts_[id];
  if (!for_ever && tries > kMaxStarts) {
    return Feed(core::StartFailed{id, std::string(why.message())});
  }
  hindered_[id] = absl::StrCat("not started yet: ", why.message(), "; it is tried again");
  if (tries == 1) Note({"start_delayed", id, hindered_[id]});
  delayed_[id] = Now().awake + kStartAgain;
}

void Engine::Impl::StartDelayed(const Instant& now) {
  for (auto delayed = delayed_.begin(); delayed != delayed_.end();) {
    if (delayed->second > now.awake) {
      ++delayed;
      continue;
    }
    effects_.push_back(core::Start{delayed->first, core::JobKind::kJob});
    delayed = delayed_.erase(delayed);
  }
}

void Engine::Impl::NoticeUnwritten(const Instant& now, const core::ClientUsage& usage) {
  const JobId id = usage.id;
  if (usage.processes > 0) {
    empty_since_.erase(id);
    return;
  }
  const auto since = empty_since_.emplace(id, now.awake).first;
  if (now.awake - since->second < kResultWithin || hindered_.count(id) > 0) return;
  hindered_[id] = absl::StrCat("its command has ended, and how could not be written to ",
                               parts_.jobs->FolderOf(id),
                               " yet; it is tried again: free space on its disk, or see what the "
                               "system's log says of it");
  Note({"result_delayed", id, hindered_[id]});
}

void Engine::Impl::Attach(JobId id, const core::ProcessIdentity& root, ProcessTree::Root kind) {
  tree_.Add(id, root, kind);
  hindered_.erase(id);
  Feed(core::Started{id, root, parts_.host->BootId()});
  const absl::Status watched = exit_watcher_->Watch(
      root, [this](const core::ProcessIdentity& identity) { return StillThere(identity); });
  if (!watched.ok()) ProcessExited(root);
}

void Engine::Impl::Adopt(const core::JobRecord& record) {
  // Its registration lived as long as its stream, and that ended with the daemon before; what we
  // suspended of it must go on.
  if (record.kind == core::JobKind::kSession) {
    if (record.root && record.boot_id == parts_.host->BootId()) {
      tree_.Add(record.id, *record.root, ProcessTree::Root::kMember);
    }
    return Feed(core::ClientGone{record.id});
  }
  const bool guard = record.kind == core::JobKind::kGuard;
  if (record.state == core::JobState::kPending && guard) AdoptGuard(record);
  if (!core::IsActive(record.state)) return;
  if (!record.boot_id.empty() && record.boot_id != parts_.host->BootId()) {
    // How it ended may have been written down before the machine went down.
    const absl::StatusOr<jobs::Found> found = parts_.jobs->Inspect(record.id);
    if (!guard && found.ok() && found->state == jobs::Found::State::kEnded) {
      return Feed(core::Exited{record.id, found->result.outcome, 0});
    }
    return Feed(core::NodeFailed{record.id});
  }
  if (guard) {
    AdoptGuard(record);
  } else {
    AdoptJob(record);
  }
}

// Its stream ended with the daemon before, and its guard may come back. What is held back ends with
// its guard, so while it is there it keeps its place.
void Engine::Impl::AdoptGuard(const core::JobRecord& record) {
  Guarded& guarded = guarded_[record.id];
  guarded.resume_by = Now().awake + kResumeWithin;
  const bool there =
      record.root && record.boot_id == parts_.host->BootId() && StillThere(*record.root);
  if (there) return Attach(record.id, *record.root, ProcessTree::Root::kMember);
  if (core_->IsPending(record.id)) return Feed(core::ClientGone{record.id});
  guarded.report_by = ReportBy(record, guarded);
}

// Until when its guard may say how it ended. How one ends that we stopped is known.
absl::Duration Engine::Impl::ReportBy(const core::JobRecord& record, const Guarded& guarded) const {
  const absl::Duration now = Now().awake;
  if (guarded.callers > 0) return now + kReportWithin;
  if (record.state == core::JobState::kStopping) return now;
  return guarded.resume_by.value_or(now);
}

void Engine::Impl::AdoptJob(const core::JobRecord& record) {
  const absl::StatusOr<jobs::Found> found = parts_.jobs->Inspect(record.id);
  if (absl::IsDataLoss(found.status())) return Feed(core::Exited{record.id, core::Outcome{}, 0});
  if (!found.ok()) return StartLater(record.id, found.status(), true);
  switch (found->state) {
    case jobs::Found::State::kNeverStarted:
      effects_.push_back(core::Start{record.id, core::JobKind::kJob});
      return;
    case jobs::Found::State::kEnded:
      // What it left is looked at, and stopped if it was being stopped, as if its shim ended now.
      if (found->shim && !found->left.empty()) {
        return Attach(record.id, *found->shim, ProcessTree::Root::kOrphan);
      }
      return Feed(core::Exited{record.id, found->result.outcome, 0});
    case jobs::Found::State::kRunning:
      if (found->shim) return Attach(record.id, *found->shim, ProcessTree::Root::kShim);
      // One of the daemon before: it has the lock and has not written itself down yet. It will end,
      // since nobody tells it to go.
      return StartLater(record.id, absl::UnavailableError("a shim is about to take its lock"),
                        true);
    case jobs::Found::State::kLost:
      // It was started, and the daemon saw nothing of it before the machine went down.
      if (found->earlier_boot) return Feed(core::NodeFailed{record.id});
      if (AttachOrphan(record.id, *found)) return;
      return Feed(core::Exited{record.id, core::Outcome{}, 0, Unseen(*found)});
  }
}

// Its shim was killed and the command lives on: it is the root from now on. False when it is gone.
bool Engine::Impl::AttachOrphan(JobId id, const jobs::Found& found) {
  if (!found.command) return false;
  const absl::StatusOr<host::Process> process = parts_.host->Find(found.command->pid);
  if (!process.ok() || process->state == 'Z' || !core::IsStill(*found.command, process->identity)) {
    return false;
  }
  Take(
      core::Note{"shim_lost", id,
                 absl::StrCat("its shim was killed; the command, process ", found.command->pid,
                              ", is watched on, but nobody will see its exit code or its output")});
  Attach(id, *found.command, ProcessTree::Root::kOrphan);
  return true;
}

// What is left of a job that ended by itself, for people; empty when nothing is.
std::string Engine::Impl::LeftBehind(JobId id) {
  std::vector<std::string> shown;
  int count = 0;
  for (const core::ProcessIdentity& member : tree_.MembersOf(id)) {
    const absl::StatusOr<host::Process> process = parts_.host->Find(member.pid);
    if (!process.ok() || process->identity != member || process->state == 'Z') continue;
    if (++count > kLeftShown) continue;
    const absl::StatusOr<std::string> line = parts_.host->CommandLine(member);
    shown.push_back(absl::StrCat(member.pid, " ", line.ok() ? line->substr(0, 60) : ""));
  }
  if (count == 0) return "";
  return absl::StrCat("left ", count, count == 1 ? " process" : " processes",
                      " running, no longer watched: ", absl::StrJoin(shown, ", "),
                      count > kLeftShown ? ", ..." : "");
}

void Engine::Impl::SignalTree(const core::Signal& signal) {
  using Kind = core::Signal::Kind;
  // What runs on may fork while its tree is walked.
  const bool again = signal.kind == Kind::kKill || signal.kind == Kind::kSuspend;
  for (int round = 0; round < (again ? kKillRounds : 1); ++round) {
    if (!UpdateTree().ok()) return;
    const std::vector<core::ProcessIdentity> members = tree_.MembersOf(signal.id);
    if (members.empty()) return;
    const std::size_t refused = SignalMembers(members, NumberOf(signal.kind));
    // A stopped process takes SIGTERM only once it goes on.
    if (signal.kind == Kind::kTerminate) SignalMembers(members, SIGCONT);
    if (refused == 0) continue;
    const std::string text =
        absl::StrCat(refused, " of ", members.size(), " processes may not be signalled");
    if (refused == members.size()) return Feed(core::SignalRefused{signal.id, text});
    return Note({"signal_refused", signal.id, text});
  }
}

// Returns how many refused it.
std::size_t Engine::Impl::SignalMembers(const std::vector<core::ProcessIdentity>& members,
                                        int number) {
  std::size_t refused = 0;
  for (const core::ProcessIdentity& member : members) {
    const absl::Status sent = jobs::SendSignal(
        member, number,
        [this](const core::ProcessIdentity& identity) { return StillThere(identity); });
    if (!sent.ok() && !absl::IsNotFound(sent)) ++refused;
  }
  return refused;
}

void Engine::Impl::ProcessExited(const core::ProcessIdentity& identity) {
  const std::optional<JobId> id = tree_.ClientOfRoot(identity);
  if (!id) return;
  const core::JobRecord* record = core_->Find(*id);
  if (record == nullptr) return;
  if (record->kind == core::JobKind::kJob) return JobEnded(*id);
  if (core_->IsPending(*id)) return Feed(core::ClientGone{*id});
  Guarded& guarded = guarded_[*id];
  guarded.report_by = ReportBy(*record, guarded);
}

void Engine::Impl::JobEnded(JobId id) {
  const absl::StatusOr<jobs::Found> found = parts_.jobs->Inspect(id);
  if (found.ok() && found->state == jobs::Found::State::kNeverStarted) {
    // A daemon died between its shim's two words; the shim then runs nothing. So it is started now,
    // but not for ever: a shim may have another reason to end like that.
    if (++starts_[id] <= kMaxStarts) {
      effects_.push_back(core::Start{id, core::JobKind::kJob});
      return;
    }
    return Feed(core::StartFailed{id, "the shim ended each time before it ran the command"});
  }
  if (!found.ok()) return RootEnded(id, core::Outcome{}, std::string(found.status().message()));
  tree_.AddMembers(id, found->left);
  if (found->state == jobs::Found::State::kEnded) return RootEnded(id, found->result.outcome, "");
  if (!AttachOrphan(id, *found)) RootEnded(id, core::Outcome{}, Unseen(*found));
}

void Engine::Impl::GuardEnded(JobId id, const core::Outcome& outcome) {
  if (const auto guarded = guarded_.find(id); guarded != guarded_.end()) {
    guarded->second.report_by.reset();
  }
  RootEnded(id, outcome, "");
}

// `unseen` says why nobody saw the end, where nobody did.
void Engine::Impl::RootEnded(JobId id, const core::Outcome& outcome, std::string unseen) {
  (void)UpdateTree();  // what it knew stands, if the table cannot be read
  const bool seen = outcome.exit_code || outcome.signal;
  Feed(core::Exited{id, outcome, static_cast<int>(tree_.MembersOf(id).size()),
                    seen ? LeftBehind(id) : std::move(unseen)});
  SampleSoon();
}

void Engine::Impl::GuardsThatSaidNothing(const Instant& now) {
  std::vector<JobId> silent;
  std::vector<JobId> gone;
  for (auto& [id, guarded] : guarded_) {
    if (guarded.report_by && *guarded.report_by <= now.awake) silent.push_back(id);
    if (!guarded.resume_by || *guarded.resume_by > now.awake) continue;
    guarded.resume_by.reset();
    if (core_->IsPending(id)) gone.push_back(id);
  }
  for (const JobId id : silent) GuardEnded(id, core::Outcome{});
  for (const JobId id : gone) Feed(core::ClientGone{id});
}

// ---- Calls ----

// The row that is newer than the store's: the core's, or one whose write failed; null for others.
const core::JobRecord* Engine::Impl::InMemory(JobId id) const {
  if (const core::JobRecord* record = core_->Find(id)) return record;
  const auto row = unsaved_.find(id);
  return row == unsaved_.end() ? nullptr : &row->second;
}

absl::StatusOr<JobView> Engine::Impl::View(JobId id) {
  if (const core::JobRecord* record = InMemory(id)) return ViewOf(*record);
  absl::StatusOr<core::JobRecord> row = parts_.store->Get(id);
  if (absl::IsNotFound(row.status())) return NotFound(id);
  if (!row.ok()) return row.status();
  return ViewOf(*std::move(row));
}

// Of the command; the root of a job is its shim, which is nobody's business.
std::optional<std::int32_t> Engine::Impl::PidOf(const core::JobRecord& record) {
  if (!core::IsActive(record.state) || !record.root) return std::nullopt;
  if (record.kind != core::JobKind::kJob) return record.root->pid;
  const auto known = commands_.find(record.id);
  if (known != commands_.end()) return known->second;
  const absl::StatusOr<jobs::Found> found = parts_.jobs->Inspect(record.id);
  if (!found.ok() || !found->command) return std::nullopt;
  return commands_[record.id] = found->command->pid;
}

JobView Engine::Impl::ViewOf(core::JobRecord record) {
  JobView view;
  view.pid = PidOf(record);
  view.usage = core_->UsageOf(record.id);
  if (core_->IsPending(record.id)) {
    view.blockers = core_->BlockersOf(Now(), record.id);
    view.queue_position = core_->queue().PlaceOf(record.id);
  }
  const auto hindered = hindered_.find(record.id);
  view.record = std::move(record);
  if (hindered != hindered_.end() && view.record.state == core::JobState::kRunning) {
    view.record.reason_text = hindered->second;
  }
  return view;
}

void Engine::Impl::Enqueue(const core::Submit& event, std::optional<core::JobSpec> spec,
                           OnJob done) {
  Submission& submission = submissions_[event.token];
  submission.spec = std::move(spec);
  submission.done.push_back(std::move(done));
  submission.request_id = event.request_id;
  if (!event.request_id.empty()) requests_[event.request_id] = event.token;
  Feed(event);
}

void Engine::Impl::SetTerms(Terms terms, core::Submit& event) {
  event.group = std::move(terms.group);
  event.profile = std::move(terms.profile);
  event.ended_parents = EndedParents(terms.after);
  event.after = std::move(terms.after);
  event.begin_time = terms.begin_time;
  event.held = terms.held;
}

// Whether a submit with this id was sent before; then it is answered with what the first made.
bool Engine::Impl::AnsweredBefore(const std::string& request_id, OnJob& done) {
  if (request_id.empty()) return false;
  if (const auto flying = requests_.find(request_id); flying != requests_.end()) {
    submissions_.at(flying->second).done.push_back(std::move(done));
    return true;
  }
  const absl::StatusOr<JobId> made = parts_.store->FindRequest(request_id);
  if (absl::IsNotFound(made.status())) return false;
  done(made.ok() ? View(*made) : made.status());
  return true;
}

void Engine::Impl::Submit(SubmitRequest request, OnJob done) {
  if (AnsweredBefore(request.request_id, done)) return;
  core::Submit event;
  event.token = next_submit_token_++;
  event.kind = core::JobKind::kJob;
  event.name = std::move(request.name);
  event.command = core::DisplayCommand(request.spec.argv);
  event.working_directory = request.spec.working_directory;
  event.policy = request.policy;
  SetTerms(std::move(request.terms), event);
  event.request_id = request.request_id;
  event.requeue = request.requeue;
  event.notify = request.notify;
  Enqueue(event, std::move(request.spec), std::move(done));
}

void Engine::Impl::Guard(GuardRequest request, OnJob done) {
  const absl::StatusOr<host::Process> process = parts_.host->Find(request.pid);
  if (!process.ok()) {
    return done(WithReason(absl::InvalidArgumentError(
                               absl::StrCat("pid: there is no process ", request.pid, " to guard")),
                           kInvalidField, "pid"));
  }
  // Its guard asks again, not having heard of the first time.
  if (const auto id = tree_.ClientOfRoot(process->identity)) {
    return ResumeGuard(*id, request.pid, std::move(done));
  }
  core::Submit event;
  event.token = next_submit_token_++;
  event.kind = core::JobKind::kGuard;
  event.name = std::move(request.name);
  event.command = std::move(request.command);
  event.policy = request.policy;
  SetTerms(std::move(request.terms), event);
  event.root = process->identity;
  event.boot_id = parts_.host->BootId();
  OnJob watched = [this, root = process->identity,
                   done = std::move(done)](absl::StatusOr<JobView> job) mutable {
    if (job.ok()) {
      const JobId id = job->record.id;
      guarded_[id].callers = 1;
      Attach(id, root, ProcessTree::Root::kMember);
    }
    done(std::move(job));
  };
  Enqueue(event, std::nullopt, std::move(watched));
}

void Engine::Impl::ResumeGuard(JobId id, std::int32_t pid, OnJob done) {
  const absl::StatusOr<JobView> job = View(id);
  if (!job.ok()) return done(job.status());
  const core::JobRecord& record = job->record;
  if (record.kind != core::JobKind::kGuard || !record.root || record.root->pid != pid) {
    return done(WithReason(absl::InvalidArgumentError(absl::StrCat(
                               "pid: job ", core::Value(id), " does not guard process ", pid)),
                           kInvalidField, "pid"));
  }
  AnswerWhenSaved(id, [this, id, done = std::move(done)](absl::StatusOr<JobView> saved) mutable {
    const auto guarded = guarded_.find(id);
    if (saved.ok() && guarded != guarded_.end()) {
      ++guarded->second.callers;
      guarded->second.resume_by.reset();
    }
    done(std::move(saved));
  });
}

void Engine::Impl::Get(JobId id, OnJob done) {
  after_commit_.push_back([this, id, done = std::move(done)](const absl::Status&) mutable {
    absl::StatusOr<JobView> view = View(id);
    if (view.ok() && view->record.kind == core::JobKind::kJob) {
      view->folder = parts_.jobs->FolderOf(id);
      const absl::StatusOr<jobs::Found> found = parts_.jobs->Inspect(id);
      if (found.ok() && found->state == jobs::Found::State::kEnded) view->result = found->result;
    }
    done(std::move(view));
  });
}

void Engine::Impl::List(store::ListQuery query, OnPage done) {
  after_commit_.push_back(
      [this, query = std::move(query), done = std::move(done)](const absl::Status&) mutable {
        const int limit = query.limit;
        query.limit = limit + 1;  // one more tells whether there is another page
        const absl::StatusOr<std::vector<core::JobRecord>> rows = parts_.store->List(query);
        if (!rows.ok()) return done(rows.status());
        JobPage page;
        for (const core::JobRecord& row : *rows) {
          if (static_cast<int>(page.jobs.size()) == limit) {
            page.next = page.jobs.back().record.id;
            break;
          }
          const core::JobRecord* newer = InMemory(row.id);
          page.jobs.push_back(ViewOf(newer != nullptr ? *newer : row));
        }
        page.queue_held = core_->queue_held();
        done(std::move(page));
      });
}

void Engine::Impl::ListQueue(store::ListQuery query, QueuePlace after, OnPage done) {
  after_commit_.push_back(
      [this, query = std::move(query), after, done = std::move(done)](const absl::Status&) mutable {
        JobPage page = PageInQueueOrder(query, after);
        if (absl::Status status = AddEnded(query, after, page); !status.ok()) return done(status);
        page.queue_held = core_->queue_held();
        done(std::move(page));
      });
}

// What waits and what runs: all of it is in memory.
JobPage Engine::Impl::PageInQueueOrder(const store::ListQuery& query, QueuePlace after) {
  using Part = QueuePlace::Part;
  JobPage page;
  const auto full = [&] { return static_cast<int>(page.jobs.size()) == query.limit; };
  const auto add = [&](const core::JobRecord& record, Part part) {
    if (!store::Matches(query, record)) return;
    page.jobs.push_back(ViewOf(record));
    page.next_place = {part, record.policy.priority, record.id};
  };
  if (after.part == Part::kPending) {
    const core::RequestQueue& queue = core_->queue();
    const core::Rank last{after.priority, after.id};
    const bool first = after.id == JobId{};
    for (auto rank = first ? queue.ranks().begin() : queue.ranks().upper_bound(last);
         rank != queue.ranks().end() && !full(); ++rank) {
      add(queue.Find(rank->id)->record, Part::kPending);
    }
  }
  for (const core::ClientStatus& client : core_->Clients()) {
    if (full() || after.part == Part::kEnded) break;
    if (after.part == Part::kActive && client.record->id <= after.id) continue;
    add(*client.record, Part::kActive);
  }
  return page;
}

// Ends that could not be written yet: the store still has these jobs as running.
void Engine::Impl::AddUnsavedEnds(const store::ListQuery& query,
                                  std::vector<core::JobRecord>& rows) const {
  const std::size_t stored = rows.size();
  for (const auto& [id, record] : unsaved_) {
    if (!core::IsEnd(record.state) || !store::Matches(query, record)) continue;
    if (!query.before || id < *query.before) rows.push_back(record);
  }
  if (rows.size() == stored) return;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.id > b.id; });
  const auto same = [](const auto& a, const auto& b) { return a.id == b.id; };
  rows.erase(std::unique(rows.begin(), rows.end(), same), rows.end());
}

// Then what has ended, newest first.
absl::Status Engine::Impl::AddEnded(const store::ListQuery& query, QueuePlace after,
                                    JobPage& page) {
  const int room = query.limit - static_cast<int>(page.jobs.size());
  if (room == 0) return absl::OkStatus();
  page.next_place.reset();  // unless there is more
  store::ListQuery ended = query;
  ended.limit = room + 1;
  ended.before.reset();
  if (after.part == QueuePlace::Part::kEnded) ended.before = after.id;
  ended.states = store::EndStates(query.states);
  if (ended.states.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<core::JobRecord>> rows = parts_.store->List(ended);
  if (!rows.ok()) return rows.status();
  AddUnsavedEnds(ended, *rows);
  for (const core::JobRecord& row : *rows) {
    if (static_cast<int>(page.jobs.size()) == query.limit) {
      page.next_place = {QueuePlace::Part::kEnded, 0, page.jobs.back().record.id};
      break;
    }
    page.jobs.push_back(ViewOf(row));
  }
  return absl::OkStatus();
}

void Engine::Impl::GetSome(const std::vector<JobId>& ids,
                           absl::AnyInvocable<void(absl::StatusOr<std::vector<JobView>>)> done) {
  after_commit_.push_back([this, ids, done = std::move(done)](const absl::Status&) mutable {
    std::vector<JobView> views;
    for (const JobId id : ids) {
      absl::StatusOr<JobView> view = View(id);
      if (absl::IsNotFound(view.status())) continue;
      if (!view.ok()) return done(view.status());
      views.push_back(*std::move(view));
    }
    done(std::move(views));
  });
}

// With the job as it stands once what was decided about it is on disk.
void Engine::Impl::AnswerWhenSaved(JobId id, OnJob done) {
  after_commit_.push_back([this, id, done = std::move(done)](const absl::Status& status) mutable {
    status.ok() ? done(View(id)) : done(status);
  });
}

void Engine::Impl::AnswerWhenSaved(OnDone done) {
  after_commit_.push_back(
      [done = std::move(done)](const absl::Status& status) mutable { done(status); });
}

// For what needs a job that has not ended.
void Engine::Impl::EndedOrNotFound(JobId id, OnJob done) {
  const absl::StatusOr<core::JobRecord> row = parts_.store->Get(id);
  if (absl::IsNotFound(row.status())) return done(NotFound(id));
  done(row.ok() ? Ended(*row) : row.status());
}

absl::Status Engine::Impl::CheckState(const core::JobRecord& record, Request request) const {
  using State = core::JobState;
  switch (request) {
    case Request::kCancel:
      return absl::OkStatus();
    case Request::kHold:
    case Request::kRelease:
      if (record.state == State::kPending) return absl::OkStatus();
      return WrongState(record, "only a job that waits can be held or released");
    case Request::kSuspend:
      if (record.state == State::kRunning || record.state == State::kSuspended) {
        return absl::OkStatus();
      }
      return WrongState(record, "only a job that runs can be suspended");
    case Request::kResume:
      if (record.state == State::kRunning || record.state == State::kSuspended) {
        return absl::OkStatus();
      }
      return WrongState(record, "only a suspended job can be resumed");
  }
  return absl::OkStatus();
}

void Engine::Impl::Control(JobId id, Request request, OnJob done) {
  const core::JobRecord* record = core_->Find(id);
  if (record == nullptr) return EndedOrNotFound(id, std::move(done));
  if (absl::Status status = CheckState(*record, request); !status.ok()) return done(status);
  switch (request) {
    case Request::kCancel:
      Feed(core::CancelAsked{id});
      break;
    case Request::kHold:
      Feed(core::HoldAsked{id});
      break;
    case Request::kRelease:
      Feed(core::ReleaseAsked{id});
      break;
    case Request::kSuspend:
      Feed(core::SuspendAsked{id});
      break;
    case Request::kResume:
      Feed(core::ResumeAsked{id});
      break;
  }
  AnswerWhenSaved(id, std::move(done));
}

void Engine::Impl::Retry(JobId id, std::optional<Bytes> memory, std::vector<JobId> after,
                         OnJob done) {
  if (const core::JobRecord* living = core_->Find(id)) {
    return done(WrongState(*living, "only a job that has ended can be run again"));
  }
  const absl::StatusOr<core::JobRecord> row = parts_.store->Get(id);
  if (absl::IsNotFound(row.status())) return done(NotFound(id));
  if (!row.ok()) return done(row.status());
  if (row->kind != core::JobKind::kJob) {
    return done(WrongState(*row, "and a guarded command, which is run by whoever guards it"));
  }
  absl::StatusOr<core::JobSpec> spec = parts_.store->Spec(id);
  if (absl::IsNotFound(spec.status())) {
    return done(WrongState(*row, "its environment is not kept after that; submit it again"));
  }
  if (!spec.ok()) return done(spec.status());
  core::Submit event;
  event.token = next_submit_token_++;
  event.name = row->name;
  event.command = row->command;
  event.working_directory = row->working_directory;
  event.policy = row->policy;
  event.policy.memory = memory ? memory : core::MemoryForRetry(*row);
  SetTerms({row->group, row->profile, std::move(after), std::nullopt, false}, event);
  event.requeue = row->requeue;
  event.retry_of = id;
  Enqueue(event, *std::move(spec), std::move(done));
}

void Engine::Impl::Update(JobId id, const Change& change, OnJob done) {
  const core::JobRecord* record = core_->Find(id);
  if (record == nullptr) return EndedOrNotFound(id, std::move(done));
  const absl::StatusOr<core::Policy> policy = change(record->policy);
  if (!policy.ok()) return done(policy.status());
  if (absl::Status status = core_->CheckUpdate(*record, *policy); !status.ok()) return done(status);
  if (*policy != record->policy) Feed(core::UpdateAsked{id, *policy});
  AnswerWhenSaved(id, std::move(done));
}

void Engine::Impl::HoldQueue(std::string why, OnDone done) {
  Feed(core::HoldQueueAsked{why.empty() ? "by a user" : std::move(why)});
  AnswerWhenSaved(std::move(done));
}

void Engine::Impl::ReleaseQueue(OnDone done) {
  Feed(core::ReleaseQueueAsked{});
  AnswerWhenSaved(std::move(done));
}

void Engine::Impl::ListProfiles(
    const std::string& name,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<ProfileView>>)> done) {
  std::vector<ProfileView> profiles;
  for (const auto& [profile, runs] : core_->profiles().all()) {
    if (!name.empty() && profile != name) continue;
    profiles.push_back({profile, core_->profiles().Estimate(profile), {runs.begin(), runs.end()}});
  }
  done(std::move(profiles));
}

void Engine::Impl::DeleteProfile(const std::string& name, OnDone done) {
  if (core_->profiles().all().count(name) == 0) {
    return done(WithReason(absl::NotFoundError(absl::StrCat("there is no profile ", name)),
                           kProfileNotFound));
  }
  Feed(core::ForgetProfileAsked{name});
  AnswerWhenSaved(std::move(done));
}

void Engine::Impl::Delete(JobId id, OnJob done) {
  absl::StatusOr<JobView> view = View(id);
  if (!view.ok()) return done(view.status());
  if (!core::IsEnd(view->record.state)) {
    return done(WrongState(view->record, "only a job that has ended can be deleted; cancel it"));
  }
  batch_.deleted.push_back(id);
  changed_.insert(id);
  after_commit_.push_back([this, id, view = *std::move(view),
                           done = std::move(done)](const absl::Status& status) mutable {
    if (status.ok()) (void)parts_.jobs->Remove(id);  // its row is gone: nothing looks for it again
    status.ok() ? done(std::move(view)) : done(status);
  });
}

// History that is older than it is kept for.
void Engine::Impl::ForgetOld(const Instant& now) {
  if (now.awake < next_forget_) return;
  next_forget_ = now.awake + kForgetInterval;
  const absl::Time then = now.wall - options_.keep_history;
  const absl::StatusOr<std::vector<JobId>> old = parts_.store->EndedBefore(then, kForgetAtOnce);
  if (!old.ok() || !parts_.store->TrimEvents(then, kForgetAtOnce * 10).ok()) return;
  if (static_cast<int>(old->size()) == kForgetAtOnce) next_forget_ = now.awake + absl::Seconds(1);
  for (const JobId id : *old) Delete(id, [](const absl::StatusOr<JobView>&) {});
}

void Engine::Impl::WithdrawGuard(JobId id) {
  if (const auto guarded = guarded_.find(id); guarded != guarded_.end()) {
    if (--guarded->second.callers > 0) return;
    if (guarded->second.report_by) guarded->second.report_by = Now().awake;
  }
  Feed(core::ClientGone{id});
}

void Engine::Impl::ReportExit(JobId id, core::Outcome outcome, OnJob done) {
  const core::JobRecord* record = core_->Find(id);
  if (record == nullptr) return EndedOrNotFound(id, std::move(done));
  if (record->kind != core::JobKind::kGuard || core_->IsPending(id)) {
    return done(WithReason(absl::FailedPreconditionError(absl::StrCat(
                               "job ", core::Value(id), " is not a guarded command that runs")),
                           kInvalidField, "id"));
  }
  GuardEnded(id, outcome);
  AnswerWhenSaved(id, std::move(done));
}

void Engine::Impl::WatchAll(WatchToken token, OnChanges on_changes) {
  std::vector<JobId> living;
  for (const core::Rank& rank : core_->queue().ranks()) living.push_back(rank.id);
  for (const core::ClientStatus& client : core_->Clients()) living.push_back(client.record->id);
  on_changes(std::move(living));
  watch_all_[token] = std::move(on_changes);
}

void Engine::Impl::Watch(WatchToken token, JobId id, OnChange on_change) {
  after_commit_.push_back([this, token, id, on_change = std::move(on_change)](const absl::Status&) {
    watchers_.Add(token, id, on_change, View(id));
  });
}

// ---- The public face: every call becomes a letter ----

Engine::Engine(Options options, Parts parts)
    : impl_(std::make_unique<Impl>(std::move(options), parts)) {}
Engine::~Engine() = default;

absl::Status Engine::Restore() { return impl_->Restore(); }
void Engine::Run() { impl_->Run(); }
void Engine::Stop() { impl_->RequestStop(); }
void Engine::SetExitWatcher(jobs::ExitWatcher* watcher) { impl_->SetExitWatcher(watcher); }

void Engine::Submit(SubmitRequest request, OnJob done) {
  impl_->Ask(std::move(done),
             [impl = impl_.get(), request = std::move(request)](OnJob answer) mutable {
               impl->Submit(std::move(request), std::move(answer));
             });
}

void Engine::Get(core::JobId id, OnJob done) {
  impl_->Ask(std::move(done),
             [impl = impl_.get(), id](OnJob answer) { impl->Get(id, std::move(answer)); });
}

void Engine::List(store::ListQuery query, OnPage done) {
  impl_->Ask(std::move(done),
             [impl = impl_.get(), query = std::move(query)](OnPage answer) mutable {
               impl->List(std::move(query), std::move(answer));
             });
}

void Engine::Control(core::JobId id, Request request, OnJob done) {
  impl_->Ask(std::move(done), [impl = impl_.get(), id, request](OnJob answer) {
    impl->Control(id, request, std::move(answer));
  });
}

void Engine::Retry(core::JobId id, std::optional<Bytes> memory, std::vector<core::JobId> after,
                   OnJob done) {
  impl_->Ask(std::move(done),
             [impl = impl_.get(), id, memory, after = std::move(after)](OnJob answer) mutable {
               impl->Retry(id, memory, std::move(after), std::move(answer));
             });
}

void Engine::ListQueue(store::ListQuery query, QueuePlace after, OnPage done) {
  impl_->Ask(std::move(done),
             [impl = impl_.get(), query = std::move(query), after](OnPage answer) mutable {
               impl->ListQueue(std::move(query), after, std::move(answer));
             });
}

void Engine::GetSome(std::vector<core::JobId> ids,
                     absl::AnyInvocable<void(absl::StatusOr<std::vector<JobView>>)> done) {
  impl_->Ask(std::move(done), [impl = impl_.get(), ids = std::move(ids)](auto answer) {
    impl->GetSome(ids, std::move(answer));
  });
}

void Engine::Update(core::JobId id, Change change, OnJob done) {
  impl_->Ask(std::move(done), [impl = impl_.get(), id, change = std::move(change)](OnJob answer) {
    impl->Update(id, change, std::move(answer));
  });
}

void Engine::HoldQueue(std::string why, OnDone done) {
  impl_->Ask(std::move(done), [impl = impl_.get(), why = std::move(why)](OnDone answer) mutable {
    impl->HoldQueue(std::move(why), std::move(answer));
  });
}

void Engine::ReleaseQueue(OnDone done) {
  impl_->Ask(std::move(done),
             [impl = impl_.get()](OnDone answer) { impl->ReleaseQueue(std::move(answer)); });
}

void Engine::ListProfiles(std::string name,
                          absl::AnyInvocable<void(absl::StatusOr<std::vector<ProfileView>>)> done) {
  impl_->Ask(std::move(done), [impl = impl_.get(), name = std::move(name)](auto answer) {
    impl->ListProfiles(name, std::move(answer));
  });
}

void Engine::DeleteProfile(std::string name, OnDone done) {
  impl_->Ask(std::move(done), [impl = impl_.get(), name = std::move(name)](OnDone answer) {
    impl->DeleteProfile(name, std::move(answer));
  });
}

void Engine::Delete(core::JobId id, OnJob done) {
  impl_->Ask(std::move(done),
             [impl = impl_.get(), id](OnJob answer) { impl->Delete(id, std::move(answer)); });
}

void Engine::Guard(GuardRequest request, OnJob done) {
  impl_->Ask(std::move(done),
             [impl = impl_.get(), request = std::move(request)](OnJob answer) mutable {
               impl->Guard(std::move(request), std::move(answer));
             });
}

void Engine::ResumeGuard(core::JobId id, std::int32_t pid, OnJob done) {
  impl_->Ask(std::move(done), [impl = impl_.get(), id, pid](OnJob answer) {
    impl->ResumeGuard(id, pid, std::move(answer));
  });
}

void Engine::WithdrawGuard(core::JobId id) {
  impl_->Tell([impl = impl_.get(), id] { impl->WithdrawGuard(id); });
}

void Engine::ReportExit(core::JobId id, core::Outcome outcome, OnJob done) {
  impl_->Ask(std::move(done), [impl = impl_.get(), id, outcome](OnJob answer) {
    impl->ReportExit(id, outcome, std::move(answer));
  });
}

Engine::WatchToken Engine::NewWatchToken() { return impl_->NewWatchToken(); }

void Engine::Watch(WatchToken token, core::JobId id, OnChange on_change) {
  // Not copied into the work: turned away, on_change itself hears that we shut down.
  impl_->Ask(std::move(on_change), [impl = impl_.get(), token, id](OnChange answer) {
    impl->Watch(token, id, std::move(answer));
  });
}

void Engine::Unwatch(WatchToken token) {
  impl_->Tell([impl = impl_.get(), token] { impl->Unwatch(token); });
}

void Engine::WatchAll(WatchToken token, OnChanges on_changes) {
  impl_->Ask(std::move(on_changes), [impl = impl_.get(), token](OnChanges answer) {
    impl->WatchAll(token, std::move(answer));
  });
}

void Engine::UnwatchAll(WatchToken token) {
  impl_->Tell([impl = impl_.get(), token] { impl->UnwatchAll(token); });
}

void Engine::ProcessExited(const core::ProcessIdentity& identity) {
  impl_->Tell([impl = impl_.get(), identity] { impl->ProcessExited(identity); });
}

}  // namespace stageload::engine
