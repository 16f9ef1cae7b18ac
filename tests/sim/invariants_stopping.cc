// Whether what was stopped had to be, when it had to be, and nobody else was touched; and whether
// the charges add up.
#include <algorithm>
#include <tuple>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "tests/sim/invariants.h"

namespace stageload::sim {

using core::JobId;
using core::JobRecord;
using core::JobState;
using core::OverBudget;
using core::Reason;
using core::Value;

namespace {

constexpr absl::Duration kAfterVictim = absl::Seconds(2);
// How long the level must have been low.
constexpr absl::Duration kArmedAfter = absl::Seconds(1);
// A level that stays low this long has armed everybody's rule, whatever the interval.
constexpr absl::Duration kSurelyArmed = absl::Milliseconds(2200);
constexpr double kEscalationShare = 0.25;
constexpr double kWarnShare = 0.8;

template <typename T>
bool Asks(const core::Event& event, JobId id) {
  const auto* asked = std::get_if<T>(&event);
  return asked != nullptr && asked->id == id;
}

}  // namespace

void Invariants::CheckStop(const Own& own, const JobRecord& row) {
  const std::string who = absl::StrCat("job ", Value(row.id));
  const core::Policy& policy = row.policy;
  if (row.reason_text.empty()) Break(Rule::kStops, absl::StrCat(who, " is stopped without words"));
  if (own.row.state == JobState::kPending || core::IsEnd(own.row.state)) {
    Break(Rule::kStops, absl::StrCat(who, " is stopped in state ", core::Name(own.row.state)));
  }
  if (config_.dry_run && row.reason != Reason::kCancelled) {
    Break(Rule::kStops, absl::StrCat(who, " is stopped in a dry run"));
  }
  switch (row.reason) {
    case Reason::kSwapBudget:
      ++counters_[Count::kStopSwapBudget];
      if (own.charge - own.row.forgiven <= policy.swap_budget ||
          !std::holds_alternative<core::SampleTaken>(*event_) ||
          policy.on_over_budget == OverBudget::kWarn || sample_after_gap_) {
        Break(Rule::kStops,
              absl::StrCat(who, " is stopped for its budget of ", FormatBytes(policy.swap_budget),
                           " with a charge of ", FormatBytes(own.charge - own.row.forgiven)));
      }
      break;
    case Reason::kSwapLimit:
      ++counters_[Count::kStopSwapLimit];
      if (!policy.swap_limit || !host_.swap_used || *host_.swap_used <= *policy.swap_limit ||
          sample_after_gap_) {
        Break(Rule::kStops, absl::StrCat(who, " is stopped under its swap limit"));
      }
      break;
    case Reason::kLowMemory:
      ++counters_[Count::kStopLowMemory];
      CheckLowMemoryStop(own);
      break;
    case Reason::kCancelled:
      ++counters_[Count::kStopCancelled];
      if (!Asks<core::CancelAsked>(*event_, row.id)) {
        Break(Rule::kStops, absl::StrCat(who, " is cancelled and nobody asked"));
      }
      break;
    case Reason::kTimeLimit:
      ++counters_[Count::kStopTimeLimit];
      if (!policy.time_limit || RunningTime(own) < *policy.time_limit - absl::Milliseconds(1)) {
        Break(Rule::kStops, absl::StrCat(who, " is stopped for its time limit after ",
                                         FormatSpan(RunningTime(own))));
      }
      break;
    default:
      Break(Rule::kStops, absl::StrCat(who, " is stopped for ", core::Name(row.reason)));
  }
}

void Invariants::CheckLowMemoryStop(const Own& own) {
  const JobId id = own.row.id;
  const std::string who = absl::StrCat("job ", Value(id));
  if (!host_.level || *host_.level >= own.row.policy.kill_free || sample_after_gap_) {
    Break(Rule::kStops, absl::StrCat(who, " is stopped for low memory at level ",
                                     host_.level ? host_.level->value : -1));
    return;
  }
  if (own.low_samples < 2 || own.low_for < kArmedAfter) {
    Break(Rule::kStops, absl::StrCat(who, " is stopped for low memory after ", own.low_samples,
                                     " samples and ", FormatSpan(own.low_for)));
  }
  CheckVictim(own);
  double kill_free = 0;
  for (const JobId other : active_) {
    kill_free = std::max(kill_free, own_.at(other).row.policy.kill_free.value);
  }
  for (const JobId other : active_) {
    const Own& going = own_.at(other);
    if (other == id || going.row.state != JobState::kStopping ||
        going.row.reason != Reason::kLowMemory || going.stuck) {
      continue;
    }
    Break(Rule::kOneVictim,
          absl::StrCat(who, " is stopped for low memory while ", Value(other), " still goes"));
  }
  const bool dire = host_.level->value < kill_free / 2;
  if (victim_gone_ && now_.awake - *victim_gone_ < kAfterVictim && !dire) {
    Break(Rule::kOneVictim,
          absl::StrCat(who, " is stopped for low memory ", FormatSpan(now_.awake - *victim_gone_),
                       " after the last victim had gone"));
  }
}

// Lowest priority, then largest charge, then largest footprint, then youngest, of those whose rule
// is armed for sure.
void Invariants::CheckVictim(const Own& victim) {
  const auto rank = [](const Own& own) {
    const Bytes footprint = std::max(Bytes(0), own.usage.footprint.value_or(Bytes(0)));
    return std::make_tuple(-own.row.policy.priority, own.charge, footprint, own.row.id);
  };
  for (const JobId id : active_) {
    const Own& other = own_.at(id);
    if (id == victim.row.id || other.row.state == JobState::kStopping || other.stuck) continue;
    if (!other.low_since || sampled_->awake - *other.low_since < kArmedAfter) continue;
    if (rank(other) > rank(victim)) {
      Break(Rule::kStops, absl::StrCat("job ", Value(victim.row.id),
                                       " is stopped for low memory, not ", Value(id)));
    }
  }
}

// What was never read is not known, and a peak of the whole machine is one's own only alone.
void Invariants::CheckLesson(const core::Learned& learned) {
  const Own& own = own_.at(learned.run.id);
  if (learned.run.footprint && !own.was_read) {
    Break(Rule::kStops,
          absl::StrCat("job ", Value(own.row.id), " was never read and teaches a footprint of ",
                       FormatBytes(*learned.run.footprint)));
  }
  if (learned.run.true_peak && own.had_company) {
    Break(Rule::kStops,
          absl::StrCat("job ", Value(own.row.id), " had company and teaches a true peak of ",
                       FormatBytes(*learned.run.true_peak)));
  }
}

void Invariants::CheckSuspend(const Own& own, const JobRecord& row) {
  const std::string who = absl::StrCat("job ", Value(row.id));
  if (own.row.state != JobState::kRunning || row.reason_text.empty()) {
    Break(Rule::kStops, absl::StrCat(who, " is suspended in state ", core::Name(own.row.state),
                                     " or without words"));
  }
  if (row.reason == Reason::kSwapBudget) {
    ++counters_[Count::kSuspendedBudget];
    if (config_.dry_run || row.policy.on_over_budget != OverBudget::kSuspend) {
      Break(Rule::kStops, absl::StrCat(who, " is suspended for its budget, but never may be"));
    }
  } else {
    ++counters_[Count::kSuspendedAsked];
    if (!Asks<core::SuspendAsked>(*event_, row.id)) {
      Break(Rule::kStops, absl::StrCat(who, " is suspended and nobody asked"));
    }
  }
}

// ---- Signals ----

void Invariants::CheckSignal(const core::Signal& signal) {
  Own* own = Active(signal.id);
  const std::string who = absl::StrCat("job ", Value(signal.id));
  if (own == nullptr)
    return Break(Rule::kSignals, absl::StrCat(who, " is signalled and not active"));
  const JobState state = own->row.state;
  if (!own->row.may_signal) {
    Break(Rule::kSignals, absl::StrCat(who, " never opted in to be signalled"));
  }
  switch (signal.kind) {
    case core::Signal::Kind::kTerminate:
      if (state != JobState::kStopping)
        Break(Rule::kStops, absl::StrCat(who, " gets SIGTERM and is not stopping"));
      if (!own->terminated) own->terminated = time_;
      dirty_.insert(signal.id);
      break;
    case core::Signal::Kind::kKill:
      CheckKill(*own);
      own->killed = true;
      break;
    case core::Signal::Kind::kSuspend:
      if (state != JobState::kSuspended)
        Break(Rule::kStops, absl::StrCat(who, " gets SIGSTOP and is not suspended"));
      break;
    case core::Signal::Kind::kContinue:
      // One that leaves is let go before its end is written down.
      if (state == JobState::kSuspended && !Asks<core::ClientGone>(*event_, signal.id)) {
        Break(Rule::kStops, absl::StrCat(who, " goes on and is suspended"));
      }
      break;
  }
}

void Invariants::CheckKill(const Own& own) {
  ++counters_[Count::kKills];
  const std::string who = absl::StrCat("job ", Value(own.row.id));
  const core::Policy& policy = own.row.policy;
  if (own.row.state != JobState::kStopping) {
    return Break(Rule::kStops, absl::StrCat(who, " is killed and not stopping"));
  }
  if (own.killed) return;
  if (own.terminated && time_ >= *own.terminated + policy.grace - absl::Milliseconds(1)) return;
  ++counters_[Count::kEarlyKills];
  if (host_.level && host_.level->value < policy.kill_free.value / 2) return;
  if (host_.swap_used && own.swap_at_stop &&
      *host_.swap_used - *own.swap_at_stop > policy.swap_budget * kEscalationShare) {
    return;
  }
  Break(Rule::kStops,
        absl::StrCat(who, " is killed ",
                     own.terminated ? FormatSpan(time_ - *own.terminated) : "without SIGTERM",
                     " into its grace time of ", FormatSpan(policy.grace)));
}

void Invariants::Signalled(const core::Signal& signal, std::optional<JobId> owner_id) {
  if (owner_id == signal.id) return;
  Break(Rule::kSignals, absl::StrCat("a signal for job ", Value(signal.id), " reaches ",
                                     owner_id ? absl::StrCat("a process of job ", Value(*owner_id))
                                              : std::string("a process that nobody manages")));
}

// ---- Ends ----

void Invariants::CheckEndState(const Own& own, const JobRecord& row) {
  const std::string who = absl::StrCat("job ", Value(row.id), " (", core::Name(row.state), ")");
  const JobState before = own.row.state;
  const bool by_itself = row.state == JobState::kCompleted ||
                         (row.state == JobState::kFailed && row.reason == Reason::kNone);
  if (!by_itself && row.reason_text.empty()) {
    Break(Rule::kStops, absl::StrCat(who, " ended without words"));
  }
  if (!row.end_time) Break(Rule::kStops, absl::StrCat(who, " ended without a time"));
  if (row.state == JobState::kCompleted && row.kind != core::JobKind::kSession &&
      row.outcome.exit_code != 0) {
    Break(Rule::kOneEnd, absl::StrCat(who, " is a success that nobody saw"));
  }
  if (before == JobState::kStopping && row.state != JobState::kNodeFail) {
    const Reason reason = own.row.reason;
    JobState expected = JobState::kOutOfMemory;
    if (reason == Reason::kCancelled) expected = JobState::kCancelled;
    if (reason == Reason::kTimeLimit) expected = JobState::kTimeout;
    if (row.state != expected || row.reason != reason) {
      Break(Rule::kOneEnd, absl::StrCat(who, " was stopped for ", core::Name(reason)));
    }
  }
  switch (row.state) {
    case JobState::kCompleted:
      ++counters_[Count::kCompleted];
      break;
    case JobState::kFailed:
      ++counters_[Count::kFailed];
      break;
    case JobState::kNoRoom:
      ++counters_[Count::kNoRoom];
      break;
    case JobState::kNodeFail:
      ++counters_[Count::kNodeFail];
      break;
    case JobState::kUnknown:
      ++counters_[Count::kUnknownEnd];
      break;
    default:
      break;
  }
  if (row.reason == Reason::kDependencyNever) ++counters_[Count::kDependencyNever];
  if (row.reason == Reason::kStartFailed) ++counters_[Count::kStartFailed];
}

// ---- What must have been done by now ----

void Invariants::CheckOverdue(const core::Scheduler& core) {
  const bool sample = std::holds_alternative<core::SampleTaken>(*event_) && !sample_after_gap_;
  const bool victim_goes = VictimGoes();
  for (const JobId id : active_) {
    const Own& own = own_.at(id);
    CheckTimes(own);
    // Nobody is stopped in a dry run, nor twice.
    if (config_.dry_run || own.row.state == JobState::kStopping || !sample) continue;
    CheckGoesOn(own, victim_goes);
    CheckBudget(own, core.ledger().Of(id).charge - own.row.forgiven);
  }
}

bool Invariants::VictimGoes() const {
  if (victim_gone_ && now_.awake - *victim_gone_ < kAfterVictim) return true;
  return std::any_of(active_.begin(), active_.end(), [this](JobId id) {
    const Own& own = own_.at(id);
    return own.row.state == JobState::kStopping && own.row.reason == Reason::kLowMemory &&
           !own.stuck;
  });
}

// The end of a grace time, and of a time limit.
void Invariants::CheckTimes(const Own& own) {
  const core::Policy& policy = own.row.policy;
  const std::string who = absl::StrCat("job ", Value(own.row.id));
  const absl::Duration room = absl::Milliseconds(1);
  const bool waits = own.terminated && own.attached && !own.killed && own.row.may_signal;
  if (own.row.state == JobState::kStopping && waits &&
      time_ > *own.terminated + policy.grace + room) {
    Break(Rule::kStops, absl::StrCat(who, " is not killed ", FormatSpan(time_ - *own.terminated),
                                     " after SIGTERM, its grace is ", FormatSpan(policy.grace)));
  }
  // After a restart one may have ended in time, until it is found.
  if (own.row.state == JobState::kRunning && policy.time_limit && own.boot == boot_ &&
      own.attached && !config_.dry_run && RunningTime(own) > *policy.time_limit + room) {
    Break(Rule::kStops, absl::StrCat(who, " has run for ", FormatSpan(RunningTime(own)),
                                     ", its limit is ", FormatSpan(*policy.time_limit)));
  }
}

// What a sample shows that calls for a stop: here nothing was stopped.
void Invariants::CheckGoesOn(const Own& own, bool victim_goes) {
  const core::Policy& policy = own.row.policy;
  const std::string who = absl::StrCat("job ", Value(own.row.id));
  if (policy.swap_limit && host_.swap_used > policy.swap_limit) {
    Break(Rule::kStops,
          absl::StrCat(who, " goes on with ", FormatBytes(*host_.swap_used),
                       " of swap used, its limit is ", FormatBytes(*policy.swap_limit)));
  }
  if (own.low_since && !own.stuck && !victim_goes && now_.awake - *own.low_since > kSurelyArmed) {
    Break(Rule::kStops,
          absl::StrCat(who, " and all others go on after ", FormatSpan(now_.awake - *own.low_since),
                       " below ", policy.kill_free.value, " %"));
  }
}

void Invariants::CheckBudget(const Own& own, Bytes charge) {
  if (own.row.state != JobState::kRunning) return;
  const core::Policy& policy = own.row.policy;
  const std::string who = absl::StrCat("job ", Value(own.row.id));
  const std::string figures =
      absl::StrCat(" a charge of ", FormatBytes(charge), " of ", FormatBytes(policy.swap_budget));
  if (charge <= policy.swap_budget) {
    if (charge <= policy.swap_budget * kWarnShare || own.warned) return;
    return Break(Rule::kStops, absl::StrCat(who, " was never warned of", figures));
  }
  const bool cannot_suspend = !own.row.may_signal || own.stuck;
  if (policy.on_over_budget == OverBudget::kStop ||
      (policy.on_over_budget == OverBudget::kSuspend && !cannot_suspend)) {
    Break(Rule::kStops, absl::StrCat(who, " goes on with", figures));
  }
}

void Invariants::CheckSums(const core::Scheduler& core) {
  const core::ChargeLedger& ledger = core.ledger();
  Bytes sum = ledger.retired() + ledger.unattributed();
  for (const JobId id : active_) sum += ledger.Of(id).charge;
  if (sum != ledger.total_growth()) {
    Break(Rule::kCharges, absl::StrCat("the charges add up to ", sum.count(), ", the ledger says ",
                                       ledger.total_growth().count()));
  }
  if (ledger.total_growth() != total_growth_) {
    Break(Rule::kCharges,
          absl::StrCat("the ledger has split ", FormatBytes(ledger.total_growth()),
                       " of swap, the machine's changed by ", FormatBytes(total_growth_),
                       " while anybody was active and no gap in between"));
  }
  if (active_.size() != 1 || !host_.swap_used) return;
  const Own& own = own_.at(*active_.begin());
  if (!own.alone || !own.swap_at_start || own.row.policy.charge_mode != core::ChargeMode::kSystem) {
    return;
  }
  const Bytes grown = *host_.swap_used - *own.swap_at_start;
  const Bytes charge = ledger.Of(own.row.id).charge;
  if (charge != grown) {
    Break(Rule::kCharges,
          absl::StrCat("job ", Value(own.row.id), " is alone and swap has grown by ",
                       FormatBytes(grown), ", its charge is ", FormatBytes(charge)));
  }
}

}  // namespace stageload::sim
