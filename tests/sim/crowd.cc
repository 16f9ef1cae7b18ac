#include "tests/sim/crowd.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stageload::sim {

using core::JobId;
using core::JobKind;
using core::JobRecord;
using core::JobState;
using core::LeaseId;

namespace {

// No request's kill_free is above 45 %, and a lease is forced 5 % above it.
constexpr double kLowestForcedLevel = 50;

}  // namespace

void Crowd::After(absl::Duration span, std::function<void()> what) {
  agenda_.At(world_.time() + span, std::move(what));
}

// ---- Coming ----

void Crowd::Arrive() {
  for (int i = 0; i < plan_.requests; ++i) {
    const int request = Add(DrawAsk(random_, plan_));
    // Many at once at the beginning, the rest later.
    const absl::Duration at = random_.Chance(0.4)
                                  ? absl::Seconds(0.5)
                                  : random_.Between(absl::ZeroDuration(), plan_.length * 0.8);
    agenda_.At(at, [this, request] { Come(request, 3); });
  }
  if (plan_.user_actions > 0) Meddle();
}

int Crowd::Add(Ask ask) {
  requests_.push_back({});
  requests_.back().ask = std::move(ask);
  return static_cast<int>(requests_.size()) - 1;
}

void Crowd::Come(int request, int tries) {
  Request& one = At(request);
  if (one.over) return;  // the machine went down meanwhile
  if (!daemon_->up()) {
    if (tries > 0 && !settling_) {
      After(random_.Between(absl::Seconds(0.5), absl::Seconds(3)),
            [this, request, tries] { Come(request, tries - 1); });
    }
    return;
  }
  core::Submit& submit = one.ask.submit;
  if (submit.kind != JobKind::kJob && !one.root) {
    auto program = one.ask.program;
    if (submit.kind == JobKind::kSession) {
      // It loads as it is granted, and ends when it leaves.
      Program waits = *program;
      waits.steps.clear();
      waits.lifetime = absl::InfiniteDuration();
      program = std::make_shared<const Program>(std::move(waits));
    }
    one.root = world_.Spawn(program, request, Role::kMain);
    world_.Find(*one.root)->held_back = submit.kind == JobKind::kGuard;
    if (submit.kind == JobKind::kSession) world_.Tell(*one.root, MiB(50), GiB(1));
  }
  if (one.root && world_.Find(*one.root) == nullptr) return;  // ended before it could come back
  submit.root = one.root;
  submit.boot_id = one.root ? world_.boot_id() : "";
  if (submit.kind != JobKind::kSession && random_.Chance(0.25)) {
    const int parents = random_.Between(1, 2);
    for (int i = 0; i < parents; ++i) submit.after.push_back(AnyId());
  }
  if (submit.begin_time) {
    submit.begin_time = world_.Now().wall + random_.Between(absl::Seconds(-5), absl::Seconds(25));
  }
  one.there = submit.kind != JobKind::kJob;
  daemon_->Post([this, request] { daemon_->Submit(request); });
}

void Crowd::Accepted(int request, JobId) {
  Request& one = At(request);
  if (one.ask.submit.kind != JobKind::kJob && !one.there) {
    daemon_->Post([this, request] { daemon_->StreamGone(request); });
    return;
  }
  if (!one.loaded_before.empty()) {
    return After(random_.Between(absl::ZeroDuration(), absl::Milliseconds(250)),
                 [this, request] { TakeUp(request); });
  }
  if (one.ask.submit.kind == JobKind::kSession) {
    After(random_.Between(absl::ZeroDuration(), absl::Seconds(2)),
          [this, request] { NextStage(request); });
  }
}

void Crowd::Refused(int request) {
  Request& one = At(request);
  one.there = false;
  one.over = true;
  if (one.root)
    world_.End(*one.root, core::Outcome{.exit_code = 1, .signal = {}, .start_errno = {}});
}

void Crowd::GuardMayStart(int request) {
  Request& one = At(request);
  Process* process = one.root ? world_.Find(*one.root) : nullptr;
  if (process != nullptr && one.there) process->held_back = false;
}

// The command runs on, or is never run.
void Crowd::GuardUnknown(int request) {
  Request& one = At(request);
  one.there = false;
  const Process* process = one.root ? world_.Find(*one.root) : nullptr;
  if (process != nullptr && process->held_back) {
    world_.End(*one.root, core::Outcome{.exit_code = 1, .signal = {}, .start_errno = {}});
  }
}

