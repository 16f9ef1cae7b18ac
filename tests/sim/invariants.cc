// The books: what was fed, what came out, and that the two fit.
#include "tests/sim/invariants.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "tests/sim/digest.h"

namespace stageload::sim {

using core::JobId;
using core::JobRecord;
using core::JobState;
using core::LeaseId;
using core::Reason;
using core::Value;

const char* Name(Rule rule) {
  static constexpr const char* kNames[] = {
      "",         "RESERVE",    "ONE_END",  "BYPASS", "SIGNALS", "CHARGES", "FRESH",
      "PROGRESS", "ONE_VICTIM", "BLOCKERS", "STOPS",  "ANSWERS", "STORED"};
  return kNames[static_cast<int>(rule)];
}

const char* Name(Count count) {
  static constexpr const char* kNames[] = {"steps",
                                           "samples",
                                           "submits",
                                           "refused",
                                           "starts",
                                           "starts declared",
                                           "starts auto",
                                           "guard starts",
                                           "guards resumed",
                                           "sessions",
                                           "bypasses",
                                           "leases queued",
                                           "leases granted",
                                           "leases forced",
                                           "leases denied",
                                           "leases taken up",
                                           "leases taken up while stopping",
                                           "stops SWAP_BUDGET",
                                           "stops SWAP_LIMIT",
                                           "stops LOW_MEMORY",
                                           "stops CANCELLED",
                                           "stops TIMEOUT",
                                           "sessions asked to stop",
                                           "suspended for budget",
                                           "suspended by user",
                                           "resumed",
                                           "warned",
                                           "would stop",
                                           "kills",
                                           "early kills",
                                           "stuck",
                                           "signals refused",
                                           "NO_ROOM",
                                           "DEPENDENCY_NEVER",
                                           "start failed",
                                           "NODE_FAIL",
                                           "UNKNOWN",
                                           "COMPLETED",
                                           "FAILED",
                                           "implausible",
                                           "gaps",
                                           "learned",
                                           "restored",
                                           "not saved",
                                           "crashes",
                                           "crashes before commit",
                                           "crashes after commit",
                                           "crashes among effects",
                                           "reboots",
                                           "commit failures",
                                           "sleeps",
                                           "stalls",
                                           "wall steps",
                                           "pids reused",
                                           "signals held back by identity",
                                           "drains",
                                           "config changes",
                                           "queue holds",
                                           "requeued",
                                           "updated",
                                           "store round trips",
                                           "blocked LEVEL",
                                           "blocked PRESSURE",
                                           "blocked SWAP_LIMIT",
                                           "blocked MEMORY",
                                           "blocked STALE",
                                           "blocked WAKING",
                                           "blocked SWAPPING",
                                           "blocked SETTLING",
                                           "blocked RECOVERING",
                                           "blocked BUSY",
                                           "blocked GROUP",
                                           "blocked DEPENDENCY",
                                           "blocked HELD",
                                           "blocked NOT_BEFORE",
                                           "blocked DRAINING",
                                           "blocked QUEUE_HELD",
                                           "blocked ORDER"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Count::kCounts));
  return kNames[static_cast<int>(count)];
}

namespace {

constexpr absl::Duration kSleep = absl::Seconds(2);
constexpr absl::Duration kStall = absl::Minutes(1);
constexpr absl::Duration kSwapWindow = absl::Seconds(5);
constexpr absl::Duration kRecovery = absl::Seconds(4);
constexpr Bytes kRecoverFrom = GiB(1);

// The rules' own words for what cannot be true, written a second time.
core::HostSample Believable(core::HostSample sample) {
  for (auto* bytes : {&sample.total, &sample.available, &sample.swap_used, &sample.swap_total,
                      &sample.pageable_internal}) {
    if (*bytes && **bytes < Bytes(0)) bytes->reset();
  }
  if (sample.total == Bytes(0)) sample.total.reset();
  if (sample.level && (sample.level->value < 0 || sample.level->value > 100)) sample.level.reset();
  if (sample.total && sample.available && *sample.available > *sample.total) {
    sample.available.reset();
  }
  if (sample.swap_total && sample.swap_used && *sample.swap_used > *sample.swap_total) {
    sample.swap_used.reset();
  }
  return sample;
}

}  // namespace

