#include "tests/sim/daemon.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stageload::sim {

using core::JobId;
using core::JobKind;
using core::JobRecord;

namespace {

// As in daemon/engine/engine.cc.
constexpr absl::Duration kSoon = absl::Milliseconds(20);
constexpr absl::Duration kReportWithin = absl::Seconds(2);
constexpr absl::Duration kResumeWithin = absl::Seconds(10);
constexpr absl::Duration kReturnWithin = absl::Seconds(3);
constexpr absl::Duration kTakeUpWithin = absl::Milliseconds(300);
constexpr int kKillRounds = 5;
constexpr absl::Duration kBusyInterval = absl::Milliseconds(900);

}  // namespace

// ---- Its life ----

void Daemon::Start() {
  crashed_ = false;
  core_.emplace(config_, parts_.disk->NextId());
  parts_.invariants->Configured(config_);
  next_sample_ = parts_.world->time();
  next_busy_look_ = next_sample_;
  stalled_until_ = absl::ZeroDuration();
  Restore();
  if (crashed_) CrashNow();
}

void Daemon::Reconfigure(const core::Config& config) {
  config_ = config;
  if (up()) Post([this, config] { Feed(core::ConfigChanged{config}); });
}

void Daemon::Round() {
  if (parts_.record->on())
    parts_.record->Add(absl::StrCat("-- round at ", Describe(parts_.world->Now())));
  for (const std::function<void()>& letter : std::exchange(mail_, {})) {
    if (!crashed_) letter();
  }
  Guards();
  const auto deadline = core_->NextDeadline();
  if (deadline && *deadline <= parts_.world->Now().awake) {
    Feed(core::Tick{});
    const auto next = core_->NextDeadline();
    if (!crashed_ && next && *next <= parts_.world->Now().awake) {
      parts_.invariants->Break(Rule::kAnswers,
                               "a tick leaves its own deadline behind: it would spin");
    }
  }
  SampleIfDue();
  CommitAndCarryOut();
  CheckWhoRuns();
  jitter_ = random_.Between(absl::ZeroDuration(), absl::Milliseconds(8));
  if (crashed_) CrashNow();
}

absl::Duration Daemon::WakeAt() const {
  const absl::Duration time = parts_.world->time();
  absl::Duration at = next_sample_;
  if (const auto deadline = core_->NextDeadline()) {
    at = std::min(at, time + (*deadline - parts_.world->Now().awake));
  }
  for (const auto& [id, guarded] : guarded_) {
    if (guarded.report_by) at = std::min(at, *guarded.report_by);
    if (guarded.resume_by) at = std::min(at, *guarded.resume_by);
  }
  at += jitter_;
  if (!effects_.empty() || !mail_.empty()) at = time;
  return absl::Ceil(std::max({time, at, stalled_until_}), absl::Nanoseconds(1));
}

void Daemon::CrashNow() {
  ++(*parts_.counters)[Count::kCrashes];
  parts_.record->Add("-- the daemon crashes");
  core_.reset();
  mail_.clear();
  submissions_.clear();
  acquiring_.clear();
  leases_.clear();
  next_token_ = 1;
  attached_.clear();
  ended_here_.clear();
  known_.clear();
  guarded_.clear();
  resuming_.clear();
  returning_.clear();
  stopping_before_.clear();
  effects_.clear();
  held_back_.clear();
  learned_.clear();
  settings_.clear();
  unsaved_.clear();
  points_left_ = -1;
  crashed_ = true;
  // Of rows that never were.
  for (auto entry = request_of_.begin(); entry != request_of_.end();) {
    entry =
        parts_.disk->Find(entry->first) == nullptr ? request_of_.erase(entry) : std::next(entry);
  }
}

