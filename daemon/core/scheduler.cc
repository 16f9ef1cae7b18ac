// Clients come and go, and the machine is read. Admission and stopping have files of their own.
#include "daemon/core/scheduler.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_reason.h"
#include "base/text.h"
#include "daemon/core/fault.h"
#include "daemon/core/gap.h"
#include "daemon/core/policy_change.h"
#include "daemon/core/sampling.h"

namespace stageload::core {
namespace {

// A client that held less leaves no gap worth waiting for.
constexpr Bytes kRecoverFrom = GiB(1);
// A charge that has moved by this share of its budget is written down, so that a crash of the
// daemon is no way out of a budget.
constexpr double kSaveCharge = 1.0 / 16;
// After a restart a request waits so long at least before it gives up.
constexpr absl::Duration kFirstLook = absl::Seconds(2);
// What a request waited for is written down this often, for the next daemon.
constexpr absl::Duration kSaveWait = absl::Minutes(5);

JobState StateFor(Reason reason) {
  switch (reason) {
    case Reason::kSwapBudget:
    case Reason::kSwapLimit:
    case Reason::kLowMemory:
      return JobState::kOutOfMemory;
    case Reason::kCancelled:
      return JobState::kCancelled;
    case Reason::kTimeLimit:
      return JobState::kTimeout;
    default:
      return JobState::kFailed;
  }
}

std::string DescribeOutcome(const Outcome& outcome) {
  if (outcome.exit_code) return absl::StrCat("exit code ", *outcome.exit_code);
  if (outcome.signal) return absl::StrCat("signal ", *outcome.signal);
  return "nobody saw how it ended";
}

// What of its memory is still to come back when a client ends: what its footprint showed, or what
// no footprint shows but the machine lost since its start.
Bytes StillHeld(const JobRecord& record, const Usage& usage, std::optional<Bytes> available) {
  const Bytes seen = std::max(Bytes(0), usage.footprint.value_or(Bytes(0)));
  if (!record.available_at_start || !available) return seen;
  const Bytes lost = *record.available_at_start - *available;
  return std::max(seen, std::min(record.peak_footprint.value_or(Bytes(0)), lost));
}

// How a parent that the core does not know has ended.
std::optional<JobState> EndOf(const std::vector<EndedParent>& ended, JobId id) {
  for (const EndedParent& parent : ended) {
    if (parent.id == id) return parent.state;
  }
  return std::nullopt;
}

std::string NeverText(JobId parent, std::optional<JobState> state) {
  return state ? absl::StrCat("it was to start after job ", Value(parent), ", which ended as ",
                              Name(*state))
               : absl::StrCat("it was to start after job ", Value(parent), ", which is gone");
}

}  // namespace

Scheduler::Scheduler(Config config, JobId next_id)
    : config_(std::move(config)), next_id_(next_id), queue_(config_.group_limits) {}

Effects Scheduler::Step(const Instant& now, const Event& event) {
  if (newest_ && Slept(*newest_, now)) {
    woke_at_ = now.awake;
    room_.reset();
  }
  newest_ = now;
  queue_.AdvanceTo(now);

  Effects effects;
  std::visit([&](const auto& e) { On(now, e, effects); }, event);
  CancelChildren(now, effects);
  CheckTimeLimits(now, effects);
  CheckEscalation(now, effects);
  // Who finds room at the last moment gets it; whoever gives up may have stood before others.
  Admit(now, effects);
  if (GiveUpWaiting(now, effects)) {
    CancelChildren(now, effects);
    Admit(now, effects);
  }
  // Only now, so that who does not wait is not forced. What was forced stood before others, too.
  if (ForceProgress(now, effects)) Admit(now, effects);
  return effects;
}

Scheduler::Client* Scheduler::Active(JobId id) {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : &found->second;
}

// ---- Coming in ----

absl::Status Scheduler::CheckSubmit(const Submit& event) const {
  if (absl::Status status = Validate(event.policy); !status.ok()) return status;
  if (absl::Status status = CheckCanEverFit(DemandOf(event.policy), config_, host_); !status.ok()) {
    return status;
  }
  const auto around = event.inside ? clients_.find(*event.inside) : clients_.end();
  if (around != clients_.end() && event.policy.memory) {
    absl::Status status = CheckFitsWithin(around->second, *event.policy.memory, kPolicyMemory);
    if (!status.ok()) return status;
  }
  for (const JobId parent : event.after) {
    if (Find(parent) != nullptr || EndOf(event.ended_parents, parent)) continue;
    return WithReason(
        absl::InvalidArgumentError(absl::StrCat("terms.after: there is no job ", Value(parent))),
        kInvalidField, "terms.after");
  }
  return CheckPlace(event.kind);
}

absl::Status Scheduler::CheckPlace(JobKind kind) const {
  if (kind == JobKind::kSession) {
    const auto sessions = std::count_if(clients_.begin(), clients_.end(), [](const auto& entry) {
      return entry.second.record.kind == JobKind::kSession;
    });
    if (sessions < config_.max_sessions) return absl::OkStatus();
    return WithReason(absl::ResourceExhaustedError(
                          absl::StrCat(sessions, " sessions are registered, the limit is ",
                                       config_.max_sessions, " (max_sessions)")),
                      kTooManySessions);
  }
  if (pending() < config_.max_queued) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", pending(),
                                                              " requests wait, the limit is ",
                                                              config_.max_queued, " (max_queued)")),
                    kQueueFull);
}