void Invariants::Break(Rule rule, std::string text) {
  if (violation_) return;  // what follows from the first is no news
  violation_ = Violation{rule, std::move(text)};
}

bool Invariants::IsLive(JobId id) const { return pending_.count(id) > 0 || active_.count(id) > 0; }

std::optional<JobState> Invariants::StateOnDisk(JobId id) const {
  const auto found = disk_.find(id);
  if (found == disk_.end()) return std::nullopt;
  return found->second.row.state;
}

Invariants::Own* Invariants::Active(JobId id) {
  return active_.count(id) > 0 ? &own_.at(id) : nullptr;
}

Bytes Invariants::Outstanding(const Own& own) const {
  if (!own.expected) return Bytes(0);
  const Bytes held = std::max(Bytes(0), own.usage.footprint.value_or(Bytes(0)));
  return std::max(Bytes(0), *own.expected - held);
}

Bytes Invariants::Declared(const Own& own) const {
  Bytes declared = own.row.policy.memory.value_or(Bytes(0));
  for (const LeaseId lease : own.leases) declared += leases_.at(lease).memory;
  return declared;
}

absl::Duration Invariants::RunningTime(const Own& own) const {
  absl::Duration running = time_ - own.started - own.suspended_for;
  if (own.suspended_at) running -= time_ - *own.suspended_at;
  return running;
}

// ---- Before the step ----

void Invariants::Before(absl::Duration time, const Instant& now, const core::Event& event) {
  if (violation_) return;  // the books may not fit any more
  ++counters_[Count::kSteps];
  ++steps_;
  time_ = time;
  now_ = now;
  event_ = &event;
  acquiring_.reset();
  taken_up_ = false;
  accepting_.reset();
  starting_.reset();
  // A daemon that had not begun before a sleep cannot know of it.
  if (woke_at_ && !newest_) woke_at_.reset();
  if (woke_at_ && !noticed_at_) noticed_at_ = now.awake;
  newest_ = now.awake;
  for (const JobId id : pending_) {
    Own& own = own_.at(id);
    if (!own.row.begin_time || *own.row.begin_time <= now.wall) own.due = true;
  }

  std::visit([this](const auto& what) { On(what); }, event);
}

void Invariants::On(const core::Submit& submit) {
  ++counters_[Count::kSubmits];
  asked_[submit.token] = false;
}

void Invariants::On(const core::Acquire& acquire) {
  asked_[acquire.token] = false;
  acquiring_ = acquire;
}

void Invariants::On(const core::ProgramsReturning& returning) {
  returning_until_ = returning.until;
}

void Invariants::On(const core::HoldAsked& hold) {
  if (pending_.count(hold.id) > 0) own_.at(hold.id).row.held = true;
}

void Invariants::On(const core::ReleaseAsked& release) {
  if (pending_.count(release.id) > 0) own_.at(release.id).row.held = false;
}

void Invariants::On(const core::DrainAsked& asked) {
  if (asked.drain && !draining_) ++counters_[Count::kDrains];
  draining_ = asked.drain;
}

void Invariants::On(const core::ConfigChanged& changed) {
  ++counters_[Count::kConfigs];
  config_ = changed.config;
}

void Invariants::On(const core::QueueHeldRestored&) {
  if (!queue_held_) Break(Rule::kStored, "the queue comes back held and was not");
}

void Invariants::On(const core::QueueHeld& held) {
  if (held.text.has_value() == queue_held_) Break(Rule::kAnswers, "QueueHeld without a change");
  queue_held_ = held.text.has_value();
  if (queue_held_) ++counters_[Count::kQueueHolds];
  if (queue_held_ && held.text->empty()) Break(Rule::kBlockers, "the queue is held without words");
}

