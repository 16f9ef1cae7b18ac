// Who goes next: leases of running clients, then starts in order; bounded passing; no deadlock.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_reason.h"
#include "base/text.h"
#include "daemon/core/fault.h"
#include "daemon/core/scheduler.h"

namespace stageload::core {
namespace {

// How far above its kill_free the level must be before a lease is forced.
constexpr double kForceMargin = 5;
constexpr char kWhatIsInside[] = "what is inside it";
constexpr char kLeaseMemory[] = "memory_bytes";  // of an AcquireRequest

std::string JoinTexts(const std::vector<Blocker>& blockers) {
  return absl::StrJoin(blockers, "; ", [](std::string* out, const Blocker& blocker) {
    absl::StrAppend(out, Name(blocker.kind), ": ", blocker.text);
  });
}

}  // namespace

const Room& Scheduler::room() const {
  if (room_) return *room_;
  Room room;
  room.host = host_;
  if (sampled_) room.sampled_at = sampled_->awake;
  constexpr int kFreshIntervals = 3;
  room.max_age = kFreshIntervals * interval_;
  room.woke_at = woke_at_;
  room.settling = settling_;
  if (newest_) room.recovering = recovery_.At(newest_->awake);
  room.returning_until = returning_until_;
  room.swap_growth = swap_window_.growth();
  room.draining = draining_;
  for (const auto& [id, client] : clients_) {
    room.active.push_back(ReservationOf(client));
  }
  room.SumUp();
  return room_.emplace(std::move(room));
}

// Of its swap budget.
Bytes Scheduler::UnspentSwap(const Client& client) const {
  const Bytes charge = ledger_.Of(client.record.id).charge;
  const Bytes spent = std::max(Bytes(0), charge - client.record.forgiven);
  return std::max(Bytes(0), client.record.policy.swap_budget - spent);
}

// What is inside another is a part of its reservation, but for the swap that each may add.
Reservation Scheduler::ReservationOf(const Client& client) const {
  const JobId id = client.record.id;
  Reservation reservation;
  reservation.id = id;
  reservation.unspent_swap = UnspentSwap(client);
  if (nesting_.Around(id)) return reservation;
  reservation.declared = DeclaredWithAll(client, Bytes(0));
  reservation.expected = client.expected;
  reservation.footprint = client.usage.footprint;
  if (nesting_.Inside(id).empty()) return reservation;
  const Bytes alone = DeclaredWith(client, LeasedBy(client)).value_or(Bytes(0));
  const Bytes beyond = reservation.declared.value_or(Bytes(0)) - alone;
  if (beyond > Bytes(0)) {
    // What it holds itself without having declared it is no part of what is inside it.
    if (!client.expected) reservation.footprint = Bytes(0);
    reservation.expected = client.expected.value_or(Bytes(0)) + beyond;
  }
  reservation.footprint = reservation.footprint.value_or(Bytes(0)) + FootprintInside(id);
  return reservation;
}

Bytes Scheduler::FootprintInside(JobId id) const {
  Bytes footprint;
  for (const JobId inner : nesting_.Inside(id)) {
    const auto found = clients_.find(inner);
    if (found == clients_.end()) continue;
    footprint += std::max(Bytes(0), found->second.usage.footprint.value_or(Bytes(0)));
    footprint += FootprintInside(inner);
  }
  return footprint;
}

std::optional<Bytes> Scheduler::DeclaredBy(const JobRecord& record) const {
  if (record.policy.memory || !record.policy.memory_auto) return record.policy.memory;
  std::optional<Bytes> estimate = profiles_.Estimate(record.profile);
  // What once fitted must not wait for ever for the margin on top.
  if (const auto most = MostThatFits(config_, host_); estimate && most) {
    estimate = std::min(*estimate, *most);
  }
  return estimate;
}

Demand Scheduler::DemandOfStart(const JobRecord& record) const {
  Demand demand = DemandOf(record.policy);
  demand.memory = DeclaredBy(record);
  const std::optional<JobId> around = nesting_.Around(record.id);
  if (!around) return demand;
  demand.part_of = around;
  if (settling_ && nesting_.IsInside(record.id, settling_->id)) demand.part_of = settling_->id;
  if (demand.memory) {
    const Bytes more = MoreThanDeclared(clients_.at(*around), *demand.memory);
    demand.memory = more > Bytes(0) ? std::optional(more) : std::nullopt;
  }
  for (std::optional<JobId> outer = around; outer; outer = nesting_.Around(*outer)) {
    demand.unspent_around += UnspentSwap(clients_.at(*outer));
  }
  return demand;
}

Bytes Scheduler::LeasedBy(const Client& client) const {
  Bytes leased;
  for (const LeaseId lease : client.leases) leased += leases_.at(lease).memory;
  return leased;
}

// A session declares what it holds besides its leases; a job or guarded command its peak, with its
// leases and all that is within it.
std::optional<Bytes> Scheduler::DeclaredWith(const Client& client, Bytes within) const {
  const std::optional<Bytes> memory = client.record.policy.memory;
  if (within == Bytes(0)) return memory;
  const Bytes own = memory.value_or(Bytes(0));
  return client.record.kind == JobKind::kSession ? own + within : std::max(own, within);
}

// With its leases, what is inside it, and `more`.
std::optional<Bytes> Scheduler::DeclaredWithAll(const Client& client, Bytes more) const {
  Bytes within = LeasedBy(client) + more;
  for (const JobId inner : nesting_.Inside(client.record.id)) {
    const auto found = clients_.find(inner);
    if (found == clients_.end()) continue;  // it waits
    within += DeclaredWithAll(found->second, Bytes(0)).value_or(Bytes(0));
  }
  return DeclaredWith(client, within);
}

// What of `more` is within neither its own declaration nor that of a client around it.
Bytes Scheduler::MoreThanDeclared(const Client& client, Bytes more) const {
  const Bytes added = DeclaredWithAll(client, more).value_or(Bytes(0)) -
                      DeclaredWithAll(client, Bytes(0)).value_or(Bytes(0));
  const std::optional<JobId> around = nesting_.Around(client.record.id);
  return around && added > Bytes(0) ? MoreThanDeclared(clients_.at(*around), added) : added;
}

// What is declared in all once it has `more` and nothing else within it; absent where that is
// within its own declaration, or that of a client around it.
std::optional<Bytes> Scheduler::LeastDeclaredWith(const Client& client, Bytes more) const {
  const Bytes all = DeclaredWith(client, more).value_or(Bytes(0));
  if (all <= client.record.policy.memory.value_or(Bytes(0))) return std::nullopt;
  const std::optional<JobId> around = nesting_.Around(client.record.id);
  return around ? LeastDeclaredWith(clients_.at(*around), all) : all;
}

absl::Status Scheduler::CheckFitsWithin(const Client& client, Bytes more,
                                        const char* memory_field) const {
  Demand demand;
  demand.memory = LeastDeclaredWith(client, more);
  if (!demand.memory) return absl::OkStatus();
  return CheckCanEverFit(demand, config_, host_, memory_field, *demand.memory - more);
}

Demand Scheduler::DemandOfLease(const Lease& lease) const {
  const Client& client = clients_.at(lease.client);
  Demand demand = DemandOf(client.record.policy);
  // What is within the declaration of its client is reserved already.
  const Bytes more = MoreThanDeclared(client, lease.memory);
  demand.memory = more > Bytes(0) ? std::optional(more) : std::nullopt;
  demand.swap_budget = Bytes(0);
  demand.part_of = lease.client;
  return demand;
}

// ---- Admitting ----

void Scheduler::Admit(const Instant& now, Effects& effects) {
  while (AdmitNext(now, effects)) {
  }
}

// Whoever asks for it could not use it, and would keep it from others.
bool Scheduler::IsSuspended(const Lease& lease) const {
  return clients_.at(lease.client).record.state == JobState::kSuspended;
}

// What was asked for under another config, or before another start of the daemon, may be more than
// there is now. Such a job waits for another config or other terms, and stands in nobody's way.
bool Scheduler::CanEverFit(const Demand& demand) const {
  return core::CanEverFit(demand, config_, host_);
}

// Admits the first that may go, and says whether there was one. Whoever is before it waits for
// memory: it may pass them only if it declares memory itself, and only so often.
bool Scheduler::AdmitNext(const Instant& now, Effects& effects) {
  if ((lease_queue_.empty() && queue_.empty()) || IsUnsettled(room(), now.awake)) return false;
  std::vector<LeaseId> leases;  // before the one that is looked at
  std::vector<JobId> starts;
  const auto may_pass = [this](int bypassed) {
    return bypassed < config_.max_bypass || IsOn(Fault::kBypassUnbounded);
  };
  for (const LeaseRank& rank : lease_queue_) {
    const Lease& lease = leases_.at(rank.second);
    if (IsSuspended(lease)) continue;
    if (MayStart(DemandOfLease(lease), config_, room(), now.awake)) {
      Grant(now, lease.id, /*forced=*/std::nullopt, effects);
      Passed(leases, starts, effects);
      return true;
    }
    leases.push_back(lease.id);
    if (!may_pass(lease.bypassed) || leases.size() > kLookAhead) return false;
  }
  if (AdmitInner(now, leases, effects)) return true;
  int hopeless = 0;
  RequestQueue::Candidates candidates(queue_);
  while (const RequestQueue::Request* request = candidates.Next()) {
    const JobId id = request->record.id;
    const Demand demand = DemandOfStart(request->record);
    const bool first = leases.empty() && starts.empty();
    if ((first || demand.memory) && MayStart(demand, config_, room(), now.awake)) {
      AdmitStart(now, id, /*forced=*/std::nullopt, effects);
      Passed(leases, starts, effects);
      return true;
    }
    if (!CanEverFit(demand)) {
      if (++hopeless > kLookAhead) break;
      continue;
    }
    starts.push_back(id);
    if (!may_pass(request->record.bypassed) || leases.size() + starts.size() > kLookAhead) break;
  }
  return false;
}

// What is begun is finished: what is inside a running client goes before other starts.
bool Scheduler::AdmitInner(const Instant& now, const std::vector<LeaseId>& passed,
                           Effects& effects) {
  for (const JobId id : WaitingInside()) {
    const Demand demand = DemandOfStart(queue_.Find(id)->record);
    if (!MayStart(demand, config_, room(), now.awake)) continue;
    AdmitStart(now, id, /*forced=*/std::nullopt, effects);
    Passed(passed, {}, effects);
    return true;
  }
  return false;
}

// Guards inside active clients that wait for room alone, the oldest first.
std::vector<JobId> Scheduler::WaitingInside() const {
  std::vector<JobId> waiting;
  for (const auto& [id, around] : nesting_.all()) {
    if (queue_.Find(id) != nullptr && queue_.IsCandidate(id)) waiting.push_back(id);
  }
  return waiting;
}

void Scheduler::Passed(const std::vector<LeaseId>& leases, const std::vector<JobId>& starts,
                       Effects& effects) {
  for (const LeaseId id : leases) ++leases_.at(id).bypassed;
  for (const JobId id : starts) {
    JobRecord& record = queue_.RecordOf(id);
    ++record.bypassed;
    effects.emplace_back(Save{record});
  }
}

void Scheduler::AdmitStart(const Instant& now, JobId id, const std::optional<std::string>& forced,
                           Effects& effects) {
  queue_.CountWait(now, id, {});
  JobRecord record = queue_.Take(id).record;
  record.policy.memory = DeclaredBy(record);
  MarkStarted(now, record);
  record.swap_at_charge = host_.swap_used;
  record.charge_awake = sampled_->awake;
  record.charge_continuous = sampled_->continuous;
  settling_.reset();
  if (!record.policy.memory) settling_ = Room::Settling{id, now.awake};

  effects.emplace_back(Save{record});
  effects.emplace_back(Start{id, record.kind});
  std::string text =
      absl::StrCat(record.name, " after ", FormatSpan(now.wall - record.submit_time));
  if (host_.level) absl::StrAppend(&text, ", ", FormatPercent(*host_.level), " available");
  if (record.policy.memory) {
    absl::StrAppend(&text, ", declares ", FormatBytes(*record.policy.memory));
  }
  if (const auto around = nesting_.Around(id)) {
    absl::StrAppend(&text, ", inside job ", Value(*around));
  }
  if (forced) absl::StrAppend(&text, ", forced: ", *forced);
  Tell(effects, {"admitted", id, std::move(text)});

  AddClient(std::move(record));
  NoticeCompany(effects);
}

// Whether anybody did.
bool Scheduler::GiveUpWaiting(const Instant& now, Effects& effects) {
  const std::vector<JobId> starts = queue_.GivingUp(now.awake);
  for (const JobId id : starts) {
    const absl::Duration timeout = *queue_.Find(id)->record.policy.start_timeout;
    EndPending(
        now, id, JobState::kNoRoom, Reason::kStartTimeout,
        absl::StrCat("no room within ", FormatSpan(timeout), ": ", JoinTexts(BlockersOf(now, id))),
        effects);
  }
  std::vector<LeaseId> late;
  for (const auto& [id, waiting] : waiting_leases_) {
    if (waiting.give_up && *waiting.give_up <= now.awake) late.push_back(id);
  }
  for (const LeaseId id : late) {
    std::vector<Blocker> blockers = BlockersOf(now, id);
    absl::Status status =
        WithReason(absl::ResourceExhaustedError(
                       absl::StrCat("no room within ", FormatSpan(waiting_leases_.at(id).timeout),
                                    ": ", JoinTexts(blockers))),
                   kAdmissionTimeout);
    DenyLease(id, std::move(status), std::move(blockers), effects);
  }
  return !starts.empty() || !late.empty();
}

// ---- Leases ----

void Scheduler::On(const Instant& now, const Acquire& event, Effects& effects) {
  const auto refuse = [&](absl::Status status) {
    effects.emplace_back(Refused{event.token, std::move(status)});
  };
  const auto found = clients_.find(event.client);
  const bool gone = found == clients_.end();
  // What is loaded is there, whatever is to become of its client.
  const bool holds = event.loaded && !IsOn(Fault::kHeldOfStoppingRefused);
  if (gone || (found->second.stop && !holds)) {
    return refuse(WithReason(
        absl::FailedPreconditionError(absl::StrCat("client ", Value(event.client),
                                                   gone ? " is not running" : " is being stopped")),
        kJobEnded));
  }
  if (event.memory <= Bytes(0)) {
    return refuse(WithReason(absl::InvalidArgumentError(absl::StrCat(
                                 "memory_bytes: ", event.memory.count(), " is not above 0")),
                             kInvalidField, "memory_bytes"));
  }
  Lease lease;
  lease.id = next_lease_;
  lease.asked = now;
  lease.client = event.client;
  lease.holder = event.holder;
  lease.stage = event.stage;
  lease.memory = event.memory;
  if (!event.loaded) {
    absl::Status fits = CheckFitsWithin(found->second, event.memory, kLeaseMemory);
    if (!fits.ok()) return refuse(std::move(fits));
  }
  next_lease_ = LeaseId{Value(next_lease_) + 1};
  // What it holds already is no part of what it asks for.
  Usage& usage = found->second.usage;
  if (!usage.footprint && event.footprint) {
    usage.footprint = event.footprint;
    room_.reset();
  }
  WaitingLease waiting;
  waiting.rank = {-found->second.record.policy.priority, lease.id};
  if (event.start_timeout) {
    waiting.timeout = *event.start_timeout;
    waiting.give_up = now.awake + waiting.timeout;
  }
  const LeaseId id = lease.id;
  lease_queue_.insert(waiting.rank);
  waiting_leases_.emplace(id, waiting);
  found->second.wanted.insert(id);
  effects.emplace_back(LeaseQueued{event.token, id});
  leases_.emplace(id, std::move(lease));
  if (event.loaded) {
    Grant(now, id, /*forced=*/std::nullopt, effects);
    TakeAsLoaded(found->second);
  } else if (const auto blockers = BlockersOf(now, id); !blockers.empty()) {
    Tell(effects,
         {"lease_waiting", event.client,
          absl::StrCat(event.stage, ": ", FormatBytes(event.memory), ": ", JoinTexts(blockers))});
  }
}

void Scheduler::Grant(const Instant& now, LeaseId id, const std::optional<std::string>& forced,
                      Effects& effects) {
  Lease& lease = leases_.at(id);
  lease_queue_.erase(waiting_leases_.at(id).rank);
  waiting_leases_.erase(id);
  lease.granted = true;
  lease.granted_time = now.wall;
  lease.forced = forced.has_value();
  Client& client = clients_.at(lease.client);
  const Bytes before = DeclaredWith(client, LeasedBy(client)).value_or(Bytes(0));
  client.wanted.erase(id);
  client.leases.insert(id);
  // On top of what it holds now or may come to hold already.
  const Bytes more = *DeclaredWith(client, LeasedBy(client)) - before;
  if (more > Bytes(0)) {
    client.expected = std::max({client.expected.value_or(Bytes(0)),
                                client.usage.footprint.value_or(Bytes(0)), Bytes(0)}) +
                      more;
  }
  effects.emplace_back(LeaseGranted{id, lease.client, lease.forced});
  Tell(effects, {"lease_granted", lease.client,
                 absl::StrCat(lease.stage, ": ", FormatBytes(lease.memory), " after ",
                              FormatSpan(now.awake - lease.asked.awake),
                              forced ? absl::StrCat(", forced: ", *forced) : "")});
  room_.reset();
}

// What it holds is in its footprint already, so it may come to hold no more than it has declared.
void Scheduler::TakeAsLoaded(Client& client) {
  client.expected = DeclaredWith(client, LeasedBy(client));
  room_.reset();
}

void Scheduler::On(const Instant& now, const LeaseReleased& event, Effects& effects) {
  const auto found = leases_.find(event.id);
  if (found == leases_.end()) return;
  const Lease lease = found->second;
  if (!lease.granted) {
    DropLease(event.id);
    return Tell(effects, {"lease_denied", lease.client,
                          absl::StrCat(lease.stage, ": taken back by its program after ",
                                       FormatSpan(now.awake - lease.asked.awake))});
  }
  Client& client = clients_.at(lease.client);
  const Bytes before = DeclaredWith(client, LeasedBy(client)).value_or(Bytes(0));
  client.leases.erase(event.id);
  leases_.erase(found);
  const Bytes less = before - DeclaredWith(client, LeasedBy(client)).value_or(Bytes(0));
  client.expected = client.leases.empty()
                        ? client.record.policy.memory
                        : std::optional(client.expected.value_or(Bytes(0)) - less);
  Tell(effects, {"lease_released", lease.client,
                 absl::StrCat(lease.stage, ": ", FormatBytes(lease.memory))});
  room_.reset();
}

void Scheduler::On(const Instant&, const ProgramsReturning& event, Effects&) {
  returning_until_ = event.until;
  room_.reset();
}

// One that waits is no longer waited for.
void Scheduler::DropLease(LeaseId id) {
  const auto client = clients_.find(leases_.at(id).client);
  if (client != clients_.end()) client->second.wanted.erase(id);
  lease_queue_.erase(waiting_leases_.at(id).rank);
  waiting_leases_.erase(id);
  leases_.erase(id);
}

void Scheduler::DenyLease(LeaseId id, absl::Status status, std::vector<Blocker> blockers,
                          Effects& effects) {
  const Lease lease = leases_.at(id);
  DropLease(id);
  Tell(effects, {"lease_denied", lease.client,
                 absl::StrCat(lease.stage, ": ", std::string(status.message()))});
  effects.emplace_back(LeaseDenied{id, lease.client, std::move(status), std::move(blockers)});
}

// Its client ends, or is to.
void Scheduler::DenyWanted(Client& client, Effects& effects) {
  const std::set<LeaseId> wanted = std::exchange(client.wanted, {});
  const absl::Status status =
      WithReason(absl::CancelledError(absl::StrCat("client ", Value(client.record.id), " is ",
                                                   client.stop ? "being stopped" : "gone")),
                 kJobEnded);
  for (const LeaseId lease : wanted) DenyLease(lease, status, {}, effects);
}

// Its program would wait for ever; it hears what it would if it asked now.
void Scheduler::DenyWhatNeverFits(Effects& effects) {
  for (const LeaseId id : WaitingLeases()) {
    const Lease& lease = leases_.at(id);
    absl::Status fits = CheckFitsWithin(clients_.at(lease.client), lease.memory, kLeaseMemory);
    if (!fits.ok()) DenyLease(id, std::move(fits), {}, effects);
  }
}

// Progress over deadlock: when nobody can go on before somebody else does, the oldest goes.
bool Scheduler::ForceProgress(const Instant& now, Effects& effects) {
  if ((lease_queue_.empty() && WaitingInside().empty()) || !EveryClientWaits() ||
      IsUnsettled(room(), now.awake)) {
    return false;
  }
  for (const auto& [id, waiting] : waiting_leases_) {
    const Client& client = clients_.at(leases_.at(id).client);
    if (IsSuspended(leases_.at(id))) continue;
    if (!host_.level || host_.level->value < client.record.policy.kill_free.value + kForceMargin) {
      return false;
    }
    Grant(now, id, WhyForced(now, "a lease"), effects);
    return true;
  }
  return ForceInner(now, effects);
}

bool Scheduler::ForceInner(const Instant& now, Effects& effects) {
  for (const JobId id : WaitingInside()) {
    const Policy& policy = queue_.Find(id)->record.policy;
    if (!host_.level || host_.level->value < policy.kill_free.value + kForceMargin) return false;
    AdmitStart(now, id, WhyForced(now, kWhatIsInside), effects);
    return true;
  }
  return false;
}

// Whether a guard inside it waits, which it waits for in turn.
bool Scheduler::WaitsForInner(JobId id) const {
  const std::vector<JobId> waiting = WaitingInside();
  return std::any_of(waiting.begin(), waiting.end(),
                     [&](JobId inner) { return nesting_.IsInside(inner, id); });
}

// Killed, and not gone: what it holds may never come back. One that only does not end when it is
// told to, or that no signal reaches, runs on like any other, and gives its memory back as it ends.
bool Scheduler::IsDead(const Client& client) {
  return client.stop && client.stop->step == Stop::Step::kKilled && client.stuck && !client.deaf;
}

// Whether each active client waits for a lease or for a guard inside it, or cannot go on either:
// suspended, or killed and not gone.
bool Scheduler::EveryClientWaits() const {
  return std::all_of(clients_.begin(), clients_.end(), [this](const auto& entry) {
    const Client& client = entry.second;
    if (client.stop) return IsDead(client);
    return client.record.state == JobState::kSuspended || WaitsWithAll(client) ||
           WaitsForInner(entry.first);
  });
}

// What kept the clients from going on: what the first of them `waits` for, and who cannot.
std::string Scheduler::WhyForced(const Instant& now, std::string_view waits) const {
  std::vector<std::string> suspended;
  std::vector<std::string> dead;
  bool waits_for_inner = false;
  for (const auto& [id, client] : clients_) {
    if (client.record.state == JobState::kSuspended) {
      suspended.push_back(absl::StrCat("job ", Value(id)));
    } else if (IsDead(client)) {
      dead.push_back(absl::StrCat("job ", Value(id), ", ",
                                  FormatSpan(now.awake - *client.stop->killed_at), " ago"));
    } else if (WaitsForInner(id)) {
      waits_for_inner = true;
    }
  }
  std::string text = absl::StrCat("every client waited for ", std::string(waits));
  if (waits_for_inner && waits != std::string_view(kWhatIsInside))
    absl::StrAppend(&text, " or ", kWhatIsInside);
  const auto add = [&text](const char* what, const std::vector<std::string>& who) {
    if (who.empty()) return;
    absl::StrAppend(&text, ", or ", what, " (", who.front());
    if (who.size() > 1) absl::StrAppend(&text, " and ", who.size() - 1, " more");
    absl::StrAppend(&text, ")");
  };
  add("was suspended", suspended);
  add("did not end when it was killed", dead);
  return text;
}

// Whether it waits for a lease, and none of its programs holds one without waiting itself.
bool Scheduler::WaitsWithAll(const Client& client) const {
  const auto waits = [&](LeaseId held) {
    return std::any_of(client.wanted.begin(), client.wanted.end(), [&](LeaseId wanted) {
      return leases_.at(wanted).holder == leases_.at(held).holder;
    });
  };
  return !client.wanted.empty() && std::all_of(client.leases.begin(), client.leases.end(), waits);
}

// ---- Why one waits ----

std::vector<Blocker> Scheduler::BlockersOf(const Instant& now, JobId id) const {
  const RequestQueue::Request* request = queue_.Find(id);
  if (request == nullptr) return {};
  std::vector<Blocker> blockers = queue_.OwnBlockersOf(now, id);
  const bool own = !blockers.empty();
  const Demand demand = DemandOfStart(request->record);
  for (Blocker& blocker : FindBlockers(demand, config_, room(), now.awake)) {
    blockers.push_back(std::move(blocker));
  }
  if (own || !CanEverFit(demand) || (demand.part_of && !FirstLease())) return blockers;
  if (auto order = OrderBlocker(Value(id), demand.memory.has_value())) {
    blockers.push_back(*std::move(order));
  }
  return blockers;
}

std::vector<Blocker> Scheduler::BlockersOf(const Instant& now, LeaseId id) const {
  const auto waiting = waiting_leases_.find(id);
  if (waiting == waiting_leases_.end()) return {};
  const Lease& lease = leases_.at(id);
  std::vector<Blocker> blockers = FindBlockers(DemandOfLease(lease), config_, room(), now.awake);
  if (IsSuspended(lease)) {
    blockers.push_back({BlockerKind::kHeld, 1, 0,
                        absl::StrCat("its client ", Value(lease.client), " is suspended"),
                        std::nullopt});
    return blockers;
  }
  const LeaseId first = FirstLease().value_or(id);
  if (first == id) return blockers;
  blockers.push_back(
      {BlockerKind::kOrder, static_cast<double>(Value(id)), static_cast<double>(Value(first)),
       absl::StrCat("a lease of client ", Value(leases_.at(first).client), " goes first"),
       std::nullopt});
  return blockers;
}

// That may go.
std::optional<LeaseId> Scheduler::FirstLease() const {
  for (const LeaseRank& rank : lease_queue_) {
    if (!IsSuspended(leases_.at(rank.second))) return rank.second;
  }
  return std::nullopt;
}

// The same of what waits for its start.
const RequestQueue::Request* Scheduler::FirstStart() const {
  RequestQueue::Candidates candidates(queue_);
  for (int hopeless = 0; hopeless <= kLookAhead; ++hopeless) {
    const RequestQueue::Request* const request = candidates.Next();
    if (request == nullptr || CanEverFit(DemandOfStart(request->record))) return request;
  }
  return nullptr;
}

std::vector<LeaseId> Scheduler::WaitingLeases() const {
  std::vector<LeaseId> waiting;
  for (const LeaseRank& rank : lease_queue_) waiting.push_back(rank.second);
  return waiting;
}

// Absent for the one that goes first.
std::optional<Blocker> Scheduler::OrderBlocker(std::int64_t own_id, bool declares) const {
  std::string who;
  std::int64_t first = 0;
  int bypassed = 0;
  if (const auto next = FirstLease()) {
    const Lease& lease = leases_.at(*next);
    first = Value(lease.client);
    bypassed = lease.bypassed;
    who = absl::StrCat("a lease of client ", first, " goes first");
  } else if (const auto* request = FirstStart()) {
    first = Value(request->record.id);
    bypassed = request->record.bypassed;
    who = absl::StrCat("job ", first, " goes first");
    if (first == own_id) return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (bypassed >= config_.max_bypass) {
    absl::StrAppend(&who, "; it was passed ", bypassed, " times already");
  } else if (!declares) {
    absl::StrAppend(&who, "; only one that declares its memory may pass it");
  }
  return Blocker{BlockerKind::kOrder, static_cast<double>(own_id), static_cast<double>(first),
                 std::move(who), std::nullopt};
}

}  // namespace stageload::core
