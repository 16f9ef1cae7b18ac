// Whether what was admitted might be, by the words of DESIGN.md 5.1 and not by the core's code.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "tests/sim/invariants.h"

namespace stageload::sim {

using core::JobId;
using core::JobRecord;
using core::JobState;
using core::LeaseId;
using core::Value;

namespace {

constexpr absl::Duration kWaking = absl::Seconds(5);
constexpr absl::Duration kRecovery = absl::Seconds(4);
constexpr absl::Duration kLongestRecovery = absl::Seconds(31);
constexpr Bytes kSwapPerWindow = MiB(64 * 5);
constexpr double kForceMargin = 5;

// Whether `a` goes before `b`: higher priority, then earlier.
bool GoesBefore(const JobRecord& a, const JobRecord& b) {
  if (a.policy.priority != b.policy.priority) return a.policy.priority > b.policy.priority;
  return a.id < b.id;
}

}  // namespace

void Invariants::CheckAdmission(const Own& own, const JobRecord& row) {
  ++counters_[Count::kStarts];
  if (row.policy.memory) ++counters_[Count::kStartsDeclared];
  if (row.policy.memory_auto && row.policy.memory) ++counters_[Count::kStartsAuto];
  if (row.kind == core::JobKind::kGuard) ++counters_[Count::kGuardStarts];
  const std::string who = absl::StrCat("job ", Value(row.id));
  BreakIf(who, Unfresh());
  if (draining_) Break(Rule::kBlockers, absl::StrCat(who, " starts while draining"));
  CheckOwnReasons(own);
  BreakIf(who, Blocked(DemandOf(row)));
  BreakIf(who, StillRecovering());
  PassBy(own, row.policy.memory.has_value());
}

Invariants::OwnDemand Invariants::DemandOf(const JobRecord& row) {
  const core::Policy& policy = row.policy;
  return {policy.wait_free, policy.memory, policy.swap_limit, policy.swap_budget, std::nullopt};
}

void Invariants::BreakIf(const std::string& who, const std::optional<Violation>& found) {
  if (found) Break(found->rule, absl::StrCat(who, " is admitted: ", found->text));
}

std::optional<Violation> Invariants::Unfresh() const {
  if (!sampled_) return Violation{Rule::kFresh, "there was no sample yet"};
  const absl::Duration age = now_.awake - sampled_->awake;
  // No interval is longer than a second.
  const absl::Duration oldest = std::min(3 * interval_, absl::Seconds(3));
  if (age > oldest) {
    return Violation{Rule::kFresh, absl::StrCat("the sample is ", FormatSpan(age), " old, at most ",
                                                FormatSpan(oldest), " is fresh")};
  }
  if (now_.awake < returning_until_) {
    return Violation{Rule::kBlockers,
                     absl::StrCat("programs of the daemon before may come back for another ",
                                  FormatSpan(returning_until_ - now_.awake))};
  }
  if (woke_at_ && now_.awake - *woke_at_ < kWaking) {
    return Violation{Rule::kFresh,
                     absl::StrCat("the machine woke ", FormatSpan(now_.awake - *woke_at_), " ago")};
  }
  return std::nullopt;
}

// What the machine has against it, with the rules' words written a second time.
std::optional<Violation> Invariants::Blocked(const OwnDemand& demand) const {
  const auto blocked = [](std::string text) { return Violation{Rule::kBlockers, std::move(text)}; };
  if (!host_.level || *host_.level < demand.wait_free) {
    return blocked(absl::StrCat("level ", host_.level ? host_.level->value : -1, ", needs ",
                                demand.wait_free.value));
  }
  if (host_.pressure && *host_.pressure >= config_.max_pressure) return blocked("pressure");
  if (!swap_window_.empty() &&
      swap_window_.back().bytes - swap_window_.front().bytes > kSwapPerWindow) {
    return blocked("swap grows");
  }
  if (settling_ && settling_ != demand.lease_of && now_.awake - settling_since_ < config_.settle) {
    return blocked(absl::StrCat(FormatSpan(now_.awake - settling_since_), " after job ",
                                Value(*settling_), ", which declared nothing"));
  }
  if (demand.swap_limit) {
    const Bytes sum = host_.swap_used.value_or(Bytes::Max()) + Promised() + demand.swap_budget;
    if (sum > *demand.swap_limit) {
      return blocked(absl::StrCat(FormatBytes(sum), " of swap used and promised, limit ",
                                  FormatBytes(*demand.swap_limit)));
    }
  }
  if (!demand.memory) return std::nullopt;
  return TooLarge(*demand.memory);
}

// Swap that active clients may still add.
Bytes Invariants::Promised() const {
  Bytes promised;
  for (const JobId id : active_) {
    const Own& own = own_.at(id);
    const Bytes spent = std::max(Bytes(0), own.charge - own.row.forgiven);
    promised += std::max(Bytes(0), own.row.policy.swap_budget - spent);
  }
  return promised;
}

std::optional<Violation> Invariants::TooLarge(Bytes memory) const {
  if (!host_.available || !host_.total) {
    return Violation{Rule::kReserve, "there is no reading of what is available"};
  }
  Bytes outstanding;
  Bytes declared;
  Bytes footprint;
  for (const JobId id : active_) {
    const Own& other = own_.at(id);
    outstanding += Outstanding(other);
    declared += Declared(other);
    footprint += std::max(Bytes(0), other.usage.footprint.value_or(Bytes(0)));
  }
  Bytes credit;
  if (host_.pageable_internal) {
    credit = std::max(Bytes(0), *host_.pageable_internal - footprint) * config_.anonymous_credit;
  }
  const Bytes reserve = config_.reserve.value_or(*host_.total * config_.reserve_fraction);
  const Bytes left = *host_.available + credit - outstanding - memory;
  if (left < reserve) {
    return Violation{
        Rule::kReserve,
        absl::StrCat("declares ", FormatBytes(memory), " of ", FormatBytes(*host_.available),
                     " available and ", FormatBytes(credit), " compressible, of which ",
                     FormatBytes(outstanding), " is spoken for: leaves ", FormatBytes(left),
                     ", the reserve is ", FormatBytes(reserve))};
  }
  if (config_.memory_pool && declared + memory > *config_.memory_pool) {
    return Violation{Rule::kReserve, absl::StrCat("declares ", FormatBytes(memory), " on top of ",
                                                  FormatBytes(declared), ", the pool is ",
                                                  FormatBytes(*config_.memory_pool))};
  }
  return std::nullopt;
}

// Lenient where the rule leaves room: one that ended, of whose memory less than half is back.
std::optional<Violation> Invariants::StillRecovering() const {
  if (ended_.size() != 1) return std::nullopt;
  const Ended& ended = ended_.front();
  if (now_.awake - ended.at >= kRecovery || !ended.available) return std::nullopt;
  const Bytes back = ended.most.value_or(Bytes(0)) - *ended.available;
  if (back >= ended.held * 0.5) return std::nullopt;
  return Violation{
      Rule::kBlockers,
      absl::StrCat(FormatSpan(now_.awake - ended.at), " after the end of one that held ",
                   FormatBytes(ended.held), ", of which ", FormatBytes(back), " is back")};
}

// Whoever stands first and has nothing against it should have gone in this step.
void Invariants::CheckNobodyIsForgotten() {
  if (noticed_at_ && now_.awake - *noticed_at_ < kWaking) return;
  if (Unfresh() || (last_end_ && now_.awake - *last_end_ < kLongestRecovery)) return;
  const OwnLease* lease = nullptr;
  LeaseId lease_id{};
  for (const auto& [id, other] : leases_) {
    if (other.granted || IsSuspended(other)) continue;
    if (lease != nullptr && lease->priority >= other.priority) continue;
    lease = &other;
    lease_id = id;
  }
  if (lease != nullptr) {
    const core::Policy& policy = own_.at(lease->client).row.policy;
    if (!Blocked({policy.wait_free, lease->memory, policy.swap_limit, Bytes(0), lease->client})) {
      Break(Rule::kProgress, absl::StrCat("lease ", Value(lease_id), " waits for nothing"));
    }
    return;
  }
  if (draining_) return;
  const Own* first = nullptr;
  for (const JobId id : pending_) {
    const Own& own = own_.at(id);
    if (IsCandidate(own) && (first == nullptr || GoesBefore(own.row, first->row))) first = &own;
  }
  if (first == nullptr || first->row.policy.memory_auto) return;
  // One that waits for quiet may stand before it, or not.
  for (const JobId id : pending_) {
    const Own& own = own_.at(id);
    if (!own.row.policy.busy.empty() && GoesBefore(own.row, first->row)) return;
  }
  if (Blocked(DemandOf(first->row))) return;
  Break(Rule::kProgress, absl::StrCat("job ", Value(first->row.id), " waits for nothing"));
}

bool Invariants::GroupIsFull(const std::string& group) const {
  const auto limit = config_.group_limits.find(group);
  if (group.empty() || limit == config_.group_limits.end()) return false;
  const auto running = std::count_if(active_.begin(), active_.end(),
                                     [&](JobId id) { return own_.at(id).row.group == group; });
  return running >= limit->second;
}

void Invariants::CheckOwnReasons(const Own& own) {
  const JobRecord& row = own.row;
  const std::string who = absl::StrCat("job ", Value(row.id));
  if (queue_held_ && row.kind == core::JobKind::kJob) {
    Break(Rule::kBlockers, absl::StrCat(who, " starts and the queue is held"));
  }
  if (row.held) Break(Rule::kBlockers, absl::StrCat(who, " starts and is held"));
  if (!own.due) Break(Rule::kBlockers, absl::StrCat(who, " starts before its begin time"));
  if (GroupIsFull(row.group)) {
    Break(Rule::kBlockers, absl::StrCat(who, " starts in the full group ", row.group));
  }
  for (const JobId parent : own.parents) {
    const auto found = own_.find(parent);
    if (found == own_.end() || found->second.row.state != JobState::kCompleted) {
      Break(Rule::kBlockers, absl::StrCat(who, " starts before its parent ", Value(parent)));
    }
  }
  if (own.last_busy && now_.awake < *own.last_busy + row.policy.quiet_for) {
    Break(Rule::kBlockers,
          absl::StrCat(who, " starts ", FormatSpan(now_.awake - *own.last_busy),
                       " after a busy program was seen, needs ", FormatSpan(row.policy.quiet_for)));
  }
}

// Since the config has changed: no waiting helps.
bool Invariants::NeverFits(const JobRecord& row) const {
  if (!row.policy.memory) return false;
  if (config_.memory_pool && *row.policy.memory > *config_.memory_pool) return true;
  if (!host_.total) return false;
  const Bytes reserve = config_.reserve.value_or(*host_.total * config_.reserve_fraction);
  return *row.policy.memory > *host_.total - reserve;
}

// Whether nothing of its own holds it. One that waits for quiet may or may not be one.
bool Invariants::IsCandidate(const Own& own) const {
  if (queue_held_ && own.row.kind == core::JobKind::kJob) return false;
  if (own.row.held || !own.due || !own.row.policy.busy.empty() || GroupIsFull(own.row.group)) {
    return false;
  }
  if (NeverFits(own.row)) return false;
  return std::all_of(own.parents.begin(), own.parents.end(), [this](JobId parent) {
    const auto found = own_.find(parent);
    return found != own_.end() && found->second.row.state == JobState::kCompleted;
  });
}

void Invariants::PassBy(const Own& admitted, bool declares) {
  const auto pass = [&](int& passed, const std::string& who) {
    if (!declares) {
      Break(Rule::kBypass,
            absl::StrCat("job ", Value(admitted.row.id), " declares nothing and passes ", who));
    }
    if (++passed > config_.max_bypass) {
      Break(Rule::kBypass, absl::StrCat(who, " is passed for the ", passed, "th time, by job ",
                                        Value(admitted.row.id)));
    }
  };
  for (auto& [id, lease] : leases_) {
    if (!lease.granted && !IsSuspended(lease))
      pass(lease.passed, absl::StrCat("lease ", Value(id)));
  }
  for (const JobId id : pending_) {
    Own& other = own_.at(id);
    if (id == admitted.row.id || !GoesBefore(other.row, admitted.row) || !IsCandidate(other)) {
      continue;
    }
    pass(other.passed, absl::StrCat("job ", Value(id)));
    dirty_.insert(id);
  }
}

// ---- Leases ----

void Invariants::CheckLease(const core::LeaseGranted& granted) {
  ++counters_[Count::kLeasesGranted];
  const auto found = leases_.find(granted.id);
  Own* client = Active(granted.client);
  if (found == leases_.end() || found->second.granted || client == nullptr ||
      found->second.client != granted.client) {
    return Break(Rule::kAnswers,
                 absl::StrCat("lease ", Value(granted.id), " is granted, but not waiting"));
  }
  OwnLease& lease = found->second;
  if (lease.loaded) return TakeUp(granted, lease, *client);
  const std::string who = absl::StrCat("lease ", Value(granted.id));
  if (IsSuspended(lease)) {
    Break(Rule::kProgress, absl::StrCat(who, " is granted to who is suspended"));
  }
  BreakIf(who, Unfresh());
  if (granted.forced) {
    CheckForced(granted);
  } else {
    const core::Policy& policy = client->row.policy;
    BreakIf(who,
            Blocked({policy.wait_free, lease.memory, policy.swap_limit, Bytes(0), granted.client}));
    BreakIf(who, StillRecovering());
    PassByLease(lease, granted.id);
  }
  lease.granted = true;
  client->leases.insert(granted.id);
  client->expected = std::max({client->expected.value_or(Bytes(0)), Bytes(0),
                               client->usage.footprint.value_or(Bytes(0))}) +
                     lease.memory;
}

// It is there already, so nothing stands against it: neither the machine nor a stop of its client.
void Invariants::TakeUp(const core::LeaseGranted& granted, OwnLease& lease, Own& client) {
  ++counters_[Count::kLeasesTakenUp];
  if (client.row.state == JobState::kStopping) ++counters_[Count::kLeasesTakenUpStopping];
  if (granted.forced) {
    Break(Rule::kAnswers, absl::StrCat("lease ", Value(granted.id), " is loaded and forced"));
  }
  taken_up_ = true;
  lease.granted = true;
  client.leases.insert(granted.id);
  client.expected = Declared(client);
}

// Who is suspended can use none, and so is passed by nobody.
bool Invariants::IsSuspended(const OwnLease& lease) const {
  return own_.at(lease.client).row.state == JobState::kSuspended;
}

void Invariants::PassByLease(const OwnLease& admitted, LeaseId id) {
  for (auto& [other_id, other] : leases_) {
    if (other.granted || other_id == id || IsSuspended(other)) continue;
    const bool before =
        other.priority != admitted.priority ? other.priority > admitted.priority : other_id < id;
    if (before && ++other.passed > config_.max_bypass) {
      Break(Rule::kBypass, absl::StrCat("lease ", Value(other_id), " is passed for the ",
                                        other.passed, "th time, by lease ", Value(id)));
    }
  }
}

// Only when nobody can go on, only the oldest, and only while there is some room.
void Invariants::CheckForced(const core::LeaseGranted& granted) {
  ++counters_[Count::kLeasesForced];
  if (!leases_.at(granted.id).waits) {
    Break(Rule::kProgress,
          absl::StrCat("lease ", Value(granted.id), " is forced, and was not to wait"));
  }
  const auto waits = [this](JobId id) {
    return std::any_of(leases_.begin(), leases_.end(), [id](const auto& entry) {
      return entry.second.client == id && !entry.second.granted;
    });
  };
  for (const JobId id : active_) {
    const Own& own = own_.at(id);
    const JobState state = own.row.state;
    if (state == JobState::kSuspended || (state == JobState::kRunning && waits(id))) continue;
    // Killed, and not gone. Who does not end when told to, or hears no signal, goes on.
    if (state == JobState::kStopping && own.stuck && own.killed && !own.deaf) continue;
    Break(Rule::kProgress,
          absl::StrCat("a lease is forced while client ", Value(id), " can go on"));
  }
  for (const auto& [id, lease] : leases_) {
    if (id >= granted.id || lease.granted) continue;
    if (own_.at(lease.client).row.state != JobState::kSuspended) {
      Break(Rule::kProgress,
            absl::StrCat("lease ", Value(granted.id), " is forced before ", Value(id)));
    }
  }
  const double needed = own_.at(granted.client).row.policy.kill_free.value + kForceMargin;
  if (!host_.level || host_.level->value < needed) {
    Break(Rule::kBlockers, absl::StrCat("a lease is forced at level ",
                                        host_.level ? host_.level->value : -1, ", needs ", needed));
  }
}

}  // namespace stageload::sim
