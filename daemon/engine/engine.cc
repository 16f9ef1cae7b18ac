// The loop, and the public face: every call becomes a letter.
#include "daemon/engine/engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "daemon/engine/engine_impl.h"
#include "daemon/engine/rows_from_folders.h"

namespace stageload::engine {
namespace {

// The setting under which the store keeps why the queue is held.
constexpr char kQueueHeld[] = "queue_held";

// Of events that could not be written, the newest are kept for when they can.
constexpr std::size_t kMaxUnwrittenEvents = 1000;

}  // namespace

absl::Status ShuttingDown() {
  return WithReason(absl::UnavailableError("the daemon is shutting down; try again"),
                    kShuttingDown);
}

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
  for (const store::EventRow& event : batch.events) Announce({event.kind, event.job, event.text});
  return parts_.store->Commit(batch);
}

// Jobs that wait and whose command went with a part of the store: they would wait for nothing.
void Engine::Impl::EndThoseWithoutCommand() {
  std::vector<JobId> lost;
  for (const core::Rank& rank : core_->queue().ranks()) {
    if (core_->Find(rank.id)->kind != core::JobKind::kJob) continue;
    if (absl::IsNotFound(parts_.store->Spec(rank.id).status())) lost.push_back(rank.id);
  }
  for (const JobId id : lost) Feed(core::StartFailed{id, store::kCommandLost});
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
    if (save->added) {
      added_.insert(id);
    } else {
      unsaved_[id] = save->record;
    }
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
    if (!note->job || added_.count(*note->job) == 0) return Note(*note);
    notes_of_added_.push_back(*note);
    return;
  }
  effects_.push_back(std::move(effect));
}

void Engine::Impl::CommitAndCarryOut() {
  // What is decided from here on belongs to the next round.
  std::vector<core::Effect> effects = std::exchange(effects_, {});
  const std::set<JobId> changed = std::exchange(changed_, {});
  const absl::Status status = Commit(effects);
  SendEventsOfRecordings();
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
  added_.clear();
  const std::vector<core::Note> notes = std::exchange(notes_of_added_, {});
  const auto events_of_others = static_cast<std::ptrdiff_t>(batch_.events.size());
  for (const core::Note& note : notes) Keep(note);
  for (const auto& [id, record] : unsaved_) batch_.changed.push_back(record);
  if (batch_.empty() && store_error_.empty() && parts_.store->InPlace()) return absl::OkStatus();

  const absl::Status status = parts_.store->Commit(batch_);
  store::Batch failed = std::exchange(batch_, {});
  if (status.ok()) {
    bool damaged = false;
    if (auto notice = parts_.store->TakeNotice()) {
      Note({"store_damaged", std::nullopt, *std::move(notice)});
      batch_.settings[store::kRecovery] = "";  // else the next start tells it, too
      damaged = true;
    }
    if (!store_error_.empty()) Note({"store_works", std::nullopt, "the store is written again"});
    store_error_.clear();
    unsaved_.clear();
    for (const core::Note& note : notes) Announce(note);
    if (damaged) EndThoseWithoutCommand();
    return status;
  }
  batch_.learned = failed.learned;
  batch_.forgotten = failed.forgotten;
  batch_.settings = failed.settings;
  failed.events.erase(failed.events.begin() + events_of_others, failed.events.end());
  batch_.events = std::move(failed.events);
  if (batch_.events.size() > kMaxUnwrittenEvents) {
    batch_.events.erase(batch_.events.begin(),
                        batch_.events.end() - static_cast<std::ptrdiff_t>(kMaxUnwrittenEvents));
  }
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
  std::string name;  // of the row that was saved last
  for (core::Effect& effect : effects) {
    if (const auto* accepted = std::get_if<core::Accepted>(&effect)) {
      refused.insert(accepted->id);
      unsaved_.erase(accepted->id);
      Feed(core::NotSaved{accepted->id});
      Note({"refused", std::nullopt, absl::StrCat(name, ": ", std::string(status.message()))});
      Answer(accepted->token, status);
    } else if (std::holds_alternative<core::Refused>(effect) ||
               std::holds_alternative<core::Signal>(effect) || IsForSessions(effect)) {
      CarryOut(effect);
    } else if (const auto* start = std::get_if<core::Start>(&effect);
               start != nullptr && refused.count(start->id) == 0) {
      held_back_.push_back(effect);
      HinderStart(start->id, status);
    } else if (const auto* save = std::get_if<core::Save>(&effect)) {
      name = save->record.name;
      if (core::IsEnd(save->record.state) && refused.count(save->record.id) == 0) {
        held_back_.push_back(effect);
      }
    }
  }
}

void Engine::Impl::Answer(std::uint64_t token, absl::StatusOr<JobView> answer) {
  auto submission = submissions_.extract(token);
  if (submission.empty()) return AcquireRefused(token, answer.status());
  requests_.erase(submission.mapped().request_id);
  for (OnJob& done : submission.mapped().done) done(answer);
}