// ---- Meddling ----

void Crowd::Meddle() {
  const absl::Duration mean = absl::Minutes(1) / plan_.user_actions;
  After(random_.Between(mean * 0.1, mean * 1.9), [this] {
    if (settling_) return;
    if (daemon_->up()) DoAnything();
    Meddle();
  });
}

// Mostly of one that is there; now and then of one that has ended or never was.
JobId Crowd::AnyId() {
  if (!daemon_->up()) return JobId{1};
  const auto& known = daemon_->requests();
  if (known.empty() || random_.Chance(0.03)) return JobId{random_.Between(1, 40)};
  std::vector<JobId> ids;
  for (const auto& [id, request] : known) {
    if (random_.Chance(0.05) || daemon_->core().Find(id) != nullptr) ids.push_back(id);
  }
  if (ids.empty()) return known.rbegin()->first;
  return random_.Pick(ids);
}

void Crowd::DoAnything() {
  const JobId id = AnyId();
  const auto feed = [this](const core::Event& event) {
    daemon_->Post([this, event] { daemon_->Feed(event); });
  };
  switch (random_.Between(0, 12)) {
    case 0:
      return feed(core::CancelAsked{id});
    case 1:
      feed(core::CancelAsked{id});
      return feed(core::CancelAsked{id});
    case 2:
      return feed(core::HoldAsked{id});
    case 3:
    case 4:
      return feed(core::ReleaseAsked{id});
    case 5:
      return feed(core::SuspendAsked{id});
    case 6:
    case 7:
      return feed(core::ResumeAsked{id});
    case 8:
      return ChangeTerms(id);
    case 9: {
      feed(core::HoldQueueAsked{"held by a user"});
      After(random_.Between(absl::Seconds(0.1), absl::Seconds(8)),
            [feed] { feed(core::ReleaseQueueAsked{}); });
      return;
    }
    case 10:
      return feed(core::ReleaseQueueAsked{});
    case 11: {
      feed(core::DrainAsked{true});
      After(random_.Between(absl::Seconds(0.1), absl::Seconds(8)),
            [feed] { feed(core::DrainAsked{false}); });
      return;
    }
    default: {
      // A guard's or session's stream ends, or the whole of it.
      const auto found = daemon_->requests().find(id);
      if (found == daemon_->requests().end()) return;
      const int request = found->second;
      Request& one = At(request);
      if (!one.there) return;
      one.there = false;
      const Process* process = world_.Find(*one.root);
      if (process != nullptr && (process->held_back || random_.Chance(0.5))) {
        world_.End(*one.root, core::Outcome{.exit_code = {}, .signal = 9, .start_errno = {}});
      }
      daemon_->Post([this, request] { daemon_->StreamGone(request); });
    }
  }
}

bool Crowd::CancelAHolder() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    Request& one = requests_[i];
    const auto id = daemon_->IdOf(static_cast<int>(i));
    if (!one.there || one.over || one.holds.empty() || !id) continue;
    one.ask.comes_back = true;
    return daemon_->Post([this, id] { daemon_->Feed(core::CancelAsked{*id}); });
  }
  return false;
}

void Crowd::ChangeTerms(JobId id) {
  const JobRecord* record = daemon_->core().Find(id);
  if (record == nullptr) return;
  core::Policy policy = record->policy;
  switch (random_.Between(0, 3)) {
    case 0:
      policy.priority = static_cast<int>(random_.Between(-5, 5));
      break;
    case 1:
      policy.swap_budget = policy.swap_budget * random_.Between(0.5, 3.0);
      break;
    case 2:
      policy.start_timeout = random_.Between(absl::Seconds(5), absl::Seconds(60));
      break;
    default:
      if (policy.memory) policy.memory = *policy.memory * random_.Between(0.5, 1.5);
  }
  daemon_->Post([this, id, policy] { daemon_->Update(id, policy); });
}

// ---- Sessions ----

bool Crowd::IsStopped(int request) {
  const Request& one = At(request);
  const Process* process = one.root ? world_.Find(*one.root) : nullptr;
  return process != nullptr && process->stopped;
}