void Invariants::On(const core::UpdateAsked& asked) {
  ++counters_[Count::kUpdated];
  Own* own = Active(asked.id);
  if (own != nullptr && own->row.policy.swap_budget != asked.policy.swap_budget) {
    own->warned = false;
  }
}

void Invariants::On(const core::Started& started) {
  if (Own* own = Active(started.id)) own->attached = true;
}

void Invariants::On(const core::SignalRefused& refused) {
  ++counters_[Count::kSignalRefused];
  if (Own* own = Active(refused.id)) own->stuck = own->deaf = true;
}

void Invariants::On(const core::NotSaved& lost) {
  ++counters_[Count::kNotSaved];
  own_.at(lost.id).gone = true;
  if (settling_ == lost.id) settling_.reset();
  pending_.erase(lost.id);
  active_.erase(lost.id);
  dirty_.erase(lost.id);
}

void Invariants::On(const core::LeaseReleased& released) {
  const auto found = leases_.find(released.id);
  if (found == leases_.end()) return;
  const OwnLease lease = found->second;
  leases_.erase(found);
  Own* own = Active(lease.client);
  if (!lease.granted || own == nullptr) return;
  own->leases.erase(released.id);
  own->expected = own->leases.empty()
                      ? own->row.policy.memory
                      : std::optional(own->expected.value_or(Bytes(0)) - lease.memory);
}

void Invariants::On(const core::SampleTaken& taken) {
  ++counters_[Count::kSamples];
  const core::Sample& sample = taken.sample;
  const absl::Duration since_last = sampled_ ? now_.awake - sampled_->awake : absl::ZeroDuration();
  const bool gap = sampled_ && (now_.continuous - sampled_->continuous - since_last > kSleep ||
                                since_last > kStall);
  sample_after_gap_ = gap;
  host_ = Believable(sample.host);
  TakeSwap(host_.swap_used, gap);
  sampled_ = now_;
  if (host_.available) {
    for (Ended& ended : ended_) {
      ended.most = std::max(ended.most.value_or(*host_.available), *host_.available);
    }
  }
  TakeUsage(sample);
  TakeBusy(sample);
  TakeLevel(since_last, gap);
}

void Invariants::TakeUsage(const core::Sample& sample) {
  for (const core::ClientUsage& reading : sample.clients) {
    Own* own = Active(reading.id);
    if (own == nullptr) continue;
    own->usage = reading.usage;
    const bool read = reading.processes > 0 && reading.usage.footprint >= Bytes(0);
    own->was_read = own->was_read || read;
  }
  for (const JobId id : active_) {
    Own& own = own_.at(id);
    if (active_.size() > 1) own.had_company = true;
    const bool stopping = own.row.state == JobState::kStopping;
    if (stopping && !own.swap_at_stop) own.swap_at_stop = host_.swap_used;
  }
}

void Invariants::TakeBusy(const core::Sample& sample) {
  for (const core::BusyReading& busy : sample.busy) {
    if (busy.match.empty()) continue;
    for (const JobId id : pending_) {
      Own& own = own_.at(id);
      const auto& patterns = own.row.policy.busy;
      if (std::find(patterns.begin(), patterns.end(), busy.pattern) == patterns.end()) continue;
      own.last_busy = now_.awake;
    }
  }
}

void Invariants::TakeLevel(absl::Duration since_last, bool gap) {
  for (const JobId id : active_) {
    Own& own = own_.at(id);
    const bool low = host_.level && *host_.level < own.row.policy.kill_free;
    if (!low || gap) own.low_since.reset();
    if (gap) {
      own.low_samples = 0;
      own.low_for = absl::ZeroDuration();
    }
    if (!low) continue;
    if (!own.low_since) own.low_since = now_.awake;
    if (own.low_samples++ > 0) own.low_for += since_last;
  }
}