void Daemon::Pass(Point point) {
  if (points_left_ < 0 || points_left_-- > 0) return;
  crashed_ = true;
  switch (point) {
    case Point::kStep:
      break;
    case Point::kBeforeCommit:
      ++(*parts_.counters)[Count::kCrashesBeforeCommit];
      break;
    case Point::kAfterCommit:
      ++(*parts_.counters)[Count::kCrashesAfterCommit];
      break;
    case Point::kAmongEffects:
      ++(*parts_.counters)[Count::kCrashesAmongEffects];
      break;
  }
}

// ---- The loop, as in Engine::Impl ----

bool Daemon::Post(std::function<void()> letter) {
  if (!up()) return false;
  mail_.push_back(std::move(letter));
  return true;
}

void Daemon::Feed(const core::Event& event) {
  if (crashed_) return;
  const Instant now = parts_.world->Now();
  if (parts_.record->on()) {
    parts_.record->Add(absl::StrCat(Describe(now), " > ", Describe(event)));
  }
  parts_.digest->Add(now);
  parts_.digest->Add(event);
  parts_.invariants->Before(parts_.world->time(), now, event);
  core::Effects effects = core_->Step(now, event);
  for (const core::Effect& effect : effects) {
    parts_.digest->Add(effect);
    if (parts_.record->on()) parts_.record->Add(absl::StrCat("          < ", Describe(effect)));
  }
  parts_.invariants->After(event, effects, *core_);
  for (core::Effect& effect : effects) Take(std::move(effect));
  Pass(Point::kStep);
}

void Daemon::Take(core::Effect effect) {
  if (const auto* save = std::get_if<core::Save>(&effect); save != nullptr && !save->added) {
    unsaved_[save->record.id] = save->record;
  }
  if (auto* learned = std::get_if<core::Learned>(&effect)) {
    learned_.push_back({learned->profile, learned->run});
    return;
  }
  if (const auto* held = std::get_if<core::QueueHeld>(&effect)) {
    settings_["queue_held"] = held->text.value_or("");
    return;
  }
  if (std::holds_alternative<core::Note>(effect)) return;
  effects_.push_back(std::move(effect));
}

void Daemon::CommitAndCarryOut() {
  if (crashed_) return;
  // What is decided from here on belongs to the next round.
  const std::vector<core::Effect> effects = std::exchange(effects_, {});
  Pass(Point::kBeforeCommit);
  if (crashed_) return;
  if (!Commit(effects).ok()) return CarryOutUnsaved(effects);
  Pass(Point::kAfterCommit);
  AnswerResuming();
  std::vector<core::Effect> all = std::exchange(held_back_, {});
  all.insert(all.end(), effects.begin(), effects.end());
  for (const core::Effect& effect : all) {
    if (crashed_) return;
    CarryOut(effect);
    Pass(Point::kAmongEffects);
  }
}

void Daemon::AnswerResuming() {
  if (crashed_) return;
  for (const JobId id : std::exchange(resuming_, {})) {
    const JobRecord* record = core_->Find(id);
    if (record != nullptr && core::IsActive(record->state)) {
      parts_.users->GuardMayStart(RequestOf(id));
    }
  }
}

absl::Status Daemon::Commit(const std::vector<core::Effect>& effects) {
  store::Batch batch;
  std::map<JobId, int> owners;
  for (std::size_t i = 0; i + 1 < effects.size(); ++i) {
    const auto* save = std::get_if<core::Save>(&effects[i]);
    if (save == nullptr || !save->added) continue;
    const auto& accepted = std::get<core::Accepted>(effects[i + 1]);
    batch.added.push_back({save->record, std::nullopt});
    owners[save->record.id] = submissions_.at(accepted.token);
  }
  for (const auto& [id, record] : unsaved_) batch.changed.push_back(record);
  batch.learned = learned_;
  batch.settings = settings_;
  const absl::Status status = batch.empty() ? absl::OkStatus() : parts_.disk->Commit(batch);
  if (absl::IsNotFound(status)) {
    parts_.invariants->Break(Rule::kOneEnd, std::string(status.message()));
  }
  if (!status.ok()) {
    ++(*parts_.counters)[Count::kCommitFailures];
    return status;
  }
  unsaved_.clear();
  learned_.clear();
  settings_.clear();
  request_of_.insert(owners.begin(), owners.end());
  parts_.invariants->Committed();
  return status;
}