void Crowd::NextStage(int request) {
  Request& one = At(request);
  if (!one.there || one.over || one.asking || one.waits) return;
  if (IsStopped(request)) {
    return After(absl::Seconds(0.5), [this, request] { NextStage(request); });
  }
  if (one.stage >= one.ask.stages.size()) return Leave(request);
  const Ask::Stage& stage = one.ask.stages[one.stage];
  const core::Acquire acquire{.token = 0,
                              .client = JobId{},
                              .stage = absl::StrCat("s", one.stage),
                              .memory = stage.memory,
                              .start_timeout = stage.start_timeout};
  one.asking = true;
  daemon_->Post([this, request, acquire] { daemon_->Acquire(request, acquire); });
}

void Crowd::LeaseQueued(int request, LeaseId lease) {
  Request& one = At(request);
  if (one.taking_up) return;
  one.asking = false;
  one.waits = lease;
  if (!random_.Chance(0.1)) return;
  // It changes its mind while it waits.
  After(random_.Between(absl::ZeroDuration(), absl::Seconds(4)), [this, request, lease] {
    Request& two = At(request);
    if (two.waits != lease || !two.there) return;
    two.waits.reset();
    ++two.stage;
    daemon_->Post([this, lease] { daemon_->Feed(core::LeaseReleased{lease}); });
    NextStage(request);
  });
}

void Crowd::LeaseGranted(int request, LeaseId lease) {
  Request& one = At(request);
  if (one.there && std::exchange(one.taking_up, false)) {
    one.holds.emplace_back(lease, one.loaded_before.back());
    one.loaded_before.pop_back();
    return TakeUp(request);
  }
  if (!one.there || one.waits != lease) {
    // It went, or changed its mind, while the grant was on its way.
    daemon_->Post([this, lease] { daemon_->Feed(core::LeaseReleased{lease}); });
    return;
  }
  one.waits.reset();
  Load(request, lease, one.ask.stages[one.stage].memory);
}

void Crowd::Load(int request, LeaseId lease, Bytes memory) {
  Request& one = At(request);
  const Ask::Stage& stage = one.ask.stages[one.stage];
  ++one.stage;
  one.holds.emplace_back(lease, memory);
  const Bytes real = memory * (random_.Chance(plan_.eager) ? random_.Between(1.0, 1.5) : 0.95);
  one.loaded += real;
  world_.Tell(*one.root, MiB(50) + one.loaded, GiB(1) * random_.Between(0.3, 4.0));
  After(stage.hold, [this, request] {
    Request& two = At(request);
    if (two.ask.nests && two.stage < two.ask.stages.size()) return NextStage(request);
    GiveBack(request);
  });
}

// Says what it holds, one after another; then it goes on where it was.
void Crowd::TakeUp(int request) {
  Request& one = At(request);
  if (!one.there || one.over) return;
  if (IsStopped(request)) {
    return After(absl::Seconds(0.5), [this, request] { TakeUp(request); });
  }
  if (one.loaded_before.empty()) {
    return After(random_.Between(absl::ZeroDuration(), absl::Seconds(6)),
                 [this, request] { GiveBack(request); });
  }
  const core::Acquire acquire{.token = 0,
                              .client = JobId{},
                              .stage = "held",
                              .memory = one.loaded_before.back(),
                              .start_timeout = absl::ZeroDuration(),
                              .loaded = true};
  one.taking_up = true;
  daemon_->Post([this, request, acquire] { daemon_->Acquire(request, acquire); });
}

void Crowd::GiveBack(int request) {
  Request& one = At(request);
  if (!one.there) return;
  if (IsStopped(request)) {
    return After(absl::Seconds(0.5), [this, request] { GiveBack(request); });
  }
  one.loaded = Bytes(0);
  world_.Tell(*one.root, MiB(50), GiB(8));
  for (const auto& [lease, memory] : std::exchange(one.holds, {})) {
    const LeaseId id = lease;
    daemon_->Post([this, id] { daemon_->Feed(core::LeaseReleased{id}); });
  }
  After(random_.Between(absl::ZeroDuration(), absl::Seconds(1)),
        [this, request] { NextStage(request); });
}

void Crowd::LeaseDenied(int request, std::optional<LeaseId> lease) {
  Request& one = At(request);
  if (!one.there || (lease && one.waits != lease)) return;
  if (std::exchange(one.taking_up, false)) {
    one.loaded_before.pop_back();
    return TakeUp(request);
  }
  one.asking = false;
  one.waits.reset();
  ++one.stage;
  After(absl::Seconds(0.2), [this, request] { GiveBack(request); });
}