// What changed while anybody was active, but for what changed over a gap.
void Invariants::TakeSwap(std::optional<Bytes> swap_used, bool gap) {
  if (!sampled_ && baseline_at_) {  // the daemon before took it
    gap = now_.awake - *baseline_at_ > kStall || (slept_at_ && *slept_at_ >= *baseline_at_);
  }
  if (gap) {
    baseline_.reset();
    for (const JobId id : active_) own_.at(id).alone = false;
  }
  if (swap_used && baseline_ && !active_.empty()) total_growth_ += *swap_used - *baseline_;
  if (swap_used) baseline_ = swap_used;

  if (gap) swap_window_.clear();
  if (swap_used) swap_window_.push_back({now_.awake, *swap_used});
  while (swap_window_.size() > 1 && swap_window_[1].at <= now_.awake - kSwapWindow) {
    swap_window_.pop_front();
  }
}

// ---- After the step ----

void Invariants::After(const core::Event& event, const core::Effects& effects,
                       const core::Scheduler& core) {
  if (violation_) return;
  core_ = &core;
  if (std::holds_alternative<core::SampleTaken>(event)) {
    // Of those that end in this step the charge before counts on.
    for (const JobId id : active_) {
      if (core.Find(id) != nullptr) own_.at(id).charge = core.ledger().Of(id).charge;
    }
  }
  for (const core::Effect& effect : effects) {
    TakeEffect(effect);
    if (violation_) return;
  }
  if (queue_held_ != core.queue_held().has_value()) {
    Break(Rule::kStored, "whether the queue is held is not what was written down");
  }
  if (starting_) {
    Break(Rule::kAnswers, absl::StrCat("job ", Value(*starting_), " is RUNNING without a Start"));
  }
  if (std::holds_alternative<core::SampleTaken>(event)) {
    interval_ = core.SampleInterval(0);
  }
  CheckAnswers();
  CheckSums(core);
  CheckOverdue(core);
  CheckNobodyIsForgotten();
  CheckCounts(core);
}

// The row is there again as it was on disk, whatever the core makes of it now.
void Invariants::On(const core::Restored& restored) {
  ++counters_[Count::kRestored];
  const JobRecord& row = restored.record;
  Own& own = own_.at(row.id);
  if (row.state == JobState::kPending) {
    pending_.insert(row.id);
    return;
  }
  active_.insert(row.id);
  total_growth_ += row.charge;
  own.expected = row.policy.memory;
  own.alone = false;
  absl::Duration started = row.started_awake.value_or(now_.awake);
  if (row.boot_id.empty()) {
    // Nobody has ever seen a process of it: its life begins now.
    started = now_.awake;
    own.started = time_;
    own.suspended_for = absl::ZeroDuration();
    if (own.suspended_at) own.suspended_at = time_;
    own.terminated.reset();
  } else if (own.boot == boot_) {
    ResumeSwap(row);
  }
  if (!row.policy.memory && row.kind != core::JobKind::kSession &&
      (!settling_ || started > settling_since_)) {
    settling_ = row.id;
    settling_since_ = started;
  }
}

// Swap counts on from what the daemon before read last.
void Invariants::ResumeSwap(const JobRecord& row) {
  const auto at = row.charge_awake;
  if (!at || !row.swap_at_charge || *at > now_.awake) return;
  if (baseline_at_ && *baseline_at_ >= *at) return;
  baseline_ = row.swap_at_charge;
  baseline_at_ = at;
}

void Invariants::CheckAnswers() {
  if (const auto* submit = std::get_if<core::Submit>(event_)) {
    if (!asked_[submit->token]) {
      Break(Rule::kAnswers, absl::StrCat("submit ", submit->token, " was not answered"));
    }
  }
  if (acquiring_ && !asked_[acquiring_->token]) {
    Break(Rule::kAnswers, absl::StrCat("acquire ", acquiring_->token, " was not answered"));
  }
  if (acquiring_ && acquiring_->loaded && Active(acquiring_->client) != nullptr && !taken_up_) {
    Break(Rule::kReserve, absl::StrCat("what client ", Value(acquiring_->client), " has loaded, ",
                                       FormatBytes(acquiring_->memory), ", is declared nowhere"));
  }
}