// New requests were never accepted; what stops is carried out all the same, and so is what is not
// stored anyway; starts wait until their rows are written.
void Daemon::CarryOutUnsaved(const std::vector<core::Effect>& effects) {
  std::set<JobId> refused;
  for (const core::Effect& effect : effects) {
    if (const auto* accepted = std::get_if<core::Accepted>(&effect)) {
      refused.insert(accepted->id);
      unsaved_.erase(accepted->id);
      parts_.users->Refused(submissions_.at(accepted->token));
      Feed(core::NotSaved{accepted->id});
    } else if (const auto* start = std::get_if<core::Start>(&effect)) {
      if (refused.count(start->id) == 0) held_back_.push_back(effect);
    } else if (const auto* signal = std::get_if<core::Signal>(&effect)) {
      if (refused.count(signal->id) == 0) CarryOut(effect);
    } else if (const auto* stop = std::get_if<core::StopRequested>(&effect)) {
      if (refused.count(stop->id) == 0) CarryOut(effect);
    } else if (!std::holds_alternative<core::Save>(effect)) {
      CarryOut(effect);
    }
  }
}

void Daemon::CarryOut(const core::Effect& effect) {
  Users& users = *parts_.users;
  if (const auto* accepted = std::get_if<core::Accepted>(&effect)) {
    const auto found = submissions_.find(accepted->token);
    const int request = found->second;
    submissions_.erase(found);
    const core::Submit& submit = users.SubmitOf(request);
    if (submit.kind == JobKind::kGuard) {
      guarded_[accepted->id].callers = 1;
      Attach(accepted->id, *submit.root);
    } else if (submit.kind == JobKind::kSession) {
      attached_.insert(accepted->id);
    }
    users.Accepted(request, accepted->id);
    // Its record ended with its stream, and the stop has not.
    if (submit.kind == JobKind::kSession && stopping_before_.erase(*submit.root) > 0) {
      Feed(core::CancelAsked{accepted->id});
    }
  } else if (const auto* refused = std::get_if<core::Refused>(&effect)) {
    if (auto submission = submissions_.extract(refused->token); !submission.empty()) {
      users.Refused(submission.mapped());
    } else if (auto acquire = acquiring_.extract(refused->token); !acquire.empty()) {
      users.LeaseDenied(acquire.mapped(), std::nullopt);
    }
  } else if (const auto* start = std::get_if<core::Start>(&effect)) {
    if (start->kind == JobKind::kJob) {
      StartJob(start->id);
    } else if (request_of_.count(start->id) > 0) {  // else its row could not be saved after all
      users.GuardMayStart(RequestOf(start->id));
    }
    SampleSoon();
  } else if (const auto* signal = std::get_if<core::Signal>(&effect)) {
    SignalTree(*signal);
  } else if (const auto* stop = std::get_if<core::StopRequested>(&effect)) {
    const int request = RequestOf(stop->id);
    if (users.SubmitOf(request).kind == JobKind::kSession) users.StopRequested(request);
  } else if (const auto* queued = std::get_if<core::LeaseQueued>(&effect)) {
    auto acquire = acquiring_.extract(queued->token);
    leases_[queued->id] = acquire.mapped();
    users.LeaseQueued(acquire.mapped(), queued->id);
  } else if (const auto* granted = std::get_if<core::LeaseGranted>(&effect)) {
    users.LeaseGranted(leases_.at(granted->id), granted->id);
  } else if (const auto* denied = std::get_if<core::LeaseDenied>(&effect)) {
    users.LeaseDenied(leases_.at(denied->id), denied->id);
  } else if (const auto* save = std::get_if<core::Save>(&effect)) {
    if (!core::IsEnd(save->record.state)) return;
    ended_here_.insert(save->record.id);
    attached_.erase(save->record.id);
    guarded_.erase(save->record.id);
    SampleSoon();
  }
}

