// What callers ask of jobs, of the queue and of what is remembered.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "base/shell_words.h"
#include "daemon/engine/engine_impl.h"

namespace stageload::engine {
namespace {

// Old history goes in small parts, so that nobody waits for it.
constexpr absl::Duration kForgetInterval = absl::Minutes(1);
constexpr int kForgetAtOnce = 100;

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

// Of a store that cannot be written: what has happened all the same, the newest first.
void AddUnwritten(const store::EventQuery& query, const std::vector<store::EventRow>& unwritten,
                  std::vector<store::EventRow>& rows) {
  const auto asked = [&](const store::EventRow& event) {
    const auto& kinds = query.kinds;
    return (!query.before || event.time < query.before->time) &&
           (!query.since || event.time >= *query.since) &&
           (!query.until || event.time < *query.until) && (!query.job || event.job == query.job) &&
           (kinds.empty() || std::find(kinds.begin(), kinds.end(), event.kind) != kinds.end());
  };
  std::vector<store::EventRow> all;
  std::copy_if(unwritten.rbegin(), unwritten.rend(), std::back_inserter(all), asked);
  all.insert(all.end(), rows.begin(), rows.end());
  all.resize(std::min(all.size(), static_cast<std::size_t>(std::max(query.limit, 0))));
  rows = std::move(all);
}

// What was asked for is done, since a full disk must not keep a user from stopping a job, and is
// written down as soon as that can be.
absl::Status DoneButNotSaved(const absl::Status& status) {
  return WithReason(
      absl::Status(
          status.code(),
          absl::StrCat(status.message(),
                       "; it is done all the same, but not written down yet: if the daemon "
                       "is killed before that, it is as if it had not been asked for")),
      ReasonOf(status), FieldOf(status));
}

}  // namespace

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
    record.policy.memory = core_->DeclaredBy(record);  // as "auto" stands now
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
  event.command = core::DisplayCommand({ShellWords(request.spec.argv)});
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
  event.inside = ClientAround(request.pid);
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

void Engine::Impl::ListEvents(store::EventQuery query, OnEvents done) {
  after_commit_.push_back(
      [this, query = std::move(query), done = std::move(done)](const absl::Status&) mutable {
        absl::StatusOr<std::vector<store::EventRow>> rows = parts_.store->ListEvents(query);
        if (rows.ok() && !store_error_.empty()) AddUnwritten(query, batch_.events, *rows);
        done(std::move(rows));
      });
}

// With the job as it stands once what was decided about it is on disk.
void Engine::Impl::AnswerWhenSaved(JobId id, OnJob done) {
  after_commit_.push_back([this, id, done = std::move(done)](const absl::Status& status) mutable {
    status.ok() ? done(View(id)) : done(DoneButNotSaved(status));
  });
}

void Engine::Impl::AnswerWhenSaved(OnDone done) {
  after_commit_.push_back([done = std::move(done)](const absl::Status& status) mutable {
    done(status.ok() ? status : DoneButNotSaved(status));
  });
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
      if (!record.may_signal) {
        return WrongState(
            record,
            "it did not allow signals when it registered (enforce), so it cannot be suspended");
      }
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

void Engine::Impl::Retry(RetryRequest request, OnJob done) {
  if (AnsweredBefore(request.request_id, done)) return;
  const JobId id = request.id;
  if (const core::JobRecord* living = core_->Find(id)) {
    return done(WrongState(*living, "only a job that has ended can be run again"));
  }
  const absl::StatusOr<core::JobRecord> row = parts_.store->Get(id);
  if (absl::IsNotFound(row.status())) return done(NotFound(id));
  if (!row.ok()) return done(row.status());
  if (row->kind != core::JobKind::kJob) {
    return done(
        WithReason(absl::FailedPreconditionError(absl::StrCat(
                       "job ", core::Value(id),
                       row->kind == core::JobKind::kGuard
                           ? " was a guarded command, run by whoever guarded it; guard it again"
                           : " was a program that registered itself; start that again")),
                   kWrongState));
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
  event.policy.memory = request.memory ? request.memory : core::MemoryForRetry(*row);
  SetTerms({row->group, row->profile, std::move(request.after), std::nullopt, false}, event);
  event.request_id = std::move(request.request_id);
  event.requeue = row->requeue;
  event.notify = row->notify;
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

void Engine::Impl::Reconfigure(core::Config config, absl::Duration keep_history) {
  options_.config = config;
  options_.keep_history = keep_history;
  next_forget_ = absl::ZeroDuration();
  Feed(core::ConfigChanged{std::move(config)});
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

}  // namespace stageload::engine