void Invariants::CheckCounts(const core::Scheduler& core) {
  if (core.pending() != static_cast<int>(pending_.size()) ||
      core.active() != static_cast<int>(active_.size())) {
    Break(Rule::kOneEnd, absl::StrCat("the core has ", core.pending(), " pending and ",
                                      core.active(), " active, by the books there are ",
                                      pending_.size(), " and ", active_.size()));
  }
  for (const JobId id : pending_) {
    if (!core.IsPending(id)) {
      Break(Rule::kOneEnd, absl::StrCat("job ", Value(id), " waits no more and has not ended"));
    }
  }
  // The words for why something waits are dear, so they are asked for now and then.
  if (steps_ % 16 == 0) CountBlockers(core);
}

void Invariants::CountBlockers(const core::Scheduler& core) {
  if (pending_.empty()) return;
  auto which = pending_.begin();
  std::advance(which, static_cast<std::ptrdiff_t>((steps_ / 16) % pending_.size()));
  const std::vector<core::Blocker> blockers = core.BlockersOf(now_, *which);
  if (blockers.empty()) {
    Break(Rule::kAnswers, absl::StrCat("job ", Value(*which), " waits and nothing blocks it"));
  }
  using core::BlockerKind;
  static const std::map<BlockerKind, Count> kCountOf = {
      {BlockerKind::kLevel, Count::kBlockedLevel},
      {BlockerKind::kPressure, Count::kBlockedPressure},
      {BlockerKind::kSwapLimit, Count::kBlockedSwapLimit},
      {BlockerKind::kMemory, Count::kBlockedMemory},
      {BlockerKind::kStale, Count::kBlockedStale},
      {BlockerKind::kWaking, Count::kBlockedWaking},
      {BlockerKind::kSwapping, Count::kBlockedSwapping},
      {BlockerKind::kSettling, Count::kBlockedSettling},
      {BlockerKind::kRecovering, Count::kBlockedRecovering},
      {BlockerKind::kBusy, Count::kBlockedBusy},
      {BlockerKind::kGroup, Count::kBlockedGroup},
      {BlockerKind::kDependency, Count::kBlockedDependency},
      {BlockerKind::kHeld, Count::kBlockedHeld},
      {BlockerKind::kNotBefore, Count::kBlockedNotBefore},
      {BlockerKind::kDraining, Count::kBlockedDraining},
      {BlockerKind::kQueueHeld, Count::kBlockedQueueHeld},
      {BlockerKind::kOrder, Count::kBlockedOrder}};
  for (const core::Blocker& blocker : blockers) {
    if (blocker.text.empty()) {
      Break(Rule::kAnswers, absl::StrCat("a blocker ", Name(blocker.kind), " without words"));
    }
    if (const auto count = kCountOf.find(blocker.kind); count != kCountOf.end()) {
      ++counters_[count->second];
    }
  }
}

// ---- Effects ----

void Invariants::TakeEffect(const core::Effect& effect) {
  if (accepting_ && !std::holds_alternative<core::Accepted>(effect)) {
    Break(Rule::kAnswers, "a new row is not followed by its Accepted");
  }
  if (starting_ && !std::holds_alternative<core::Start>(effect)) {
    Break(Rule::kAnswers, "an admission is not followed by its Start");
  }
  std::visit([this](const auto& what) { On(what); }, effect);
}

void Invariants::Answer(std::uint64_t token) {
  const auto asked = asked_.find(token);
  if (asked == asked_.end() || std::exchange(asked->second, true)) {
    Break(Rule::kAnswers, absl::StrCat("token ", token, " is answered twice or never asked"));
  }
}