void Daemon::Guards() {
  std::vector<JobId> silent;
  std::vector<JobId> gone;
  for (auto& [id, guarded] : guarded_) {
    if (guarded.report_by && *guarded.report_by <= parts_.world->time()) silent.push_back(id);
    if (!guarded.resume_by || *guarded.resume_by > parts_.world->time()) continue;
    guarded.resume_by.reset();
    if (core_->IsPending(id)) gone.push_back(id);
  }
  for (const JobId id : silent) {
    guarded_[id].report_by.reset();
    RootEnded(id, core::Outcome{});
  }
  for (const JobId id : gone) Feed(core::ClientGone{id});
}

// ---- Calls ----

void Daemon::Submit(int request) {
  core::Submit submit = parts_.users->SubmitOf(request);
  if (submit.kind == JobKind::kSession) Returned(*submit.root);
  submit.token = next_token_++;
  submit.ended_parents = EndedParents(submit.after);
  submissions_[submit.token] = request;
  Feed(submit);
}

void Daemon::Acquire(int request, core::Acquire event) {
  const auto id = IdOf(request);
  if (!id) return;
  event.client = *id;
  event.token = next_token_++;
  acquiring_[event.token] = request;
  Feed(event);
}

std::optional<JobId> Daemon::IdOf(int request) const {
  for (const auto& [id, owner] : request_of_) {
    if (owner == request) return id;
  }
  return std::nullopt;
}

std::optional<JobId> Daemon::IdOfOwner(int owner) const {
  return owner == kUnmanaged ? std::nullopt : IdOf(owner);
}

std::vector<core::EndedParent> Daemon::EndedParents(const std::vector<JobId>& after) const {
  std::vector<core::EndedParent> ended;
  for (const JobId id : after) {
    if (core_->Find(id) != nullptr) continue;
    const auto unsaved = unsaved_.find(id);
    const JobRecord* row = unsaved != unsaved_.end() ? &unsaved->second : parts_.disk->Find(id);
    ended.push_back({id, row != nullptr ? std::optional(row->state) : std::nullopt});
  }
  return ended;
}

void Daemon::StreamGone(int request) {
  const auto id = IdOf(request);
  if (!id) return;
  if (const auto guarded = guarded_.find(*id); guarded != guarded_.end()) {
    if (--guarded->second.callers > 0) return;
    if (guarded->second.report_by) guarded->second.report_by = parts_.world->time();
  }
  Feed(core::ClientGone{*id, static_cast<int>(MembersOf(*id).size())});
}

void Daemon::RootExited(int request) {
  const auto id = IdOf(request);
  if (!id || attached_.count(*id) == 0) return;
  const JobRecord* record = core_->Find(*id);
  if (record == nullptr) return;
  if (record->kind == JobKind::kJob) return JobEnded(*id);
  if (record->kind == JobKind::kSession) return;  // its stream tells
  if (core_->IsPending(*id)) return Feed(core::ClientGone{*id});
  Guarded& guarded = guarded_[*id];
  guarded.report_by = ReportBy(*record, guarded);
}

absl::Duration Daemon::ReportBy(const JobRecord& record, const Guarded& guarded) const {
  const absl::Duration now = parts_.world->time();
  if (guarded.callers > 0) return now + kReportWithin;
  if (record.state == core::JobState::kStopping) return now;
  return guarded.resume_by.value_or(now);
}

void Daemon::ResumeGuard(int request) {
  const auto id = IdOf(request);
  const JobRecord* record = id ? core_->Find(*id) : nullptr;
  if (record == nullptr) return parts_.users->GuardUnknown(request);
  Guarded& guarded = guarded_[*id];
  ++guarded.callers;
  guarded.resume_by.reset();
  ++(*parts_.counters)[Count::kGuardResumes];
  // What is not on disk yet it hears once it is.
  resuming_.insert(*id);
}