void Crowd::StopRequested(int request) {
  if (!At(request).ask.cooperative) return;
  After(random_.Between(absl::Seconds(0.05), absl::Seconds(3)),
        [this, request] { Leave(request); });
}

void Crowd::Leave(int request) {
  Request& one = At(request);
  one.over = true;
  if (one.root) {
    world_.End(*one.root, core::Outcome{.exit_code = 0, .signal = {}, .start_errno = {}});
  }
}

// ---- What becomes of them ----

void Crowd::Ended(const Exit& exit) {
  if (exit.owner == kUnmanaged) return;
  Request& one = At(exit.owner);
  const int request = exit.owner;
  const JobKind kind = one.ask.submit.kind;
  if (kind == JobKind::kJob) {
    if (exit.role == Role::kMain && one.folder.shim && world_.Find(*one.folder.shim) == nullptr) {
      one.folder.result = exit.outcome;  // its shim, which ends with it, has written it down
    }
    if (exit.role == Role::kShim) {
      daemon_->Post([this, request] { daemon_->RootExited(request); });
    }
    return;
  }
  if (one.root != exit.identity) return;
  if (kind == JobKind::kSession) {
    if (std::exchange(one.there, false)) {
      daemon_->Post([this, request] { daemon_->StreamGone(request); });
    }
    return;
  }
  daemon_->Post([this, request] { daemon_->RootExited(request); });
  one.outcome = exit.outcome;
  if (!one.there) return;
  const core::Outcome outcome = exit.outcome;
  After(random_.Between(absl::ZeroDuration(), absl::Milliseconds(100)), [this, request, outcome] {
    if (!std::exchange(At(request).there, false)) return;
    daemon_->Post([this, request, outcome] { daemon_->ReportExit(request, outcome); });
  });
}

void Crowd::DaemonGone() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    Request& one = requests_[i];
    if (!std::exchange(one.there, false)) continue;
    one.asking = false;
    one.waits.reset();
    one.taking_up = false;
    for (const auto& [lease, memory] : std::exchange(one.holds, {})) {
      one.loaded_before.push_back(memory);
    }
    const int request = static_cast<int>(i);
    if (one.ask.submit.kind == JobKind::kGuard) {
      // Not all do: one is killed meanwhile, one is of an older version.
      if (random_.Chance(0.2)) {
        GuardUnknown(request);
      } else {
        const absl::Duration until = world_.time() + absl::Seconds(10);
        After(random_.Between(absl::Milliseconds(50), absl::Seconds(2)),
              [this, request, until] { ResumeGuard(request, until); });
      }
      continue;
    }
    const Process* process = world_.Find(*one.root);
    if (process == nullptr) continue;
    if (one.ask.comes_back) {
      After(random_.Between(absl::Seconds(0.5), absl::Seconds(8)),
            [this, request] { ComeBack(request); });
    } else {
      After(random_.Between(absl::ZeroDuration(), absl::Seconds(6)),
            [this, request] { Leave(request); });
    }
  }
}

void Crowd::ResumeGuard(int request, absl::Duration until) {
  Request& one = At(request);
  if (!one.root || one.there || one.over) return;
  if (!daemon_->up()) {
    if (world_.time() > until) return GuardUnknown(request);
    return After(absl::Milliseconds(200), [this, request, until] { ResumeGuard(request, until); });
  }
  one.there = true;
  daemon_->Post([this, request] { daemon_->ResumeGuard(request); });
  if (!one.outcome) return;
  one.there = false;  // it has nothing more to say
  daemon_->Post([this, request, outcome = *one.outcome] { daemon_->ReportExit(request, outcome); });
}

// The same process under a new registration.
void Crowd::ComeBack(int request) {
  if (!At(request).root) return;
  Process* process = world_.Find(*At(request).root);
  if (process == nullptr || process->dies_at) return;
  if (settling_) return Leave(request);
  if (process->stopped) {  // and can do nothing until it goes on
    return After(absl::Seconds(1), [this, request] { ComeBack(request); });
  }
  const int again = Add(At(request).ask);
  Request& one = At(again);
  one.root = At(request).root;
  one.ask.comes_back = false;
  one.loaded_before = At(request).loaded_before;
  if (!one.loaded_before.empty()) {
    one.stage = At(request).stage;
    one.loaded = At(request).loaded;
  }
  At(request).over = true;
  process->owner = again;
  Come(again, 3);
}

