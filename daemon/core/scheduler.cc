#include "daemon/core/scheduler.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_reason.h"
#include "base/text.h"
#include "daemon/core/sampling.h"

namespace stageload::core {
namespace {

constexpr double kWarnShare = 0.8;         // of the budget
constexpr double kEscalationShare = 0.25;  // of the budget, in growth of swap during the grace time
constexpr int kFreshIntervals = 3;
constexpr absl::Duration kKillAgain = absl::Seconds(1);
constexpr absl::Duration kAfterHostVictim = absl::Seconds(2);

JobState StateFor(Reason reason) {
  switch (reason) {
    case Reason::kSwapBudget:
    case Reason::kSwapLimit:
    case Reason::kLowMemory:
      return JobState::kOutOfMemory;
    case Reason::kCancelled:
      return JobState::kCancelled;
    default:
      return JobState::kFailed;
  }
}

std::string JoinTexts(const std::vector<Blocker>& blockers) {
  return absl::StrJoin(blockers, "; ", [](std::string* out, const Blocker& blocker) {
    absl::StrAppend(out, Name(blocker.kind), ": ", blocker.text);
  });
}

std::string DescribeOutcome(const Outcome& outcome) {
  if (outcome.exit_code) return absl::StrCat("exit code ", *outcome.exit_code);
  if (outcome.signal) return absl::StrCat("signal ", *outcome.signal);
  return "nobody saw how it ended";
}

}  // namespace

Scheduler::Scheduler(Config config, JobId next_id)
    : config_(std::move(config)), next_id_(next_id) {}

Effects Scheduler::Step(const Instant& now, const Event& event) {
  Effects effects;
  std::visit([&](const auto& e) { On(now, e, effects); }, event);
  CheckEscalation(now, effects);
  // Who finds room at the last moment gets it; whoever gives up may have stood before others.
  Admit(now, effects);
  GiveUpWaiting(now, effects);
  Admit(now, effects);
  return effects;
}

// ---- Events ----

void Scheduler::On(const Instant& now, const Submit& event, Effects& effects) {
  absl::Status status = Validate(event.policy);
  if (status.ok()) status = CheckCanEverFit(event.policy, config_, host_);
  if (status.ok() && pending() >= config_.max_queued) {
    status = WithReason(absl::ResourceExhaustedError(absl::StrCat(
                            "the queue is full: ", pending(), " requests wait, the limit is ",
                            config_.max_queued, " (max_queued)")),
                        kQueueFull);
  }
  if (!status.ok()) {
    effects.push_back(Note{"refused", std::nullopt,
                           absl::StrCat(event.name, ": ", std::string(status.message()))});
    effects.push_back(Refused{event.token, std::move(status)});
    return;
  }
  JobRecord record;
  record.id = next_id_;
  next_id_ = JobId{Value(next_id_) + 1};
  record.kind = event.kind;
  record.name = event.name;
  record.command = event.command;
  record.working_directory = event.working_directory;
  record.policy = event.policy;
  record.submit_time = now.wall;
  record.root = event.root;
  record.boot_id = event.boot_id;
  std::optional<absl::Duration> give_up;
  if (event.policy.start_timeout) give_up = now.awake + *event.policy.start_timeout;

  effects.push_back(Save{record, true});
  effects.push_back(Accepted{event.token, record.id});
  effects.push_back(Note{"submitted", record.id, record.name});
  AddPending(std::move(record), give_up);
}

void Scheduler::On(const Instant& now, const Restored& event, Effects&) {
  const JobRecord& record = event.record;
  if (record.state == JobState::kPending) {
    std::optional<absl::Duration> give_up;
    if (record.policy.start_timeout) {
      // Only wall time spans a restart; a clock that was set may not make the wait longer.
      const absl::Duration waited = std::max(absl::ZeroDuration(), now.wall - record.submit_time);
      give_up = now.awake + std::max(absl::ZeroDuration(), *record.policy.start_timeout - waited);
    }
    AddPending(record, give_up);
    return;
  }
  Client& client = clients_[record.id];
  client.record = record;
  ledger_.Add(record.id, record.charge);
  if (record.state == JobState::kStopping) {
    // SIGTERM is sent again once its processes are found: it may never have been.
    client.stop = Stop{.kill_at = std::nullopt,
                       .killed = false,
                       .host_level = record.reason == Reason::kLowMemory,
                       .swap_at_start = std::nullopt,
                       .charge = record.charge};
  }
}

void Scheduler::On(const Instant& now, const SampleTaken& event, Effects& effects) {
  HostSample host = Plausible(event.sample.host);
  const absl::Duration elapsed =
      sampled_ ? std::max(absl::ZeroDuration(), now.awake - sampled_->awake) : absl::ZeroDuration();
  swap_change_ = host.swap_used && host_.swap_used ? *host.swap_used - *host_.swap_used : Bytes(0);
  since_sample_before_ = sampled_ ? elapsed : absl::InfiniteDuration();
  ledger_.Observe(now, host.swap_used, event.sample.clients);
  host_ = std::move(host);
  sampled_ = now;

  std::vector<JobId> empty;
  for (const ClientUsage& reading : event.sample.clients) {
    const auto found = clients_.find(reading.id);
    if (found == clients_.end()) continue;
    Client& client = found->second;
    client.usage = reading.usage;
    client.processes = reading.processes;
    if (reading.usage.footprint) {
      client.record.peak_footprint =
          std::max(client.record.peak_footprint.value_or(*reading.usage.footprint),
                   *reading.usage.footprint);
    }
    if (client.outcome && reading.processes == 0) empty.push_back(reading.id);
  }
  for (auto& [id, client] : clients_) client.record.charge = ledger_.Of(id).charge;
  for (const JobId id : empty) EndClient(now, id, *clients_.at(id).outcome, effects);

  CheckBudgets(now, effects);
  CheckLowLevel(now, elapsed, effects);
  interval_ = SampleInterval(0);
}

void Scheduler::On(const Instant& now, const Started& event, Effects& effects) {
  const auto found = clients_.find(event.id);
  if (found == clients_.end()) return;
  Client& client = found->second;
  client.record.root = event.root;
  client.record.boot_id = event.boot_id;
  effects.push_back(Save{client.record});
  // It was to be stopped before it was there.
  if (client.stop && !client.stop->kill_at) SendTerm(now, client, effects);
}

void Scheduler::On(const Instant& now, const StartFailed& event, Effects& effects) {
  const auto found = clients_.find(event.id);
  if (found == clients_.end()) return;
  Client& client = found->second;
  if (client.record.reason == Reason::kNone) {
    client.record.reason = Reason::kStartFailed;
    client.record.reason_text = event.text;
  }
  EndClient(now, event.id, Outcome{.exit_code = 127, .signal = {}, .start_errno = {}}, effects);
}

void Scheduler::On(const Instant& now, const Exited& event, Effects& effects) {
  const auto found = clients_.find(event.id);
  if (found == clients_.end()) return;
  Client& client = found->second;
  // Who is being stopped has not ended while a part of it lives on; nor has a tree that lost its
  // shim and still holds its memory.
  const bool seen = event.outcome.exit_code || event.outcome.signal;
  if ((client.stop || !seen) && event.remaining > 0) {
    client.outcome = event.outcome;
    return;
  }
  EndClient(now, event.id, event.outcome, effects);
}

void Scheduler::On(const Instant& now, const CancelAsked& event, Effects& effects) {
  if (pending_.count(event.id) > 0) {
    EndPending(now, event.id, JobState::kCancelled, Reason::kCancelled, "cancelled while it waited",
               effects);
    return;
  }
  const auto found = clients_.find(event.id);
  if (found == clients_.end()) return;
  StopClient(now, found->second, Reason::kCancelled, "cancelled while it ran", effects);
}

void Scheduler::On(const Instant& now, const ClientGone& event, Effects& effects) {
  if (pending_.count(event.id) == 0) return;
  EndPending(now, event.id, JobState::kCancelled, Reason::kClientGone,
             "the guard that asked went away before its command was admitted", effects);
}

void Scheduler::On(const Instant& now, const NodeFailed& event, Effects& effects) {
  const auto found = clients_.find(event.id);
  if (found == clients_.end()) return;
  JobRecord record = std::move(found->second.record);
  record.state = JobState::kNodeFail;
  record.reason = Reason::kLost;
  record.reason_text = "the machine was restarted while it ran";
  clients_.erase(found);
  ledger_.Remove(event.id);
  Finish(now, std::move(record), effects);
}

void Scheduler::On(const Instant&, const NotSaved& event, Effects&) {
  if (pending_.count(event.id) > 0) TakePending(event.id);
  if (clients_.erase(event.id) > 0) ledger_.Remove(event.id);
}

void Scheduler::On(const Instant&, const Tick&, Effects&) {}

// ---- Admission ----

void Scheduler::AddPending(JobRecord record, std::optional<absl::Duration> give_up) {
  const JobId id = record.id;
  queue_.emplace(-record.policy.priority, id);
  if (give_up) give_ups_.emplace(*give_up, id);
  pending_.emplace(id, Pending{std::move(record), give_up});
}

JobRecord Scheduler::TakePending(JobId id) {
  const auto found = pending_.find(id);
  JobRecord record = std::move(found->second.record);
  queue_.erase({-record.policy.priority, id});
  if (found->second.give_up) give_ups_.erase({*found->second.give_up, id});
  pending_.erase(found);
  return record;
}

Room Scheduler::RoomAt(const Instant& now) const {
  Room room;
  room.host = host_;
  if (sampled_) room.age = now.awake - sampled_->awake;
  room.max_age = kFreshIntervals * interval_;
  for (const auto& [id, client] : clients_) {
    const Policy& policy = client.record.policy;
    const Bytes spent = std::max(Bytes(0), ledger_.Of(id).charge);
    room.active.push_back({id, policy.memory, client.usage.footprint,
                           std::max(Bytes(0), policy.swap_budget - spent)});
  }
  return room;
}

void Scheduler::Admit(const Instant& now, Effects& effects) {
  while (!queue_.empty()) {
    const JobId id = queue_.begin()->second;
    const Room room = RoomAt(now);
    if (!FindBlockers(pending_.at(id).record.policy, config_, room).empty()) return;
    JobRecord record = TakePending(id);
    record.state = JobState::kRunning;
    record.start_time = now.wall;
    effects.push_back(Save{record});
    effects.push_back(Start{id, record.kind});
    std::string text =
        absl::StrCat(record.name, " after ", FormatSpan(now.wall - record.submit_time));
    if (host_.level) absl::StrAppend(&text, ", ", FormatPercent(*host_.level), " available");
    if (record.policy.memory) {
      absl::StrAppend(&text, ", declares ", FormatBytes(*record.policy.memory));
    }
    effects.push_back(Note{"admitted", id, std::move(text)});
    clients_[id].record = std::move(record);
    ledger_.Add(id);
  }
}

void Scheduler::GiveUpWaiting(const Instant& now, Effects& effects) {
  while (!give_ups_.empty() && give_ups_.begin()->first <= now.awake) {
    const JobId id = give_ups_.begin()->second;
    const absl::Duration timeout = *pending_.at(id).record.policy.start_timeout;
    EndPending(
        now, id, JobState::kNoRoom, Reason::kStartTimeout,
        absl::StrCat("no room within ", FormatSpan(timeout), ": ", JoinTexts(BlockersOf(now, id))),
        effects);
  }
}

// ---- Stopping ----

void Scheduler::CheckBudgets(const Instant& now, Effects& effects) {
  for (auto& [id, client] : clients_) {
    if (client.stop) continue;
    const Policy& policy = client.record.policy;
    const ChargeLedger::Account account = ledger_.Of(id);
    if (account.charge > policy.swap_budget) {
      StopClient(now, client, Reason::kSwapBudget,
                 absl::StrCat("swap charge ", FormatBytes(account.charge),
                              " is over the budget of ", FormatBytes(policy.swap_budget),
                              " (the machine's swap grew by ", FormatBytes(account.system_growth),
                              ", its own by ", FormatBytes(account.own_growth), ")"),
                 effects);
    } else if (policy.swap_limit && host_.swap_used && *host_.swap_used > *policy.swap_limit) {
      StopClient(now, client, Reason::kSwapLimit,
                 absl::StrCat("swap used ", FormatBytes(*host_.swap_used), " is over the limit of ",
                              FormatBytes(*policy.swap_limit), " (swap charge ",
                              FormatBytes(account.charge), ", its own swap grew by ",
                              FormatBytes(account.own_growth), ")"),
                 effects);
    } else if (!client.warned && account.charge > policy.swap_budget * kWarnShare) {
      client.warned = true;
      effects.push_back(Note{"warned", id,
                             absl::StrCat("swap charge ", FormatBytes(account.charge), " of ",
                                          FormatBytes(policy.swap_budget))});
    }
  }
}

void Scheduler::CheckLowLevel(const Instant& now, absl::Duration elapsed, Effects& effects) {
  if (!host_.level) return;
  std::vector<Candidate> candidates;
  for (auto& [id, client] : clients_) {
    client.low_level.Observe(*host_.level < client.record.policy.kill_free, elapsed);
    if (client.stop || !client.low_level.Armed()) continue;
    candidates.push_back({id, client.record.policy.priority, ledger_.Of(id).charge,
                          client.usage.footprint.value_or(Bytes(0))});
  }
  const std::optional<JobId> victim = ChooseVictim(candidates);
  if (!victim || !MayTakeHostVictim(now)) return;
  Client& client = clients_.at(*victim);
  StopClient(now, client, Reason::kLowMemory,
             absl::StrCat(FormatPercent(*host_.level), " of memory available, below ",
                          FormatPercent(client.record.policy.kill_free), " (kill_free); footprint ",
                          client.usage.footprint ? FormatBytes(*client.usage.footprint) : "unknown",
                          ", swap charge ", FormatBytes(ledger_.Of(*victim).charge)),
             effects);
}

// One host-level victim at a time, and 2 s for its memory to come back, unless it is dire.
bool Scheduler::MayTakeHostVictim(const Instant& now) const {
  bool one_is_going = false;
  Percent kill_free{0};
  for (const auto& [id, client] : clients_) {
    one_is_going = one_is_going || (client.stop && client.stop->host_level);
    kill_free = std::max(kill_free, client.record.policy.kill_free);
  }
  if (host_.level->value < kill_free.value / 2 && !one_is_going) return true;
  if (one_is_going) return false;
  return !host_victim_gone_ || now.awake - *host_victim_gone_ >= kAfterHostVictim;
}

void Scheduler::StopClient(const Instant& now, Client& client, Reason reason, std::string text,
                           Effects& effects) {
  if (client.stop) return;  // one stop, and its grace time goes on
  client.record.state = JobState::kStopping;
  client.record.reason = reason;
  client.record.reason_text = std::move(text);
  client.stop = Stop{.kill_at = std::nullopt,
                     .killed = false,
                     .host_level = reason == Reason::kLowMemory,
                     .swap_at_start = host_.swap_used,
                     .charge = ledger_.Of(client.record.id).charge};
  effects.push_back(Save{client.record});
  effects.push_back(Note{"stopping", client.record.id,
                         absl::StrCat(Name(reason), ": ", client.record.reason_text)});
  if (client.record.root) SendTerm(now, client, effects);
}

void Scheduler::SendTerm(const Instant& now, Client& client, Effects& effects) {
  client.stop->kill_at = now.awake + client.record.policy.grace;
  effects.push_back(Signal{client.record.id, Signal::Kind::kTerminate});
}

void Scheduler::CheckEscalation(const Instant& now, Effects& effects) {
  for (auto& [id, client] : clients_) {
    if (!client.stop || !client.stop->kill_at) continue;
    if (now.awake >= *client.stop->kill_at) {
      Kill(now, client, "its grace time is over", effects);
      continue;
    }
    if (client.stop->killed) continue;
    const Policy& policy = client.record.policy;
    if (host_.level && host_.level->value < policy.kill_free.value / 2) {
      Kill(now, client,
           absl::StrCat("the level fell to ", FormatPercent(*host_.level), " in its grace time"),
           effects);
    } else if (host_.swap_used && client.stop->swap_at_start &&
               *host_.swap_used - *client.stop->swap_at_start >
                   policy.swap_budget * kEscalationShare) {
      Kill(now, client,
           absl::StrCat("swap grew by a further ",
                        FormatBytes(*host_.swap_used - *client.stop->swap_at_start),
                        " in its grace time"),
           effects);
    }
  }
}

// SIGKILL, and again each second while anything of it is left: a new child may have slipped
// through.
void Scheduler::Kill(const Instant& now, Client& client, const std::string& why, Effects& effects) {
  if (!client.stop->killed) {
    client.record.reason_text = absl::StrCat(client.record.reason_text, "; SIGKILL: ", why);
    effects.push_back(Save{client.record});
    effects.push_back(Note{"killed", client.record.id, why});
  }
  client.stop->killed = true;
  client.stop->kill_at = now.awake + kKillAgain;
  effects.push_back(Signal{client.record.id, Signal::Kind::kKill});
}

// ---- Ends ----

void Scheduler::EndClient(const Instant& now, JobId id, const Outcome& outcome, Effects& effects) {
  Client& client = clients_.at(id);
  JobRecord record = std::move(client.record);
  record.charge = ledger_.Of(id).charge;
  record.outcome = outcome;
  if (client.stop) {
    record.state = StateFor(record.reason);
    // Its swap is given back while it dies; what is kept is what it was stopped with.
    record.charge = std::max(record.charge, client.stop->charge);
    if (client.stop->host_level) host_victim_gone_ = now.awake;
  } else if (outcome.start_errno || record.reason == Reason::kStartFailed) {
    record.state = JobState::kFailed;
    if (record.reason == Reason::kNone) {
      record.reason = Reason::kStartFailed;
      record.reason_text =
          absl::StrCat("the command could not be started (errno ", *outcome.start_errno, ")");
    }
  } else if (outcome.exit_code || outcome.signal) {
    record.state = outcome.exit_code == 0 ? JobState::kCompleted : JobState::kFailed;
  } else {
    record.state = JobState::kUnknown;
    record.reason = Reason::kLost;
    record.reason_text = DescribeOutcome(outcome);
  }
  clients_.erase(id);
  ledger_.Remove(id);
  Finish(now, std::move(record), effects);
}

void Scheduler::EndPending(const Instant& now, JobId id, JobState state, Reason reason,
                           std::string text, Effects& effects) {
  JobRecord record = TakePending(id);
  record.state = state;
  record.reason = reason;
  record.reason_text = std::move(text);
  Finish(now, std::move(record), effects);
}

void Scheduler::Finish(const Instant& now, JobRecord record, Effects& effects) const {
  record.end_time = now.wall;
  std::string text = std::string(Name(record.state));
  if (record.start_time) absl::StrAppend(&text, ", ", DescribeOutcome(record.outcome));
  if (record.reason != Reason::kNone) {
    absl::StrAppend(&text, ", ", Name(record.reason), ": ", record.reason_text);
  }
  const JobId id = record.id;
  effects.push_back(Save{std::move(record)});
  effects.push_back(Note{"ended", id, std::move(text)});
}

// ---- Questions ----

std::optional<absl::Duration> Scheduler::NextDeadline() const {
  std::optional<absl::Duration> deadline;
  const auto consider = [&deadline](absl::Duration at) {
    if (!deadline || at < *deadline) deadline = at;
  };
  if (!give_ups_.empty()) consider(give_ups_.begin()->first);
  for (const auto& [id, client] : clients_) {
    if (client.stop && client.stop->kill_at) consider(*client.stop->kill_at);
  }
  return deadline;
}

absl::Duration Scheduler::SampleInterval(int subscribers) const {
  SamplingInput input;
  for (const auto& [id, client] : clients_) {
    input.clients.push_back(
        {ledger_.Of(id).charge, client.record.policy.swap_budget, client.record.policy.kill_free});
    // While one is being stopped, each sample may be the one that says it must be killed or is
    // gone.
    if (client.stop) return kFastInterval;
  }
  input.waiting = pending();
  input.subscribers = subscribers;
  input.level = host_.level;
  input.swap_change = swap_change_;
  input.since_before = since_sample_before_;
  return SamplingInterval(input);
}

const JobRecord* Scheduler::Find(JobId id) const {
  if (const auto pending = pending_.find(id); pending != pending_.end()) {
    return &pending->second.record;
  }
  if (const auto client = clients_.find(id); client != clients_.end()) {
    return &client->second.record;
  }
  return nullptr;
}

Usage Scheduler::UsageOf(JobId id) const {
  const auto client = clients_.find(id);
  return client == clients_.end() ? Usage{} : client->second.usage;
}

std::vector<Blocker> Scheduler::BlockersOf(const Instant& now, JobId id) const {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return {};
  std::vector<Blocker> blockers = FindBlockers(found->second.record.policy, config_, RoomAt(now));
  const JobId first = queue_.begin()->second;
  if (first != id) {
    blockers.push_back({BlockerKind::kOrder, static_cast<double>(Value(id)),
                        static_cast<double>(Value(first)),
                        absl::StrCat("job ", Value(first), " goes first")});
  }
  return blockers;
}

std::vector<std::int64_t> Scheduler::QueuePositions(const std::vector<JobId>& ids) const {
  std::map<JobId, std::int64_t> wanted;
  for (const JobId id : ids) {
    if (pending_.count(id) > 0) wanted[id] = 0;
  }
  std::int64_t position = 0;
  std::size_t left = wanted.size();
  for (auto entry = queue_.begin(); left > 0 && entry != queue_.end(); ++entry) {
    ++position;
    const auto found = wanted.find(entry->second);
    if (found == wanted.end()) continue;
    found->second = position;
    --left;
  }
  std::vector<std::int64_t> positions;
  for (const JobId id : ids) {
    const auto found = wanted.find(id);
    positions.push_back(found == wanted.end() ? 0 : found->second);
  }
  return positions;
}

std::vector<ClientStatus> Scheduler::Clients() const {
  std::vector<ClientStatus> clients;
  for (const auto& [id, client] : clients_) {
    clients.push_back({&client.record, client.usage, client.processes});
  }
  return clients;
}

std::optional<JobId> Scheduler::FirstPending() const {
  if (queue_.empty()) return std::nullopt;
  return queue_.begin()->second;
}

Bytes Scheduler::Reserved() const {
  Bytes reserved;
  for (const auto& [id, client] : clients_) {
    reserved += Reservation{id, client.record.policy.memory, client.usage.footprint, Bytes(0)}
                    .Outstanding();
  }
  return reserved;
}

}  // namespace stageload::core