void Daemon::ReportExit(int request, const core::Outcome& outcome) {
  const auto id = IdOf(request);
  if (!id || core_->Find(*id) == nullptr || core_->IsPending(*id)) return;
  guarded_[*id].report_by.reset();
  RootEnded(*id, outcome);
}

void Daemon::Update(JobId id, const core::Policy& policy) {
  const JobRecord* record = core_->Find(id);
  if (record == nullptr || !core_->CheckUpdate(*record, policy).ok()) return;
  Feed(core::UpdateAsked{id, policy});
}

// ---- Sampling ----

void Daemon::SampleSoon() { next_sample_ = std::min(next_sample_, parts_.world->time() + kSoon); }

void Daemon::SampleIfDue() {
  if (crashed_) return;
  const absl::Duration now = parts_.world->time();
  const bool due = now >= next_sample_;
  if (due) TakeSample();
  if (crashed_) return;
  const absl::Duration next = now + core_->SampleInterval(plan_.subscribers);
  next_sample_ = due ? next : std::min(next_sample_, next);
}

void Daemon::TakeSample() {
  if (random_.Chance(faults.sample_errors)) return;
  core::Sample sample;
  sample.host = parts_.world->Sample();
  LookAtTree();
  for (const core::ClientStatus& client : core_->Clients()) {
    if (client.record->root) sample.clients.push_back(UsageOf(client.record->id));
  }
  LookForBusyPrograms(sample);
  Spoil(sample);
  Feed(core::SampleTaken{std::move(sample)});
}

void Daemon::LookForBusyPrograms(core::Sample& sample) {
  const std::vector<std::string> patterns = core_->BusyPatterns();
  if (patterns.empty() || parts_.world->time() < next_busy_look_) return;
  next_busy_look_ = parts_.world->time() + kBusyInterval;
  for (const std::string& pattern : patterns) {
    if (random_.Chance(faults.missing)) continue;
    core::BusyReading reading{pattern, ""};
    for (const Process& process : parts_.world->processes()) {
      if (process.owner != kUnmanaged || !absl::StrContains(process.command, pattern)) continue;
      reading.match = absl::StrCat(process.identity.pid, " ", process.command);
      break;
    }
    sample.busy.push_back(std::move(reading));
  }
}

// Readings that are missing, and values that cannot be true.
void Daemon::Spoil(core::Sample& sample) {
  core::HostSample& host = sample.host;
  const double missing = faults.missing;
  if (missing > 0) {
    if (random_.Chance(missing)) host.level.reset();
    if (random_.Chance(missing)) host.total.reset();
    if (random_.Chance(missing)) host.available.reset();
    if (random_.Chance(missing)) host.swap_used.reset();
    if (random_.Chance(missing)) host.pressure.reset();
    for (core::ClientUsage& client : sample.clients) {
      if (random_.Chance(missing)) client.usage.footprint.reset();
      if (random_.Chance(missing)) client.usage.swapped.reset();
    }
    if (!sample.clients.empty() && random_.Chance(missing)) sample.clients.pop_back();
  }
  if (!random_.Chance(faults.lying)) return;
  switch (random_.Between(0, 7)) {
    case 0:
      host.level = Percent{140};
      break;
    case 1:
      host.level = Percent{-1};
      break;
    case 2:
      host.available = parts_.world->total() + GiB(1);
      break;
    case 3:
      host.available = Bytes(-5);
      break;
    case 4:
      host.total = Bytes(0);
      break;
    case 5:
      host.swap_used = Bytes(-1);
      break;
    case 6:
      host.swap_used = host.swap_total.value_or(Bytes(0)) + GiB(3);
      break;
    default:
      for (core::ClientUsage& client : sample.clients) client.usage.footprint = Bytes(-1);
  }
}

