// Whom to stop, and how a stop goes on until nothing of the client is left.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "daemon/core/fault.h"
#include "daemon/core/scheduler.h"

namespace stageload::core {
namespace {

constexpr double kWarnShare = 0.8;         // of the budget
constexpr double kEscalationShare = 0.25;  // of the budget, in growth of swap during the grace time
constexpr absl::Duration kKillAgain = absl::Seconds(1);
constexpr absl::Duration kKillStuckAgain = absl::Seconds(10);
constexpr absl::Duration kStuckAfterKill = absl::Seconds(5);
constexpr absl::Duration kAfterHostVictim = absl::Seconds(2);

// Both figures of every stop: what the machine did, and how much of it was the client's own.
std::string Figures(const ChargeLedger::Account& account) {
  return absl::StrCat(
      "(the machine's swap grew by ", FormatBytes(account.system_growth), ", its own by ",
      account.own_growth ? FormatBytes(*account.own_growth) : "an unknown amount", ")");
}

}  // namespace

// ---- What calls for a stop ----

void Scheduler::CheckBudgets(const Instant& now, Effects& effects) {
  for (auto& [id, client] : clients_) {
    if (client.stop) continue;
    const Policy& policy = client.record.policy;
    const ChargeLedger::Account account = ledger_.Of(id);
    const Bytes charge = account.charge - client.record.forgiven;
    const bool suspended = client.record.state == JobState::kSuspended;
    if (charge > policy.swap_budget && !suspended) OverBudgetOf(now, client, effects);
    if (policy.swap_limit && host_.swap_used && *host_.swap_used > *policy.swap_limit) {
      StopClient(now, client, Reason::kSwapLimit,
                 absl::StrCat("swap used ", FormatBytes(*host_.swap_used), " is over the limit of ",
                              FormatBytes(*policy.swap_limit), "; swap charge ",
                              FormatBytes(account.charge), " ", Figures(account)),
                 effects);
    }
    const bool quiet = client.stop || client.warned || suspended || charge > policy.swap_budget;
    if (quiet || charge <= policy.swap_budget * kWarnShare) continue;
    client.warned = true;
    Warn(client, charge,
         absl::StrCat("swap charge ", FormatBytes(charge), " of ", FormatBytes(policy.swap_budget),
                      " ", Figures(account)),
         effects);
  }
}

void Scheduler::Warn(const Client& client, Bytes charge, std::string text, Effects& effects) {
  const JobId id = client.record.id;
  effects.emplace_back(Warned{id, charge, client.record.policy.swap_budget, text});
  Tell(effects, {"warned", id, std::move(text)});
}

void Scheduler::OverBudgetOf(const Instant& now, Client& client, Effects& effects) {
  const Policy& policy = client.record.policy;
  const ChargeLedger::Account account = ledger_.Of(client.record.id);
  std::string text = absl::StrCat(
      "swap charge ", FormatBytes(account.charge - client.record.forgiven),
      " is over the budget of ", FormatBytes(policy.swap_budget), " ", Figures(account));
  const bool cannot_suspend = client.record.kind == JobKind::kSession && !client.record.may_signal;
  if (policy.on_over_budget == OverBudget::kWarn) {
    if (std::exchange(client.over_budget_told, true)) return;
    Warn(client, account.charge - client.record.forgiven, std::move(text), effects);
  } else if (policy.on_over_budget == OverBudget::kSuspend && !cannot_suspend) {
    if (!client.stuck) Suspend(now, client, Reason::kSwapBudget, std::move(text), effects);
  } else {
    StopClient(now, client, Reason::kSwapBudget, std::move(text), effects);
  }
}

// When its time is up, as Instant::awake; absent without a limit, and while it is suspended.
std::optional<absl::Duration> Scheduler::TimeLimitAt(const Client& client) const {
  const JobRecord& record = client.record;
  if (!record.policy.time_limit || !record.started_awake || record.suspended_awake || client.stop ||
      client.would_stop) {
    return std::nullopt;
  }
  // It may have ended in time while no daemon was there; that is known once it is found.
  if (client.restored && !client.found) return std::nullopt;
  return *record.started_awake + record.suspended_for + *record.policy.time_limit;
}

void Scheduler::CheckTimeLimits(const Instant& now, Effects& effects) {
  for (auto& [id, client] : clients_) {
    const std::optional<absl::Duration> at = TimeLimitAt(client);
    if (!at || now.awake < *at) continue;
    StopClient(
        now, client, Reason::kTimeLimit,
        absl::StrCat("it ran for its time limit of ", FormatSpan(*client.record.policy.time_limit),
                     ", not counting time asleep or suspended"),
        effects);
  }
}

void Scheduler::CheckLowLevel(const Instant& now, Effects& effects) {
  if (!host_.level) return;
  std::vector<Candidate> candidates;
  for (const auto& [id, client] : clients_) {
    if (client.stop || client.stuck || client.would_stop || !client.low_level.Armed()) continue;
    candidates.push_back({id, client.record.policy.priority, ledger_.Of(id).charge,
                          client.usage.footprint.value_or(Bytes(0))});
  }
  const std::optional<JobId> victim = ChooseVictim(candidates);
  if (!victim || !MayTakeHostVictim(now)) return;
  Client& client = clients_.at(*victim);
  const ChargeLedger::Account account = ledger_.Of(*victim);
  StopClient(now, client, Reason::kLowMemory,
             absl::StrCat(FormatPercent(*host_.level), " of memory available, below ",
                          FormatPercent(client.record.policy.kill_free), " (kill_free); footprint ",
                          client.usage.footprint ? FormatBytes(*client.usage.footprint) : "unknown",
                          ", swap charge ", FormatBytes(account.charge), " ", Figures(account)),
             effects);
}

// One host-level victim at a time, and 2 s for its memory to come back, unless it is dire.
bool Scheduler::MayTakeHostVictim(const Instant& now) const {
  if (IsOn(Fault::kSecondVictimAtOnce)) return true;
  Percent kill_free{0};
  for (const auto& [id, client] : clients_) {
    if (client.stop && client.stop->host_level && !client.stuck) return false;
    kill_free = std::max(kill_free, client.record.policy.kill_free);
  }
  if (host_.level->value < kill_free.value / 2) return true;
  return !host_victim_gone_ || now.awake - *host_victim_gone_ >= kAfterHostVictim;
}

// ---- A stop and its steps ----

void Scheduler::StopClient(const Instant& now, Client& client, Reason reason, std::string text,
                           Effects& effects) {
  if (client.stop) return;  // one stop, and its grace time goes on
  if (config_.dry_run && reason != Reason::kCancelled) {
    return WouldDo(now, client, reason, text, effects);
  }
  JobRecord& record = client.record;
  const bool suspended = record.state == JobState::kSuspended;
  record.state = JobState::kStopping;
  record.reason = reason;
  record.reason_text = std::move(text);
  client.stop = Stop{};
  client.stop->host_level = reason == Reason::kLowMemory;
  client.stop->swap_at_start = host_.swap_used;
  client.stop->charge = ledger_.Of(record.id).charge;
  client.saved_charge = record.charge;
  DenyWanted(client, effects);  // it gets no more room, and must not stand before those who may
  const bool ask = record.kind == JobKind::kSession;
  const bool signal = !ask && record.root && record.may_signal;
  if (signal || ask) record.stop_awake = now.awake;
  effects.emplace_back(Save{record});
  Tell(effects, {"stopping", record.id, absl::StrCat(Name(reason), ": ", record.reason_text)});
  if (suspended && record.root) effects.emplace_back(Signal{record.id, Signal::Kind::kContinue});
  effects.emplace_back(StopRequested{record.id, reason, record.reason_text, record.policy.grace});
  if (signal) {
    Terminate(now, client, effects);
  } else if (record.kind == JobKind::kSession) {
    client.stop->step = Stop::Step::kAsked;
    client.stop->next_at = now.awake + record.policy.grace;
  }
}

// In a dry run everything is decided and told, once for each client, and nothing is done.
void Scheduler::WouldDo(const Instant& now, Client& client, Reason reason, const std::string& text,
                        Effects& effects) {
  if (std::exchange(client.would_stop, true)) return;
  if (reason == Reason::kLowMemory) host_victim_gone_ = now.awake;
  Tell(effects,
       {"would_stop", client.record.id, absl::StrCat("dry run: ", Name(reason), ": ", text)});
}

// SIGTERM. The grace time counts from the first one, also over a restart of the daemon.
void Scheduler::Terminate(const Instant& now, Client& client, Effects& effects) {
  Stop& stop = *client.stop;
  if (stop.step == Stop::Step::kAsked || !client.record.stop_awake ||
      *client.record.stop_awake > now.awake) {
    client.record.stop_awake = now.awake;
    effects.emplace_back(Save{client.record});
  }
  stop.step = Stop::Step::kTerminated;
  stop.next_at = *client.record.stop_awake + client.record.policy.grace;
  effects.emplace_back(Signal{client.record.id, Signal::Kind::kTerminate});
}

void Scheduler::CheckEscalation(const Instant& now, Effects& effects) {
  for (auto& [id, client] : clients_) {
    if (!client.stop || !client.stop->next_at) continue;
    if (now.awake >= *client.stop->next_at) {
      Escalate(now, client, effects);
      continue;
    }
    if (client.stop->step == Stop::Step::kKilled || !client.record.may_signal ||
        !client.record.root) {
      continue;
    }
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

// The time for a step is over.
void Scheduler::Escalate(const Instant& now, Client& client, Effects& effects) {
  switch (client.stop->step) {
    case Stop::Step::kNotSent:
      return;
    case Stop::Step::kAsked:
      if (client.record.may_signal && client.record.root) return Terminate(now, client, effects);
      client.stop->next_at.reset();
      return Stuck(now, client, "it was asked to end, did not, and may not be signalled", effects);
    case Stop::Step::kTerminated:
      return Kill(now, client, "its grace time is over", effects);
    case Stop::Step::kKilled:
      Kill(now, client, "", effects);
      if (now.awake - *client.stop->killed_at >= kStuckAfterKill) {
        Stuck(now, client,
              absl::StrCat("it is still there ", FormatSpan(kStuckAfterKill), " after SIGKILL"),
              effects);
      }
  }
}

// SIGKILL, and again each second while anything of it is left: a new child may have slipped
// through.
void Scheduler::Kill(const Instant& now, Client& client, const std::string& why, Effects& effects) {
  Stop& stop = *client.stop;
  if (stop.step != Stop::Step::kKilled) {
    stop.step = Stop::Step::kKilled;
    stop.killed_at = now.awake;
    client.record.reason_text = absl::StrCat(client.record.reason_text, "; SIGKILL: ", why);
    effects.emplace_back(Save{client.record});
    Tell(effects, {"killed", client.record.id, why});
  }
  stop.next_at = now.awake + (client.stuck ? kKillStuckAgain : kKillAgain);
  effects.emplace_back(Signal{client.record.id, Signal::Kind::kKill});
}

// Reported once. If it was chosen for the whole machine, the next is considered now.
void Scheduler::Stuck(const Instant& now, Client& client, const std::string& why,
                      Effects& effects) {
  if (std::exchange(client.stuck, true)) return;
  Tell(effects, {"stuck", client.record.id, why});
  if (client.stop && client.stop->host_level) CheckLowLevel(now, effects);
}

void Scheduler::On(const Instant& now, const SignalRefused& event, Effects& effects) {
  Client* const found = Active(event.id);
  if (found == nullptr) return;
  Client& client = *found;
  if (client.record.state == JobState::kSuspended) {
    // It runs on, so nobody may be told otherwise.
    client.record.state = JobState::kRunning;
    client.record.suspended_awake.reset();
    client.record.reason = Reason::kNone;
    client.record.reason_text.clear();
    effects.emplace_back(Save{client.record});
  }
  client.deaf = true;
  Stuck(now, client, absl::StrCat("none of its processes can be signalled: ", event.text), effects);
}

// ---- Suspending ----

void Scheduler::Suspend(const Instant& now, Client& client, Reason reason, std::string text,
                        Effects& effects) {
  if (config_.dry_run && reason != Reason::kSuspendAsked) {
    return WouldDo(now, client, reason, text, effects);
  }
  JobRecord& record = client.record;
  record.state = JobState::kSuspended;
  record.reason = reason;
  record.reason_text = std::move(text);
  record.suspended_awake = now.awake;
  effects.emplace_back(Save{record});
  Tell(effects, {"suspended", record.id, absl::StrCat(Name(reason), ": ", record.reason_text)});
  // One whose process is not there yet is suspended once it is.
  if (record.root) effects.emplace_back(Signal{record.id, Signal::Kind::kSuspend});
}

void Scheduler::On(const Instant& now, const SuspendAsked& event, Effects& effects) {
  Client* const found = Active(event.id);
  if (found == nullptr) return;
  Client& client = *found;
  if (client.record.state != JobState::kRunning || !client.record.may_signal) return;
  Suspend(now, client, Reason::kSuspendAsked, "a user asked", effects);
}

void Scheduler::On(const Instant& now, const ResumeAsked& event, Effects& effects) {
  const auto found = clients_.find(event.id);
  if (found == clients_.end() || found->second.record.state != JobState::kSuspended) return;
  Client& client = found->second;
  JobRecord& record = client.record;
  // Its budget is whole again: else it would be suspended at the next sample for the same swap.
  if (record.reason == Reason::kSwapBudget) {
    record.forgiven = std::max(Bytes(0), ledger_.Of(event.id).charge);
    client.warned = false;
  }
  record.state = JobState::kRunning;
  record.reason = Reason::kNone;
  record.reason_text.clear();
  record.suspended_for += now.awake - record.suspended_awake.value_or(now.awake);
  record.suspended_awake.reset();
  effects.emplace_back(Save{record});
  Tell(effects, {"resumed", event.id, record.name});
  if (record.root) effects.emplace_back(Signal{event.id, Signal::Kind::kContinue});
  room_.reset();
}

}  // namespace stageload::core