void Invariants::MustBeLive(JobId id, const char* what) {
  if (!IsLive(id)) Break(Rule::kAnswers, absl::StrCat(what, " for ", Value(id), ", not there"));
}

void Invariants::On(const core::Accepted& accepted) {
  Answer(accepted.token);
  if (accepting_ != accepted.id) Break(Rule::kAnswers, "Accepted without a new row");
  accepting_.reset();
}

void Invariants::On(const core::Refused& refused) {
  Answer(refused.token);
  ++counters_[Count::kRefused];
  if (refused.status.ok()) Break(Rule::kAnswers, "refused with OK");
}

void Invariants::On(const core::Start& start) {
  if (starting_ != start.id) Break(Rule::kAnswers, "Start without a RUNNING row");
  starting_.reset();
}

void Invariants::On(const core::Signal& signal) {
  MustBeLive(signal.id, "Signal");
  CheckSignal(signal);
}

void Invariants::On(const core::Warned& warned) {
  MustBeLive(warned.id, "Warned");
  if (warned.charge <= Bytes(0)) Break(Rule::kStops, "Warned of no charge");
}

void Invariants::On(const core::StopRequested& stop) {
  MustBeLive(stop.id, "StopRequested");
  ++counters_[Count::kStopAsked];
  if (stop.text.empty()) Break(Rule::kStops, "StopRequested without words");
}

void Invariants::On(const core::LeaseQueued& queued) {
  Answer(queued.token);
  ++counters_[Count::kLeasesQueued];
  if (!acquiring_ || acquiring_->token != queued.token || leases_.count(queued.id) > 0) {
    return Break(Rule::kAnswers, "LeaseQueued that nobody asked for");
  }
  const Own* client = Active(acquiring_->client);
  if (client == nullptr) return Break(Rule::kAnswers, "a lease for who is not active");
  OwnLease& lease = leases_[queued.id];
  lease = {acquiring_->client, acquiring_->memory, client->row.policy.priority};
  lease.waits = acquiring_->start_timeout != absl::ZeroDuration();
  lease.loaded = acquiring_->loaded;
}

void Invariants::On(const core::LeaseGranted& granted) {
  MustBeLive(granted.client, "LeaseGranted");
  CheckLease(granted);
}

void Invariants::On(const core::LeaseDenied& denied) {
  ++counters_[Count::kLeasesDenied];
  const auto lease = leases_.find(denied.id);
  if (lease == leases_.end() || lease->second.granted || denied.status.ok()) {
    return Break(Rule::kAnswers,
                 absl::StrCat("lease ", Value(denied.id), " is denied, but not waiting"));
  }
  leases_.erase(lease);
}

void Invariants::On(const core::Learned& learned) {
  ++counters_[Count::kLearned];
  CheckLesson(learned);
}

void Invariants::On(const core::Note& note) {
  if (note.kind == "warned") ++counters_[Count::kWarned];
  if (note.kind == "implausible") ++counters_[Count::kImplausible];
  if (note.kind == "gap") ++counters_[Count::kGaps];
  if (note.kind == "resumed") ++counters_[Count::kResumed];
  if (!note.job) return;
  const auto found = own_.find(*note.job);
  if (found == own_.end()) {
    return Break(Rule::kAnswers,
                 absl::StrCat("a note ", note.kind, " for an unknown ", Value(*note.job)));
  }
  if (note.kind == "would_stop") {
    ++counters_[Count::kWouldStop];
    if (!config_.dry_run) Break(Rule::kStops, "would_stop without a dry run");
    found->second.would_stop = true;
  }
  if (note.kind == "warned") found->second.warned = true;
  if (note.kind == "stuck") {
    ++counters_[Count::kStuck];
    found->second.stuck = true;
  }
}