core::ClientUsage Daemon::UsageOf(JobId id) {
  core::ClientUsage client;
  client.id = id;
  for (const core::ProcessIdentity& member : MembersOf(id)) {
    const Process* process = parts_.world->Find(member);
    const core::Usage usage = parts_.world->UsageOf(*process);
    ++client.processes;
    if (usage.footprint) {
      client.usage.footprint = client.usage.footprint.value_or(Bytes(0)) + *usage.footprint;
    }
    if (usage.swapped) {
      client.usage.swapped = client.usage.swapped.value_or(Bytes(0)) + *usage.swapped;
    }
  }
  return client;
}

// ---- Processes ----

// Who left its session while its parent lived stays known to a daemon that saw it.
void Daemon::LookAtTree() {
  for (const Process& process : parts_.world->processes()) {
    if (process.left_session && process.parent_alive) known_.insert(process.identity);
  }
}

std::vector<core::ProcessIdentity> Daemon::MembersOf(JobId id) const {
  std::vector<core::ProcessIdentity> members;
  if (attached_.count(id) == 0) return members;
  const int request = RequestOf(id);
  for (const Process& process : parts_.world->processes()) {
    if (process.owner != request || process.role == Role::kShim) continue;
    if (process.left_session && known_.count(process.identity) == 0) continue;
    members.push_back(process.identity);
  }
  return members;
}

// What a row says is so in fact, once everything was carried out: a suspended command stands still,
// one that runs does not, and a session that was suspended and is no client any more goes on.
void Daemon::CheckWhoRuns() {
  if (crashed_ || !effects_.empty() || !held_back_.empty() || parts_.disk->full) return;
  for (const Process& process : parts_.world->processes()) {
    if (process.role != Role::kMain || process.program->refuses_signals) continue;
    const auto id = IdOfOwner(process.owner);
    if (!id) continue;
    const JobRecord* record = core_->Find(*id);
    const bool session = parts_.users->SubmitOf(process.owner).kind == JobKind::kSession;
    const char* state = "ENDED";
    bool suspended = false;
    if (record != nullptr) {
      if (!core::IsActive(record->state) || attached_.count(*id) == 0) continue;
      state = core::Name(record->state);
      suspended = record->state == core::JobState::kSuspended;
    } else if (!session || ended_here_.count(*id) == 0) {
      // A daemon that dies right between writing the end down and letting it go leaves it stopped.
      continue;
    }
    if (process.stopped == suspended) continue;
    parts_.invariants->Break(
        Rule::kStops, absl::StrCat("job ", core::Value(*id), " is ", state, " and its command ",
                                   process.stopped ? "is stopped" : "runs"));
  }
}

bool Daemon::StillThere(const core::ProcessIdentity& identity) const {
  const Process* process = parts_.world->Find(identity.pid);
  return process != nullptr && core::IsStill(identity, process->identity);
}

void Daemon::StartJob(JobId id) {
  const JobRecord* record = core_->Find(id);
  if (record == nullptr || !core::IsActive(record->state)) return;
  const int request = RequestOf(id);
  Folder& folder = parts_.users->FolderOf(request);
  // Of an earlier boot, before it was queued again.
  if (folder.shim && !folder.result && folder.boot_id != parts_.world->boot_id()) folder = Folder{};
  if (folder.shim) return AdoptJob(JobRecord(*record));  // there is a shim already
  if (random_.Chance(faults.start_fails)) {
    return Feed(core::StartFailed{id, "start the shim: resource temporarily unavailable"});
  }
  // The shim runs nothing before the daemon's `go`, so up to here a crash leaves no trace.
  World& world = *parts_.world;
  const core::ProcessIdentity shim =
      world.Spawn(std::make_shared<const Program>(), request, Role::kShim);
  world.Spawn(parts_.users->ProgramOf(request), request, Role::kMain);
  folder.shim = shim;
  folder.boot_id = world.boot_id();
  parts_.invariants->CommandStarted(id, ++folder.starts);
  Attach(id, shim);
}

