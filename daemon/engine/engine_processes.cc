// Starting jobs, finding them again, signalling their trees, and their ends.
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/engine/engine_impl.h"

namespace stageload::engine {
namespace {

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
// Of what an ended job left running, so many are named.
constexpr int kLeftShown = 3;

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

// Why nobody saw how a job ended.
std::string Unseen(const jobs::Found& found) {
  return absl::StrCat("its shim",
                      found.shim ? absl::StrCat(" (process ", found.shim->pid, ")") : std::string(),
                      " was killed, so nobody saw how its command ended");
}

}  // namespace

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
  if (!spec.ok()) return Feed(core::StartFailed{id, store::kCommandLost});
  spec->environment = core::WholeEnvironment(*spec);
  spec->variables.clear();
  const absl::StatusOr<pid_t> pid = parts_.jobs->Start(id, *spec);
  if (absl::IsAlreadyExists(pid.status())) return AdoptJob(core::JobRecord(*record));
  if (!pid.ok()) {
    return StartLater(
        id, pid.status(),
        absl::IsResourceExhausted(pid.status()) || absl::IsFailedPrecondition(pid.status()));
  }
  // The shim is our child and not reaped yet, so its pid is its own even if it has ended.
  const absl::StatusOr<host::Process> shim = parts_.host->Find(*pid);
  if (!shim.ok()) return JobEnded(id);
  Attach(id, shim->identity, ProcessTree::Root::kShim);
}

void Engine::Impl::HinderStart(JobId id, const absl::Status& why) {
  hindered_[id] = absl::StrCat("not started yet: ", why.message(), "; it is tried again");
}

// A disk that is full or a shim that is gone does not cost a job its start; a disk that fails has
// some more tries.
void Engine::Impl::StartLater(JobId id, const absl::Status& why, bool for_ever) {
  const int tries = ++starts_[id];
  if (!for_ever && tries > kMaxStarts) {
    return Feed(core::StartFailed{id, std::string(why.message())});
  }
  HinderStart(id, why);
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

void Engine::Impl::Attach(JobId id, const core::ProcessIdentity& root, ProcessTree::Root kind,
                          std::optional<JobId> inside) {
  tree_.Add(id, root, kind);
  hindered_.erase(id);
  Feed(core::Started{id, root, parts_.host->BootId(), inside});
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
      if (StillThere(*record.root)) AwaitReturn(record);
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
      return Feed(core::Exited{record.id, found->result.outcome, 0, "", found->result.end_time});
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
  if (there) {
    return Attach(record.id, *record.root, ProcessTree::Root::kMember,
                  ClientAround(record.root->pid));
  }
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
      return Feed(core::Exited{record.id, found->result.outcome, 0, "", found->result.end_time});
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
  if (record->kind == core::JobKind::kSession) {
    if (!PassOnFrom(*id, identity)) SessionEnded(*id);
    return;
  }
  if (core_->IsPending(*id)) return Feed(core::ClientGone{*id});
  Guarded& guarded = guarded_[*id];
  guarded.report_by = ReportBy(*record, guarded);
}

// Its stream may live on, in a child that has it open.
void Engine::Impl::SessionEnded(JobId id) {
  (void)UpdateTree();  // what it knew stands, if the table cannot be read
  Feed(core::ClientGone{id, static_cast<int>(tree_.MembersOf(id).size())});
  SampleSoon();
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

}  // namespace stageload::engine