void Engine::Impl::CarryOut(core::Effect& effect) {
  if (auto* accepted = std::get_if<core::Accepted>(&effect)) {
    Answer(accepted->token, View(accepted->id));
  } else if (auto* refused = std::get_if<core::Refused>(&effect)) {
    Answer(refused->token, refused->status);
  } else if (auto* start = std::get_if<core::Start>(&effect)) {
    hindered_.erase(start->id);
    if (start->kind == core::JobKind::kJob) StartJob(start->id);
    SampleSoon();
  } else if (auto* signal = std::get_if<core::Signal>(&effect)) {
    SignalTree(*signal);
  } else if (auto* save = std::get_if<core::Save>(&effect)) {
    if (core::IsEnd(save->record.state)) AfterEnd(save->record);
  } else {
    CarryOutForSessions(effect);
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
  EndSessionsOf(record.id);
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
  TellSessions(changed);
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
  TurnSessionsAway();
}

void Engine::Impl::LeaveIfIdle(const Instant& now) {
  if (busy_ || core_->pending() > 0 || core_->active() > 0 || parts_.hub->subscribers() > 0 ||
      !recordings_.empty()) {
    last_busy_ = now.awake;
  }
  if (!options_.idle_exit || now.awake - last_busy_ < *options_.idle_exit) return;
  options_.idle_exit.reset();
  if (options_.on_idle) options_.on_idle();
}

// ---- The public face: every call becomes a letter ----

Engine::Engine(Options options, Parts parts)
    : impl_(std::make_unique<Impl>(std::move(options), parts)) {}
Engine::~Engine() = default;

absl::Status Engine::Restore() { return impl_->Restore(); }
void Engine::Run() { impl_->Run(); }
void Engine::Stop() { impl_->RequestStop(); }
void Engine::PressureHinted() { impl_->PressureHinted(); }
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

void Engine::Retry(RetryRequest request, OnJob done) {
  impl_->Ask(std::move(done),
             [impl = impl_.get(), request = std::move(request)](OnJob answer) mutable {
               impl->Retry(std::move(request), std::move(answer));
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

void Engine::ListEvents(store::EventQuery query, OnEvents done) {
  impl_->Ask(std::move(done),
             [impl = impl_.get(), query = std::move(query)](OnEvents answer) mutable {
               impl->ListEvents(std::move(query), std::move(answer));
             });
}

void Engine::Update(core::JobId id, Change change, OnJob done) {
  impl_->Ask(std::move(done), [impl = impl_.get(), id, change = std::move(change)](OnJob answer) {
    impl->Update(id, change, std::move(answer));
  });
}

void Engine::Reconfigure(core::Config config, absl::Duration keep_history) {
  impl_->Tell([impl = impl_.get(), config = std::move(config), keep_history]() mutable {
    impl->Reconfigure(std::move(config), keep_history);
  });
}

void Engine::NoteEvent(std::string kind, std::string text) {
  impl_->Tell([impl = impl_.get(), note = core::Note{std::move(kind), std::nullopt,
                                                     std::move(text)}] { impl->Note(note); });
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

void Engine::Register(WatchToken token, RegisterRequest request, OnSession on_event) {
  impl_->Ask(std::move(on_event),
             [impl = impl_.get(), token, request = std::move(request)](OnSession answer) mutable {
               impl->Register(token, std::move(request), std::move(answer));
             });
}

void Engine::Unregister(WatchToken token) {
  impl_->Tell([impl = impl_.get(), token] { impl->Unregister(token); });
}

void Engine::Acquire(WatchToken token, AcquireRequest request, OnLease on_lease) {
  impl_->Ask(std::move(on_lease),
             [impl = impl_.get(), token, request = std::move(request)](OnLease answer) mutable {
               impl->Acquire(token, std::move(request), std::move(answer));
             });
}

void Engine::Abandon(WatchToken token) {
  impl_->Tell([impl = impl_.get(), token] { impl->Abandon(token); });
}

void Engine::Release(ReleaseRequest request, OnDone done) {
  impl_->Ask(std::move(done), [impl = impl_.get(), request = std::move(request)](OnDone answer) {
    impl->Release(request, std::move(answer));
  });
}

void Engine::ReleaseUntold(core::LeaseId id) {
  impl_->Tell([impl = impl_.get(), id] { impl->GiveBack(id); });
}

void Engine::Report(ReportRequest request,
                    absl::AnyInvocable<void(absl::StatusOr<Reported>)> done) {
  impl_->Ask(std::move(done), [impl = impl_.get(), request = std::move(request)](
                                  auto answer) mutable { answer(impl->Report(request)); });
}

void Engine::Record(WatchToken token, RecordRequest request, OnUpdate on_update) {
  impl_->Ask(std::move(on_update), [impl = impl_.get(), token, request](OnUpdate answer) {
    impl->Record(token, request, std::move(answer));
  });
}

void Engine::StopRecording(WatchToken token) {
  impl_->Tell([impl = impl_.get(), token] { impl->StopRecording(token); });
}

void Engine::ProcessExited(const core::ProcessIdentity& identity) {
  impl_->Tell([impl = impl_.get(), identity] { impl->ProcessExited(identity); });
}

}  // namespace stageload::engine