void Invariants::On(const core::Save& save) {
  const JobRecord& row = save.record;
  dirty_.insert(row.id);
  if (save.added) return TakeNew(row);
  if (!IsLive(row.id)) {
    return Break(Rule::kOneEnd,
                 absl::StrCat("a row for ", Value(row.id),
                              ", which is not there or has ended: ", core::Name(row.state)));
  }
  Own& own = own_.at(row.id);
  if (own.row.state != row.state) TakeChange(own, row);
  if (row.bypassed > own.row.bypassed) ++counters_[Count::kBypasses];
  own.row = row;
  own.boot = boot_;
}

void Invariants::TakeNew(const JobRecord& row) {
  if (own_.count(row.id) > 0) {
    return Break(Rule::kOneEnd, absl::StrCat("id ", Value(row.id), " is used again"));
  }
  Own& own = own_[row.id];
  own.row = row;
  own.boot = boot_;
  own.due = !row.begin_time || *row.begin_time <= now_.wall;
  own.parents = std::get<core::Submit>(*event_).after;
  accepting_ = row.id;
  if (row.state == JobState::kPending) {
    pending_.insert(row.id);
  } else {
    ++counters_[Count::kSessions];
    Begin(own, row);
  }
}

void Invariants::TakeChange(Own& own, const JobRecord& row) {
  const JobState before = own.row.state;
  if (core::IsEnd(row.state)) return TakeEnd(own, row);
  if (core::IsActive(before) && row.state == JobState::kPending) return TakeRequeue(own, row);
  if (before == JobState::kPending && row.state == JobState::kRunning) {
    CheckAdmission(own, row);
    pending_.erase(row.id);
    Begin(own, row);
    starting_ = row.id;
    settling_.reset();
    if (row.policy.memory) return;
    settling_ = row.id;
    settling_since_ = now_.awake;
  } else if (row.state == JobState::kStopping) {
    CheckStop(own, row);
    own.swap_at_stop = host_.swap_used;
  } else if (row.state == JobState::kSuspended) {
    CheckSuspend(own, row);
    own.suspended_at = time_;
  } else if (before == JobState::kSuspended && row.state == JobState::kRunning) {
    // One that refused its signal has run all the time.
    if (!std::holds_alternative<core::SignalRefused>(*event_)) {
      if (own.suspended_at) own.suspended_for += time_ - *own.suspended_at;
      if (own.row.reason == Reason::kSwapBudget) own.warned = false;  // its budget is whole again
    }
    own.suspended_at.reset();
  } else {
    Break(Rule::kOneEnd, absl::StrCat("job ", Value(row.id), " goes from ", core::Name(before),
                                      " to ", core::Name(row.state)));
  }
}

// One that ran waits again: only after a reboot, and nothing of its run stands in its row.
void Invariants::TakeRequeue(Own& own, const JobRecord& row) {
  const std::string who = absl::StrCat("job ", Value(row.id));
  ++counters_[Count::kRequeued];
  if (!std::holds_alternative<core::NodeFailed>(*event_) || !row.requeue) {
    Break(Rule::kOneEnd, absl::StrCat(who, " waits again without a reboot or --requeue"));
  }
  if (!row.held || !queue_held_) {
    Break(Rule::kBlockers, absl::StrCat(who, " waits again and is not held"));
  }
  if (row.start_time || row.root || !row.boot_id.empty() || row.charge != Bytes(0)) {
    Break(Rule::kStored, absl::StrCat(who, " waits again with what its last run has left"));
  }
  if (settling_ == row.id) settling_.reset();
  active_.erase(row.id);
  const std::vector<JobId> parents = own.parents;
  own = Own{};
  own.parents = parents;
  own.due = true;
  pending_.insert(row.id);
}

// One becomes active.
void Invariants::Begin(Own& own, const JobRecord& row) {
  for (const JobId other : active_) own_.at(other).alone = false;
  own.alone = active_.empty();
  own.swap_at_start = baseline_;
  own.started = time_;
  own.attached = row.kind != core::JobKind::kJob;
  own.expected = row.policy.memory;
  active_.insert(row.id);
}