void Daemon::Attach(JobId id, const core::ProcessIdentity& root) {
  attached_.insert(id);
  Feed(core::Started{id, root, parts_.world->boot_id()});
  if (!StillThere(root)) RootExited(RequestOf(id));
}

void Daemon::JobEnded(JobId id) {
  const Folder& folder = parts_.users->FolderOf(RequestOf(id));
  RootEnded(id, folder.result.value_or(core::Outcome{}));
}

void Daemon::RootEnded(JobId id, const core::Outcome& outcome) {
  LookAtTree();
  Feed(core::Exited{id, outcome, static_cast<int>(MembersOf(id).size())});
  SampleSoon();
}

void Daemon::SignalTree(const core::Signal& signal) {
  using Kind = core::Signal::Kind;
  static constexpr Signal kNumbers[] = {Signal::kTerm, Signal::kKill, Signal::kStop,
                                        Signal::kContinue};
  const bool again = signal.kind == Kind::kKill || signal.kind == Kind::kSuspend;
  for (int round = 0; round < (again ? kKillRounds : 1); ++round) {
    LookAtTree();
    const int members = static_cast<int>(MembersOf(signal.id).size());
    if (members == 0) return;
    const int refused = SignalMembers(signal, kNumbers[static_cast<int>(signal.kind)]);
    // A stopped process takes SIGTERM only once it goes on.
    if (signal.kind == Kind::kTerminate) SignalMembers(signal, Signal::kContinue);
    if (refused == 0) continue;
    if (refused < members) return;
    return Feed(core::SignalRefused{signal.id, absl::StrCat(refused, " refused: EPERM")});
  }
}

// Returns how many refused it.
int Daemon::SignalMembers(const core::Signal& signal, Signal number) {
  World& world = *parts_.world;
  int refused = 0;
  for (const core::ProcessIdentity& member : MembersOf(signal.id)) {
    // Between the choice and the signal one may end, and its pid be taken.
    if (random_.Chance(faults.vanishes)) {
      world.End(member, core::Outcome{.exit_code = 3, .signal = {}, .start_errno = {}});
    }
    const Process* found = world.Find(member.pid);
    if (found == nullptr) continue;
    if (!core::IsStill(member, found->identity)) {
      ++(*parts_.counters)[Count::kStoppedByIdentity];
      continue;
    }
    const int owner = found->owner;
    const Sent answer = world.Send(member.pid, number);
    if (answer == Sent::kNotPermitted) ++refused;
    if (answer == Sent::kYes) parts_.invariants->Signalled(signal, IdOfOwner(owner));
  }
  return refused;
}

// ---- After a restart, as Engine::Impl::Restore ----

void Daemon::Restore() {
  const std::string held = parts_.disk->Setting("queue_held");
  if (!held.empty()) Feed(core::QueueHeldRestored{held});
  const std::vector<JobRecord> rows = ReadRows();
  for (const store::ProfileRow& row : ReadProfiles()) {
    Feed(core::ProfileRestored{row.profile, row.run});
  }
  for (const JobRecord& row : rows) Feed(core::Restored{row, EndedParents(row.after)});
  if (crashed_) return;
  parts_.invariants->AfterRestore(*core_);
  for (const JobRecord& row : rows) {
    if (crashed_) return;
    Adopt(row);
  }
  SampleIfDue();
  CommitAndCarryOut();
}

std::vector<JobRecord> Daemon::ReadRows() {
  std::vector<JobRecord> rows = parts_.disk->Unended();
  if (parts_.trip == nullptr || rows.empty()) return rows;
  ++(*parts_.counters)[Count::kStoreTrips];
  auto read = parts_.trip->Through(rows);
  if (!read.ok()) {
    parts_.invariants->Break(Rule::kStored, std::string(read.status().message()));
    return rows;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) parts_.invariants->StoreGave(rows[i], (*read)[i]);
  return *std::move(read);
}