void Crowd::Rebooted() {
  for (Request& one : requests_) {
    if (!one.root) continue;
    one.there = false;
    one.over = true;
    one.root.reset();  // in the next boot another process may well have the same identity
  }
}

// ---- The end ----

void Crowd::Settle() {
  settling_ = true;
  world_.EndUnmanaged();
  world_.CorrectWall();
  TidyUp();
}

bool Crowd::IsFeasible(const JobRecord& record) const {
  const double idle = 100 * (1 - plan_.machine.wired_share - plan_.machine.others_share);
  if (record.policy.wait_free.value > idle - 8) return false;
  if (record.policy.swap_limit && *record.policy.swap_limit < record.policy.swap_budget)
    return false;
  // It came while another config allowed it.
  const std::optional<Bytes> pool = plan_.config.memory_pool;
  if (pool && record.policy.memory && *record.policy.memory > *pool) return false;
  const Bytes reserve =
      plan_.config.reserve.value_or(plan_.machine.total * plan_.config.reserve_fraction);
  const Bytes room = plan_.machine.total * (idle / 100 - 0.03) - reserve;
  std::optional<Bytes> memory = record.policy.memory;
  if (!memory && record.policy.memory_auto) {
    memory = daemon_->core().profiles().Estimate(record.profile);
  }
  return memory.value_or(Bytes(0)) <= room;
}

// What lives on of a job that has ended, perhaps stopped for ever, is nobody's any more.
void Crowd::EndForgotten() {
  if (!daemon_->up()) return;
  std::vector<core::ProcessIdentity> forgotten;
  for (const Process& process : world_.processes()) {
    if (process.owner == kUnmanaged || At(process.owner).ask.submit.kind == JobKind::kSession) {
      continue;
    }
    const auto id = daemon_->IdOf(process.owner);
    if (!id || daemon_->core().Find(*id) == nullptr) forgotten.push_back(process.identity);
  }
  for (const core::ProcessIdentity& identity : forgotten) {
    world_.End(identity, core::Outcome{.exit_code = {}, .signal = 9, .start_errno = {}});
  }
}

// "If memory keeps being freed": while there is so little that not even a lease may be forced, one
// that holds some and waits for more gives up.
void Crowd::FreeMemory() {
  if (world_.Sample().level->value >= kLowestForcedLevel) return;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    Request& one = requests_[i];
    if (!one.there || !one.waits || one.holds.empty()) continue;
    const LeaseId lease = *std::exchange(one.waits, std::nullopt);
    daemon_->Post([this, lease] { daemon_->Feed(core::LeaseReleased{lease}); });
    one.stage = one.ask.stages.size();
    return GiveBack(static_cast<int>(i));
  }
}

// Nothing may be left that only a user can end.
void Crowd::TidyUp() {
  if (daemon_->up()) {
    const auto feed = [this](const core::Event& event) {
      daemon_->Post([this, event] { daemon_->Feed(event); });
    };
    if (daemon_->core().draining()) feed(core::DrainAsked{false});
    if (daemon_->core().queue_held()) feed(core::ReleaseQueueAsked{});
    for (const auto& [id, request] : daemon_->requests()) {
      const JobRecord* record = daemon_->core().Find(id);
      if (record == nullptr) continue;
      if (record->held) feed(core::ReleaseAsked{id});
      if (record->state == JobState::kSuspended) feed(core::ResumeAsked{id});
      if (record->state == JobState::kPending && !IsFeasible(*record)) feed(core::CancelAsked{id});
    }
  }
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    Request& one = requests_[i];
    if (one.ask.submit.kind != JobKind::kSession || !one.root) continue;
    Process* process = world_.Find(*one.root);
    if (process == nullptr || process->dies_at) continue;
    if (!one.there) Leave(static_cast<int>(i));
  }
  world_.DrainSwap(plan_.machine.swap_total * 0.02);
  EndForgotten();
  FreeMemory();
  After(absl::Seconds(2), [this] { TidyUp(); });
}

}  // namespace stageload::sim