void Invariants::TakeEnd(Own& own, const JobRecord& row) {
  const JobId id = row.id;
  CheckEndState(own, row);
  if (active_.count(id) > 0) {
    if (own.row.state == JobState::kStopping && own.row.reason == Reason::kLowMemory) {
      victim_gone_ = now_.awake;
    }
    last_end_ = now_.awake;
    const Bytes held = own.usage.footprint.value_or(Bytes(0));
    if (held >= kRecoverFrom)
      ended_.push_back({now_.awake, held, host_.available, host_.available});
    if (settling_ == id) settling_.reset();
    for (auto lease = leases_.begin(); lease != leases_.end();) {
      if (lease->second.client == id && !lease->second.granted) {
        Break(Rule::kAnswers,
              absl::StrCat("lease ", Value(lease->first), " waits for one that ended"));
      }
      lease = lease->second.client == id ? leases_.erase(lease) : std::next(lease);
    }
    own.leases.clear();
  }
  while (!ended_.empty() && now_.awake - ended_.front().at > kRecovery) ended_.pop_front();
  pending_.erase(id);
  active_.erase(id);
}

// ---- The disk, and another daemon ----

void Invariants::Committed() {
  if (violation_) return;
  for (const JobId id : dirty_) {
    if (!own_.at(id).gone) disk_[id] = own_.at(id);
  }
  dirty_.clear();
  queue_held_on_disk_ = queue_held_;
}

void Invariants::Restarted(int boot) {
  if (boot != boot_) slept_at_.reset();
  boot_ = boot;
  own_ = disk_;
  dirty_.clear();
  pending_.clear();
  active_.clear();
  leases_.clear();
  asked_.clear();
  host_ = {};
  sampled_.reset();
  interval_ = absl::Milliseconds(500);
  newest_.reset();
  woke_at_.reset();
  noticed_at_.reset();
  swap_window_.clear();
  settling_.reset();
  returning_until_ = -absl::InfiniteDuration();
  draining_ = false;
  queue_held_ = queue_held_on_disk_;
  victim_gone_.reset();
  ended_.clear();
  last_end_.reset();
  baseline_.reset();
  baseline_at_.reset();
  total_growth_ = Bytes(0);
  for (auto& [id, own] : own_) {
    own.warned = false;
    own.attached = own.killed = own.stuck = own.deaf = own.would_stop = false;
    own.last_busy.reset();
    own.low_since.reset();
    own.low_samples = 0;
    own.low_for = absl::ZeroDuration();
    own.swap_at_stop.reset();
    own.usage = {};
    own.charge = own.row.charge;
    own.leases.clear();
    own.due = false;
  }
}

void Invariants::AfterRestore(const core::Scheduler& core) {
  for (const auto& [id, own] : own_) {
    if (core::IsEnd(own.row.state)) continue;
    if (core.Find(id) == nullptr) {
      Break(Rule::kOneEnd, absl::StrCat("job ", Value(id), " was ", core::Name(own.row.state),
                                        " and is lost over the restart"));
    }
  }
}

void Invariants::CommandStarted(JobId id, int times) {
  if (times > 1)
    Break(Rule::kOneEnd, absl::StrCat("job ", Value(id), " was started ", times, " times"));
  const auto state = StateOnDisk(id);
  if (!state || !core::IsActive(*state)) {
    Break(Rule::kOneEnd, absl::StrCat("job ", Value(id), " is started while its row on disk is ",
                                      state ? core::Name(*state) : "missing"));
  }
}

void Invariants::StoreGave(const JobRecord& stored, const JobRecord& read) {
  if (stored == read) return;
  Break(Rule::kStored, absl::StrCat("the row of job ", Value(stored.id), " came back changed: ",
                                    Describe(core::Effect(core::Save{stored})), " as ",
                                    Describe(core::Effect(core::Save{read}))));
}

}  // namespace stageload::sim