void Scheduler::On(const Instant& now, const Submit& event, Effects& effects) {
  if (absl::Status status = CheckSubmit(event); !status.ok()) {
    Tell(effects,
         {"refused", std::nullopt, absl::StrCat(event.name, ": ", std::string(status.message()))});
    effects.emplace_back(Refused{event.token, std::move(status)});
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
  record.group = event.group;
  record.profile = event.profile;
  record.request_id = event.request_id;
  record.requeue = event.requeue;
  record.retry_of = event.retry_of;
  record.may_signal = event.may_signal;
  record.notify = event.notify;
  record.after = event.after;
  record.begin_time = event.begin_time;
  record.held = event.held;
  record.submit_time = now.wall;
  record.root = event.root;
  record.boot_id = event.boot_id;
  Nest(record.id, event.inside);
  // It is in the group of what is around it already, and must not wait for that.
  for (auto outer = nesting_.Around(record.id); outer; outer = nesting_.Around(*outer)) {
    if (clients_.at(*outer).record.group == record.group) record.group.clear();
  }
  if (event.kind == JobKind::kSession) MarkStarted(now, record);
  DropCompleted(record, event.ended_parents);
  effects.emplace_back(Save{record, true});
  effects.emplace_back(Accepted{event.token, record.id});
  Tell(effects,
       {event.kind == JobKind::kSession ? "registered" : "submitted", record.id, record.name});
  if (event.kind == JobKind::kSession) {
    AddClient(std::move(record));
    return NoticeCompany(effects);
  }
  AddPending(now, std::move(record), std::nullopt, event.ended_parents, effects);
}

void Scheduler::Nest(JobId id, std::optional<JobId> inside) {
  if (inside && Active(*inside) != nullptr && *inside != id && !nesting_.Around(id)) {
    nesting_.Add(id, *inside);
    room_.reset();
  }
}

// Of the jobs that it was to start after; whether there were any.
bool Scheduler::DropCompleted(JobRecord& record, const std::vector<EndedParent>& ended) const {
  return std::erase_if(record.after, [&](JobId parent) {
           return Find(parent) == nullptr && EndOf(ended, parent) == JobState::kCompleted;
         }) > 0;
}

// Puts it into the queue, or ends it when a job that it was to start after has failed.
void Scheduler::AddPending(const Instant& now, JobRecord record,
                           std::optional<absl::Duration> give_up,
                           const std::vector<EndedParent>& ended, Effects& effects) {
  RequestQueue::Request request;
  request.give_up = give_up;
  std::optional<std::string> never;
  for (const JobId parent : record.after) {
    if (Find(parent) != nullptr) {
      request.parents.insert(parent);
    } else if (const auto state = EndOf(ended, parent); state != JobState::kCompleted) {
      never = NeverText(parent, state);
    }
  }
  // Not to be asked for again: history may forget it.
  if (DropCompleted(record, ended)) effects.emplace_back(Save{record});
  const JobId id = record.id;
  request.record = std::move(record);
  queue_.Add(now, std::move(request));
  // The others are looked at with each sample, or by and by.
  if (const auto own = queue_.OwnBlockersOf(now, id); !own.empty()) {
    queue_.CountWait(now, id, own);
  } else if (queue_.size() > kLookAhead) {
    queue_.CountWait(now, id, {{BlockerKind::kOrder, 0, 0, ""}});
  }
  if (!never) return;
  EndPending(now, id, JobState::kCancelled, Reason::kDependencyNever, *std::move(never), effects);
}

void Scheduler::On(const Instant& now, const Restored& event, Effects& effects) {
  const JobRecord& record = event.record;
  if (record.state != JobState::kPending) return RestoreClient(now, record);
  if (IsOn(Fault::kJobLostOnRestart) && Value(record.id) % 5 == 0) return;
  std::optional<absl::Duration> give_up;
  if (record.policy.start_timeout && record.after.empty() && !record.held &&
      record.begin_time.value_or(now.wall) <= now.wall) {
    // Only wall time spans a restart; a clock that was set may not make the wait longer.
    const absl::Time from =
        std::max(record.submit_time, record.begin_time.value_or(absl::InfinitePast()));
    const absl::Duration waited = std::max(absl::ZeroDuration(), now.wall - from);
    // Time without a daemon counts, but there must be one look at the machine before it is over.
    give_up = now.awake + std::max(std::min(kFirstLook, *record.policy.start_timeout),
                                   *record.policy.start_timeout - waited);
  }
  AddPending(now, record, give_up, event.ended_parents, effects);
}

void Scheduler::On(const Instant&, const ProfileRestored& event, Effects&) {
  profiles_.Add(event.profile, event.run);
}

void Scheduler::On(const Instant& now, const QueueHeldRestored& event, Effects&) {
  queue_.HoldAll(now, event.text);
}

// From here on it runs, and what it takes is measured against the machine as it is now.
void Scheduler::MarkStarted(const Instant& now, JobRecord& record) const {
  record.state = JobState::kRunning;
  record.start_time = now.wall;
  record.started_awake = now.awake;
  record.available_at_start = host_.available;
  record.swap_at_start = host_.swap_used;
}

Scheduler::Client& Scheduler::AddClient(JobRecord record) {
  const JobId id = record.id;
  ledger_.Add(id, record.policy.charge_mode, record.charge);
  queue_.Occupy(record.group, 1);
  room_.reset();
  Client& client = clients_[id];
  client.saved_charge = record.charge;
  client.expected = record.policy.memory;
  client.record = std::move(record);
  return client;
}

void Scheduler::RestoreClient(const Instant& now, JobRecord record) {
  if (record.boot_id.empty()) {
    // No process of it was ever seen, so its moments may be those of another boot.
    record.start_time = now.wall;
    record.started_awake = now.awake;
    if (record.suspended_awake) record.suspended_awake = now.awake;
    record.suspended_for = absl::ZeroDuration();
    record.stop_awake.reset();
    record.swap_at_charge.reset();
    record.available_at_start.reset();
    record.swap_at_start.reset();
  }
  if (record.swap_at_charge && record.charge_awake && record.charge_continuous &&
      *record.charge_awake <= now.awake) {
    ledger_.Resume({*record.charge_awake, *record.charge_continuous, now.wall},
                   *record.swap_at_charge);
  }
  if (!record.policy.memory && record.kind != JobKind::kSession && record.started_awake &&
      *record.started_awake > (settling_ ? settling_->since : -absl::InfiniteDuration())) {
    settling_ = Room::Settling{record.id, *record.started_awake};
  }
  Client& client = AddClient(std::move(record));
  client.restored = true;
  if (client.record.state != JobState::kStopping) return;
  // SIGTERM is sent again once its processes are found: it may never have been.
  client.stop = Stop{};
  client.stop->host_level = client.record.reason == Reason::kLowMemory;
  client.stop->charge = client.record.charge;
}

void Scheduler::On(const Instant& now, const Started& event, Effects& effects) {
  if (Find(event.id) != nullptr) Nest(event.id, event.inside);
  Client* const found = Active(event.id);
  if (found == nullptr) return;
  Client& client = *found;
  client.found = true;
  client.record.root = event.root;
  client.record.boot_id = event.boot_id;
  effects.emplace_back(Save{client.record});
  // What was decided before it was there, or may not have been carried out by the daemon before.
  if (client.stop && client.stop->step == Stop::Step::kNotSent) {
    Terminate(now, client, effects);
  } else if (client.record.state == JobState::kSuspended) {
    effects.emplace_back(Signal{event.id, Signal::Kind::kSuspend});
  } else if (client.restored) {
    effects.emplace_back(Signal{event.id, Signal::Kind::kContinue});
  }
}

// ---- The machine is read ----

void Scheduler::On(const Instant& now, const SampleTaken& event, Effects& effects) {
  const bool gap = sampled_ && IsGap(*sampled_, now);
  const absl::Duration elapsed = gap || !sampled_
                                     ? absl::ZeroDuration()
                                     : std::max(absl::ZeroDuration(), now.awake - sampled_->awake);
  ReadSample(now, gap, event.sample, effects);
  queue_.Observe(now.awake, event.sample.busy);
  TakeReadings(now, event.sample, effects);
  for (auto& [id, client] : clients_) {
    if (gap) client.low_level = LowLevel{};
    client.low_level.Observe(host_.level && *host_.level < client.record.policy.kill_free, elapsed);
  }
  // After a sleep or a stall one sample says nothing yet: what it shows may be over already.
  if (!gap || IsOn(Fault::kNotRebasedAfterSleep)) {
    CheckBudgets(now, effects);
    CheckLowLevel(now, effects);
  }
  SaveCharges(effects);
  interval_ = SampleInterval(0);
  CountWaits(now, effects);
}

// Takes in what the machine says, without what cannot be true.
void Scheduler::ReadSample(const Instant& now, bool gap, const Sample& sample, Effects& effects) {
  std::vector<std::string> dropped;
  HostSample host = Plausible(sample.host, &dropped);
  implausible_ += static_cast<std::int64_t>(dropped.size());
  if (std::string text = absl::StrJoin(dropped, ", "); text != implausible_text_) {
    if (!text.empty()) Tell(effects, {"implausible", std::nullopt, text});
    implausible_text_ = std::move(text);
  }
  if (gap) {
    swap_window_.Clear();
    Tell(effects, {"gap", std::nullopt,
                   absl::StrCat("the machine was not read for ",
                                FormatSpan(now.continuous - sampled_->continuous),
                                "; nothing is charged for that time")});
  }
  const bool rate = sampled_ && !gap && host.swap_used && host_.swap_used;
  swap_change_ = rate ? *host.swap_used - *host_.swap_used : Bytes(0);
  since_sample_before_ = rate ? now.awake - sampled_->awake : absl::InfiniteDuration();
  ledger_.Observe(now, host.swap_used, sample.clients);
  swap_window_.Observe(now.awake, host.swap_used);
  recovery_.Observe(now.awake, host.available);
  host_ = std::move(host);
  sampled_ = now;
  room_.reset();
}

// Takes in what each client holds; one whose last process is gone has ended.
void Scheduler::TakeReadings(const Instant& now, const Sample& sample, Effects& effects) {
  std::vector<JobId> empty;
  for (const ClientUsage& reading : sample.clients) {
    Client* const found = Active(reading.id);
    if (found == nullptr) continue;
    Client& client = *found;
    client.usage = reading.usage;
    client.processes = reading.processes;
    if (reading.processes > 0) LearnPeaks(client);
    if (client.outcome && reading.processes == 0) empty.push_back(reading.id);
  }
  for (auto& [id, client] : clients_) {
    client.record.charge = ledger_.Of(id).charge;
    if (host_.swap_used) {
      client.record.swap_at_charge = host_.swap_used;
      client.record.charge_awake = now.awake;
      client.record.charge_continuous = now.continuous;
    }
    // The grace time of a stop that the daemon before began looks at swap from here on.
    if (client.stop && !client.stop->swap_at_start) client.stop->swap_at_start = host_.swap_used;
  }
  NoticeCompany(effects);
  for (const JobId id : empty) EndClient(now, id, *clients_.at(id).outcome, effects);
  room_.reset();
}

// What a run takes beside others teaches nothing about it alone; written down, so that the next
// daemon knows it too.
void Scheduler::NoticeCompany(Effects& effects) {
  if (clients_.size() < 2) return;
  for (auto& [id, client] : clients_) {
    client.record.true_peak.reset();
    if (std::exchange(client.record.alone, false)) effects.emplace_back(Save{client.record});
  }
}

void Scheduler::SaveCharges(Effects& effects) {
  for (auto& [id, client] : clients_) {
    const Bytes moved = client.record.charge - client.saved_charge;
    const Bytes enough = std::max(MiB(64), client.record.policy.swap_budget * kSaveCharge);
    if (moved < enough && -moved < enough) continue;
    client.saved_charge = client.record.charge;
    effects.emplace_back(Save{client.record});
  }
}

// What a request waits for, when that has changed or time has passed.
void Scheduler::CountWait(const Instant& now, JobId id) {
  if (IsPending(id)) queue_.CountWait(now, id, BlockersOf(now, id));
}

// Of those near the head of the queue; the others wait for these.
void Scheduler::CountWaits(const Instant& now, Effects& effects) {
  int looked = 0;
  for (const Rank& rank : queue_.ranks()) {
    if (++looked > kLookAhead) return;
    CountWait(now, rank.id);
    if (queue_.WasSavedSince(rank.id, now.continuous - kSaveWait)) continue;
    queue_.MarkSaved(rank.id, now.continuous);
    effects.emplace_back(Save{queue_.Find(rank.id)->record});
  }
}

void Scheduler::LearnPeaks(Client& client) const {
  JobRecord& record = client.record;
  if (const auto footprint = client.usage.footprint; footprint && *footprint >= Bytes(0)) {
    record.peak_footprint = std::max(record.peak_footprint.value_or(*footprint), *footprint);
  }
  if (!record.alone) return;
  if (!record.available_at_start || !record.swap_at_start || !host_.available || !host_.swap_used) {
    return;
  }
  const Bytes taken = std::max(Bytes(0), *record.available_at_start - *host_.available) +
                      std::max(Bytes(0), *host_.swap_used - *record.swap_at_start);
  record.true_peak = std::max(record.true_peak.value_or(taken), taken);
}

// ---- Going out ----

void Scheduler::On(const Instant& now, const StartFailed& event, Effects& effects) {
  if (IsPending(event.id)) {
    return EndPending(now, event.id, JobState::kFailed, Reason::kStartFailed, event.text, effects);
  }
  Client* const found = Active(event.id);
  if (found == nullptr) return;
  Client& client = *found;
  if (client.record.reason == Reason::kNone) {
    client.record.reason = Reason::kStartFailed;
    client.record.reason_text = event.text;
  }
  EndClient(now, event.id, Outcome{.exit_code = 127, .signal = {}, .start_errno = {}}, effects);
}

void Scheduler::On(const Instant& now, const Exited& event, Effects& effects) {
  Client* const found = Active(event.id);
  if (found == nullptr) return;
  Client& client = *found;
  client.end_time = event.end_time;
  // Who is being stopped has not ended while a part of it lives on; nor has a tree that lost its
  // shim and still holds its memory.
  const bool seen = event.outcome.exit_code || event.outcome.signal;
  if ((client.stop || !seen) && event.remaining > 0) {
    client.outcome = event.outcome;
    client.exit_text = event.text;
    return;
  }
  client.exit_text = event.text;
  EndClient(now, event.id, event.outcome, effects);
}

void Scheduler::On(const Instant& now, const ClientGone& event, Effects& effects) {
  if (IsPending(event.id)) {
    return EndPending(now, event.id, JobState::kCancelled, Reason::kClientGone,
                      "the guard that asked went away before its command was admitted", effects);
  }
  Client* const client = Active(event.id);
  if (client == nullptr || client->record.kind != JobKind::kSession) return;
  // Nobody could resume it any more; what the daemon before let go on may not have heard of it.
  if (client->record.may_signal && (client->record.suspended_awake || client->restored)) {
    effects.emplace_back(Signal{event.id, Signal::Kind::kContinue});
  }
  // What is being stopped has not ended while a part of it lives on and holds its memory.
  if (client->stop && client->record.may_signal && event.remaining > 0) {
    client->outcome = Outcome{};
    return;
  }
  EndClient(now, event.id, Outcome{}, effects);
}

void Scheduler::On(const Instant& now, const NodeFailed& event, Effects& effects) {
  if (Active(event.id) == nullptr) return;
  JobRecord record = RemoveClient(now, event.id, effects).record;
  if (record.kind == JobKind::kJob && !queue_.held()) {
    HoldQueue(now,
              absl::StrCat("the machine went down while job ", Value(record.id), " (", record.name,
                           ") ran"),
              effects);
  }
  if (record.requeue && record.state != JobState::kStopping) {
    return Requeue(now, std::move(record), effects);
  }
  record.state = JobState::kNodeFail;
  record.reason = Reason::kLost;
  record.reason_text = "the machine went down while it ran";
  Finish(now, std::move(record), effects);
}

// Back into the queue as if it had never run, held.
void Scheduler::Requeue(const Instant& now, JobRecord record, Effects& effects) {
  JobRecord again;
  again.id = record.id;
  again.kind = record.kind;
  again.name = std::move(record.name);
  again.command = std::move(record.command);
  again.working_directory = std::move(record.working_directory);
  again.policy = std::move(record.policy);
  again.group = std::move(record.group);
  again.profile = std::move(record.profile);
  again.request_id = std::move(record.request_id);
  again.requeue = true;
  again.retry_of = record.retry_of;
  again.notify = record.notify;
  again.submit_time = record.submit_time;
  again.waited = std::move(record.waited);
  again.held = true;
  again.reason_text = "the machine went down while it ran";
  Tell(effects, {"requeued", again.id, again.reason_text});
  effects.emplace_back(Save{again});
  AddPending(now, std::move(again), std::nullopt, {}, effects);
}

void Scheduler::On(const Instant& now, const NotSaved& event, Effects& effects) {
  if (IsPending(event.id)) queue_.Take(event.id);
  if (Active(event.id) != nullptr) RemoveClient(now, event.id, effects);
  nesting_.Remove(event.id);
  failed_parents_.emplace_back(event.id, JobState::kCancelled);
}

void Scheduler::On(const Instant& now, const CancelAsked& event, Effects& effects) {
  if (IsPending(event.id)) {
    return EndPending(now, event.id, JobState::kCancelled, Reason::kCancelled,
                      "cancelled while it waited", effects);
  }
  Client* const client = Active(event.id);
  if (client == nullptr) return;
  StopClient(now, *client, Reason::kCancelled, "cancelled while it ran", effects);
}

void Scheduler::On(const Instant& now, const HoldAsked& event, Effects& effects) {
  const RequestQueue::Request* request = queue_.Find(event.id);
  if (request == nullptr || request->record.held) return;
  queue_.Hold(event.id, true);
  CountWait(now, event.id);
  effects.emplace_back(Save{request->record});
  Tell(effects, {"held", event.id, request->record.name});
}

void Scheduler::On(const Instant& now, const ReleaseAsked& event, Effects& effects) {
  const RequestQueue::Request* request = queue_.Find(event.id);
  if (request == nullptr || !request->record.held) return;
  queue_.Hold(event.id, false);
  queue_.RecordOf(event.id).reason_text.clear();
  CountWait(now, event.id);
  effects.emplace_back(Save{request->record});
  Tell(effects, {"released", event.id, request->record.name});
}

void Scheduler::On(const Instant&, const DrainAsked& event, Effects& effects) {
  if (draining_ == event.drain) return;
  draining_ = event.drain;
  Tell(effects, {"draining", std::nullopt, draining_ ? "nothing more is started" : "starts go on"});
  room_.reset();
}

void Scheduler::HoldQueue(const Instant& now, std::string text, Effects& effects) {
  effects.emplace_back(QueueHeld{text});
  Tell(effects, {"queue_held", std::nullopt, text});
  queue_.HoldAll(now, std::move(text));
}

void Scheduler::On(const Instant& now, const HoldQueueAsked& event, Effects& effects) {
  if (!queue_.held()) HoldQueue(now, event.text, effects);
}

void Scheduler::On(const Instant& now, const ReleaseQueueAsked&, Effects& effects) {
  if (!queue_.held()) return;
  queue_.ReleaseAll(now);
  effects.emplace_back(QueueHeld{std::nullopt});
  Tell(effects, {"queue_released", std::nullopt, "what waits may start again"});
}

absl::Status Scheduler::CheckUpdate(const JobRecord& record, const Policy& policy) const {
  if (absl::Status status = Validate(policy); !status.ok()) return status;
  if (record.state == JobState::kPending) {
    return CheckCanEverFit(DemandOf(policy), config_, host_);
  }
  const Policy& before = record.policy;
  const auto only_waiting = [&](const char* field, bool changed) {
    if (!changed) return absl::OkStatus();
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          field, ": job ", Value(record.id), " is ", Name(record.state),
                          "; only a job that waits can change it")),
                      kWrongState, field);
  };
  for (const absl::Status& status :
       {only_waiting("policy.memory_bytes",
                     policy.memory != before.memory || policy.memory_auto != before.memory_auto),
        only_waiting("policy.wait_free_percent", policy.wait_free != before.wait_free),
        only_waiting("policy.start_timeout_ns", policy.start_timeout != before.start_timeout),
        only_waiting("policy.busy_patterns", policy.busy != before.busy),
        only_waiting("policy.quiet_for_ns", policy.quiet_for != before.quiet_for),
        only_waiting("policy.charge_mode", policy.charge_mode != before.charge_mode)}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void Scheduler::On(const Instant& now, const UpdateAsked& event, Effects& effects) {
  const JobRecord* const record = Find(event.id);
  if (record == nullptr) return;
  const std::string changes = ChangesBetween(record->policy, event.policy);
  if (IsPending(event.id)) {
    RequestQueue::Request request = queue_.Take(event.id);
    if (request.record.policy.start_timeout != event.policy.start_timeout) {
      request.give_up.reset();
      request.give_up_in.reset();
    }
    request.record.policy = event.policy;
    queue_.Add(now, std::move(request));
    CountWait(now, event.id);
    effects.emplace_back(Save{queue_.Find(event.id)->record});
  } else if (Client* const client = Active(event.id)) {
    if (client->record.policy.swap_budget != event.policy.swap_budget) {
      client->warned = false;
      client->over_budget_told = false;
    }
    client->would_stop = false;
    client->record.policy = event.policy;
    effects.emplace_back(Save{client->record});
    room_.reset();
  }
  Tell(effects, {"updated", event.id, changes.empty() ? "as before" : changes});
}

void Scheduler::On(const Instant&, const ForgetProfileAsked& event, Effects& effects) {
  profiles_.Forget(event.profile);
  effects.emplace_back(Forgotten{event.profile});
}

void Scheduler::On(const Instant&, const ConfigChanged& event, Effects& effects) {
  config_ = event.config;
  queue_.SetGroupLimits(config_.group_limits);
  room_.reset();
  DenyWhatNeverFits(effects);
}

void Scheduler::On(const Instant&, const Tick&, Effects&) {}

// ---- Ends ----

JobRecord Scheduler::EndRecord(const Client& client, const Outcome& outcome) const {
  JobRecord record = client.record;
  record.charge = ledger_.Of(record.id).charge;
  record.outcome = outcome;
  if (client.end_time && record.start_time && *client.end_time >= *record.start_time) {
    record.end_time = client.end_time;
  }
  if (client.stop) {
    record.state = StateFor(record.reason);
    // Its swap is given back while it dies; what is kept is what it was stopped with.
    record.charge = std::max(record.charge, client.stop->charge);
    return record;
  }
  if (record.kind == JobKind::kSession) {
    record.state = JobState::kCompleted;
    record.reason = Reason::kNone;
    record.reason_text =
        client.restored ? "as its daemon went; a program that goes on registers again" : "";
    return record;
  }
  if (outcome.start_errno || record.reason == Reason::kStartFailed) {
    record.state = JobState::kFailed;
    if (record.reason == Reason::kStartFailed) return record;
    record.reason = Reason::kStartFailed;
    record.reason_text =
        absl::StrCat("the command could not be started: ", std::strerror(*outcome.start_errno),
                     "; its log says more");
    return record;
  }
  record.reason = Reason::kNone;  // of a suspension that is over
  record.reason_text = client.exit_text;
  if (outcome.exit_code || outcome.signal) {
    record.state = outcome.exit_code == 0 ? JobState::kCompleted : JobState::kFailed;
    return record;
  }
  record.state = JobState::kUnknown;
  record.reason = Reason::kLost;
  if (record.reason_text.empty()) record.reason_text = DescribeOutcome(outcome);
  return record;
}

void Scheduler::EndClient(const Instant& now, JobId id, const Outcome& outcome, Effects& effects) {
  JobRecord record = EndRecord(clients_.at(id), outcome);
  const Client client = RemoveClient(now, id, effects);
  if (client.stop && client.stop->host_level) host_victim_gone_ = now.awake;
  const Bytes peak = PeakOf(PeaksOf(record)).value_or(Bytes(0));
  const Bytes held = StillHeld(record, client.usage, host_.available);
  if (peak >= kRecoverFrom && held >= MiB(64))
    recovery_.Ended(now.awake, id, held, host_.available);
  if (const auto run = LessonOf(record, profiles_.Estimate(record.profile))) {
    profiles_.Add(record.profile, *run);
    effects.emplace_back(Learned{record.profile, *run});
  }
  Finish(now, std::move(record), effects);
}

// Takes a client out of every list; its leases end with it.
Scheduler::Client Scheduler::RemoveClient(const Instant&, JobId id, Effects& effects) {
  auto node = clients_.extract(id);
  Client client = std::move(node.mapped());
  ledger_.Remove(id);
  queue_.Occupy(client.record.group, -1);
  if (settling_ && settling_->id == id) settling_.reset();
  DenyWanted(client, effects);
  for (const LeaseId held : client.leases) {
    const auto lease = leases_.extract(held);
    Tell(effects, {"lease_released", id,
                   absl::StrCat(lease.mapped().stage, ": ", FormatBytes(lease.mapped().memory),
                                ", as its client ended")});
  }
  nesting_.Remove(id);
  room_.reset();
  return client;
}

void Scheduler::EndPending(const Instant& now, JobId id, JobState state, Reason reason,
                           std::string text, Effects& effects) {
  queue_.CountWait(now, id, {});
  JobRecord record = queue_.Take(id).record;
  nesting_.Remove(id);
  record.state = state;
  record.reason = reason;
  record.reason_text = std::move(text);
  Finish(now, std::move(record), effects);
}

void Scheduler::Finish(const Instant& now, JobRecord record, Effects& effects) {
  record.end_time = std::min(record.end_time.value_or(now.wall), now.wall);
  std::string text = std::string(Name(record.state));
  if (record.start_time && record.kind != JobKind::kSession) {
    absl::StrAppend(&text, ", ", DescribeOutcome(record.outcome));
  }
  if (record.reason != Reason::kNone) {
    absl::StrAppend(&text, ", ", Name(record.reason), ": ", record.reason_text);
  } else if (!record.reason_text.empty()) {
    absl::StrAppend(&text, ", ", record.reason_text);
  }
  const JobId id = record.id;
  if (record.state == JobState::kCompleted) {
    for (const JobId child : queue_.ParentCompleted(id)) {
      CountWait(now, child);
      effects.emplace_back(Save{queue_.Find(child)->record});
    }
  } else {
    failed_parents_.emplace_back(id, record.state);
  }
  effects.emplace_back(Save{std::move(record)});
  Tell(effects, {"ended", id, std::move(text)});
}

// Those that were to start after one that failed never can, nor can their own children.
void Scheduler::CancelChildren(const Instant& now, Effects& effects) {
  while (!failed_parents_.empty()) {
    const auto [parent, state] = failed_parents_.back();
    failed_parents_.pop_back();
    for (const JobId child : queue_.ChildrenOf(parent)) {
      EndPending(now, child, JobState::kCancelled, Reason::kDependencyNever,
                 NeverText(parent, state), effects);
    }
  }
}

// ---- Questions ----

std::optional<absl::Duration> Scheduler::NextDeadline() const {
  std::optional<absl::Duration> deadline;
  const auto consider = [&deadline](std::optional<absl::Duration> at) {
    if (at && (!deadline || *at < *deadline)) deadline = at;
  };
  consider(queue_.NextGiveUp());
  for (const auto& [id, lease] : waiting_leases_) consider(lease.give_up);
  for (const auto& [id, client] : clients_) {
    if (client.stop) consider(client.stop->next_at);
    consider(TimeLimitAt(client));
  }
  if (queue_.empty() && lease_queue_.empty()) return deadline;
  if (newest_) consider(queue_.NextChange(*newest_));
  // Moments at which what blocks a request is over.
  const auto consider_later = [&](absl::Duration at) {
    if (newest_ && at > newest_->awake) consider(at);
  };
  if (woke_at_) consider_later(*woke_at_ + kWakingTime);
  if (settling_) consider_later(settling_->since + config_.settle);
  consider_later(returning_until_);
  if (newest_) {
    if (const auto recovering = recovery_.At(newest_->awake)) consider_later(recovering->until);
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
    if (client.stop && !client.stuck) return kFastInterval;
  }
  input.waiting = pending();
  input.subscribers = subscribers;
  input.level = host_.level;
  input.swap_change = swap_change_;
  input.since_before = since_sample_before_;
  return SamplingInterval(input);
}

const JobRecord* Scheduler::Find(JobId id) const {
  if (const RequestQueue::Request* request = queue_.Find(id)) return &request->record;
  const auto client = clients_.find(id);
  return client == clients_.end() ? nullptr : &client->second.record;
}

Usage Scheduler::UsageOf(JobId id) const {
  const auto client = clients_.find(id);
  return client == clients_.end() ? Usage{} : client->second.usage;
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
  return queue_.ranks().begin()->id;
}

Bytes Scheduler::Reserved() const { return room().outstanding; }

}  // namespace stageload::core