// The last runs of each profile.
std::vector<store::ProfileRow> Daemon::ReadProfiles() {
  std::vector<store::ProfileRow> learned = parts_.disk->learned();
  if (parts_.trip == nullptr || learned.empty()) return learned;
  auto read = parts_.trip->Through(learned);
  if (!read.ok()) {
    parts_.invariants->Break(Rule::kStored, std::string(read.status().message()));
    return learned;
  }
  core::Profiles before;
  core::Profiles after;
  for (const store::ProfileRow& row : learned) before.Add(row.profile, row.run);
  for (const store::ProfileRow& row : *read) after.Add(row.profile, row.run);
  for (const auto& [profile, runs] : before.all()) {
    if (before.Estimate(profile) == after.Estimate(profile)) continue;
    parts_.invariants->Break(Rule::kStored,
                             absl::StrCat("profile ", profile, " came back changed"));
  }
  return *std::move(read);
}

void Daemon::Adopt(const JobRecord& record) {
  // Its registration lived as long as its stream, and that ended with the daemon before.
  if (record.kind == JobKind::kSession) {
    if (record.root && record.boot_id == parts_.world->boot_id() && StillThere(*record.root)) {
      attached_.insert(record.id);  // it may have to be told to go on
      AwaitReturn(*record.root);
      if (record.state == core::JobState::kStopping) stopping_before_.insert(*record.root);
    }
    return Feed(core::ClientGone{record.id});
  }
  const bool guard = record.kind == JobKind::kGuard;
  if (record.state == core::JobState::kPending && guard) AdoptGuard(record);
  if (!core::IsActive(record.state)) return;
  if (!record.boot_id.empty() && record.boot_id != parts_.world->boot_id()) {
    // How it ended may have been written down before the machine went down.
    const auto result = guard ? std::nullopt : parts_.users->FolderOf(RequestOf(record.id)).result;
    if (result) return Feed(core::Exited{record.id, *result, 0});
    return Feed(core::NodeFailed{record.id});
  }
  guard ? AdoptGuard(record) : AdoptJob(record);
}

void Daemon::AwaitReturn(const core::ProcessIdentity& root) {
  returning_[root] = parts_.world->Now().awake + kReturnWithin;
  Feed(core::ProgramsReturning{returning_[root]});
}

void Daemon::Returned(const core::ProcessIdentity& root) {
  const auto found = returning_.find(root);
  if (found == returning_.end()) return;
  found->second = std::min(found->second, parts_.world->Now().awake + kTakeUpWithin);
  const auto last =
      std::max_element(returning_.begin(), returning_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  Feed(core::ProgramsReturning{last->second});
}

void Daemon::AdoptGuard(const JobRecord& record) {
  Guarded& guarded = guarded_[record.id];
  guarded.resume_by = parts_.world->time() + kResumeWithin;
  const bool there =
      record.root && record.boot_id == parts_.world->boot_id() && StillThere(*record.root);
  if (there) return Attach(record.id, *record.root);
  if (core_->IsPending(record.id)) return Feed(core::ClientGone{record.id});
  guarded.report_by = ReportBy(record, guarded);
}

void Daemon::AdoptJob(const JobRecord& record) {
  const Folder& folder = parts_.users->FolderOf(RequestOf(record.id));
  if (!folder.shim) {
    effects_.push_back(core::Start{record.id, JobKind::kJob});
    return;
  }
  if (folder.result) return Feed(core::Exited{record.id, *folder.result, 0});
  // The lock is held by the shim itself: no other process can be taken for it.
  const Process* shim = parts_.world->Find(folder.shim->pid);
  const bool held = folder.boot_id == parts_.world->boot_id() && shim != nullptr &&
                    shim->identity == *folder.shim;
  if (held) return Attach(record.id, *folder.shim);
  if (folder.boot_id != parts_.world->boot_id()) return Feed(core::NodeFailed{record.id});
  Feed(core::Exited{record.id, core::Outcome{}, 0});
}

}  // namespace stageload::sim
