// Reading the machine and the clients, and telling it to whoever subscribes.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/sampling.h"
#include "daemon/engine/busy_programs.h"
#include "daemon/engine/engine_impl.h"

namespace stageload::engine {
namespace {

constexpr absl::Duration kBusyInterval = absl::Milliseconds(900);
// Of what waits, so many are in a frame, each with its blockers.
constexpr std::size_t kWaitingShown = 20;

// "submitted" and "refused" come by the thousand and say nothing that the rows do not.
bool IsKept(const core::Note& note) { return note.kind != "submitted" && note.kind != "refused"; }

}  // namespace

void Engine::Impl::SampleIfDue(const Instant& now) {
  sampled_ = false;
  const bool due = now.awake >= next_sample_;
  if (due) TakeSample(now);
  // Also when none was due: what happened since may ask for an earlier one, such as a request that
  // ends the idle pace.
  const absl::Duration next = now.awake + core_->SampleInterval(parts_.hub->subscribers());
  next_sample_ = due ? next : std::min(next_sample_, next);
  for (const auto& [token, recording] : recordings_) {
    next_sample_ = std::min(next_sample_, recording.next);
  }
}

void Engine::Impl::PressureHinted() {
  if (hinted_.exchange(true)) return;
  Tell([this] {
    hinted_ = false;
    next_sample_ = std::min(next_sample_, last_read_ + core::kFastInterval);
  });
}

void Engine::Impl::TakeSample(const Instant& now) {
  last_read_ = now.awake;
  absl::StatusOr<core::HostSample> host = parts_.host->Sample();
  if (!host.ok()) {
    if (sample_error_ == host.status().message()) return;
    sample_error_ = std::string(host.status().message());
    return Note({"sample_failed", std::nullopt, sample_error_});
  }
  core::Sample sample;
  sample.host = *std::move(host);
  const std::vector<std::string> patterns = core_->BusyPatterns();
  const bool look = !patterns.empty() && now.awake >= next_busy_look_;
  absl::StatusOr<std::vector<host::Process>> table = absl::UnavailableError("not read");
  if (!tree_.empty() || look || IsRecordingDue(now.awake)) {
    table = UpdateTree();
    if (table.ok()) {
      for (const core::ClientStatus& client : core_->Clients()) {
        if (!client.record->root) continue;
        sample.clients.push_back(UsageOf(client.record->id));
        if (client.record->kind == core::JobKind::kJob) NoticeUnwritten(now, sample.clients.back());
      }
      if (look) LookForBusyPrograms(now, patterns, *table, sample);
    }
  }
  sample_error_.clear();
  sample_time_ = now;
  sampled_ = true;
  const core::HostSample read = sample.host;
  Feed(core::SampleTaken{std::move(sample)});
  if (table.ok()) ReadRecordings(now, read, *table);
  TellPressure();
  TellWaitingLeases();
  LogFirstWaiting();
}

// The ancestors of guarded commands: the shell that runs "stageload guard --busy X" has X in its
// own command line.
std::set<std::int32_t> Engine::Impl::CallersOfGuards(
    const std::vector<host::Process>& table) const {
  std::map<std::int32_t, std::int32_t> parents;
  for (const host::Process& process : table) parents[process.identity.pid] = process.parent;
  std::set<std::int32_t> callers;
  for (const auto& [id, guarded] : guarded_) {
    const core::JobRecord* record = core_->Find(id);
    if (record == nullptr || !record->root) continue;
    for (auto entry = parents.find(record->root->pid); entry != parents.end();
         entry = parents.find(entry->second)) {
      if (entry->second <= 1 || !callers.insert(entry->second).second) break;
    }
  }
  return callers;
}

// Reads every command line, so not with each fast sample.
void Engine::Impl::LookForBusyPrograms(const Instant& now, const std::vector<std::string>& patterns,
                                       const std::vector<host::Process>& table,
                                       core::Sample& sample) {
  next_busy_look_ = now.awake + kBusyInterval;
  const std::set<std::int32_t> callers = CallersOfGuards(table);
  sample.busy = LookForBusy(patterns, table, *parts_.host, [&](const core::ProcessIdentity& p) {
    return tree_.Contains(p) || callers.count(p.pid) > 0;
  });
}

// The process table, which the trees have taken in.
absl::StatusOr<std::vector<host::Process>> Engine::Impl::UpdateTree() {
  absl::StatusOr<std::vector<host::Process>> table = parts_.host->Processes();
  if (table.ok()) tree_.Update(*table);
  return table;
}

core::ClientUsage Engine::Impl::UsageOf(JobId id) {
  core::ClientUsage client;
  client.id = id;
  const std::vector<core::ProcessIdentity> members = tree_.MembersOf(id);
  client.processes = static_cast<int>(members.size());
  client.usage = UsageOf(members);
  return client;
}

core::Usage Engine::Impl::UsageOf(const std::vector<core::ProcessIdentity>& members) {
  core::Usage sum;
  for (const core::ProcessIdentity& member : members) {
    const absl::StatusOr<core::Usage> usage = parts_.host->Usage(member);
    if (!usage.ok()) continue;  // ended since the table was read
    if (usage->footprint) sum.footprint = sum.footprint.value_or(Bytes(0)) + *usage->footprint;
    if (usage->swapped) sum.swapped = sum.swapped.value_or(Bytes(0)) + *usage->swapped;
  }
  return sum;
}

void Engine::Impl::PublishFrame() {
  sampled_ = false;
  // What ends or starts, and recordings, may ask for samples faster than frames may come, since
  // telemetry/ring.h counts on these. What has happened goes with the next.
  const absl::Duration due = published_ + core::kFastInterval;
  if (sample_time_.awake < due) {
    next_sample_ = std::min(next_sample_, due);
    return;
  }
  published_ = sample_time_.awake;
  telemetry::Frame frame;
  frame.time = sample_time_;
  frame.interval = core_->SampleInterval(parts_.hub->subscribers());
  frame.host = core_->host();
  FillClients(frame);
  FillWaiting(frame);
  frame.queue_held = core_->queue_held();
  frame.pending = core_->pending();
  frame.active = core_->active();
  if (const auto first = core_->FirstPending()) frame.blockers = core_->BlockersOf(Now(), *first);
  frame.events = std::exchange(events_, {});
  frame.reserved = core_->Reserved();
  parts_.hub->Publish(std::move(frame));
}

void Engine::Impl::FillClients(telemetry::Frame& frame) {
  std::map<JobId, std::vector<telemetry::LeaseFrame>> leases;
  for (const auto& [id, lease] : core_->leases()) {
    if (!lease.granted) continue;
    leases[lease.client].push_back(
        {id, lease.stage, lease.memory, lease.forced, lease.granted_time});
  }
  for (const core::ClientStatus& client : core_->Clients()) {
    const core::JobRecord& record = *client.record;
    telemetry::ClientFrame& one = frame.clients.emplace_back();
    one.job = record.id;
    one.name = record.name;
    one.state = record.state;
    one.usage = client.usage;
    one.charge = record.charge;
    one.swap_budget = record.policy.swap_budget;
    one.memory = record.policy.memory;
    one.processes = client.processes;
    one.kind = record.kind;
    one.pid = PidOf(record);
    one.started = record.start_time;
    if (const auto held = leases.find(record.id); held != leases.end()) one.leases = held->second;
    const auto said = said_.find(record.id);
    if (said == said_.end()) continue;
    one.stage = said->second.stage;
    for (const auto& [name, value] : said->second.gauges) one.gauges.push_back({name, value});
  }
}

// Leases first, as they go first.
void Engine::Impl::FillWaiting(telemetry::Frame& frame) {
  for (const core::LeaseId id : core_->WaitingLeases()) {
    if (frame.waiting.size() >= kWaitingShown) return;
    const core::Lease& lease = core_->leases().at(id);
    frame.waiting.push_back({lease.client, core_->Find(lease.client)->name, id, lease.stage,
                             lease.memory, core_->BlockersOf(Now(), id), lease.asked.wall});
  }
  for (const core::Rank& rank : core_->queue().ranks()) {
    if (frame.waiting.size() >= kWaitingShown) return;
    const core::JobRecord& record = core_->queue().Find(rank.id)->record;
    frame.waiting.push_back({record.id, record.name, std::nullopt, "", record.policy.memory,
                             core_->BlockersOf(Now(), record.id), record.submit_time});
  }
}

void Engine::Impl::Note(const core::Note& note) {
  Announce(note);
  Keep(note);
}

void Engine::Impl::Keep(const core::Note& note) {
  if (IsKept(note)) batch_.events.push_back({Now().wall, note.job, note.kind, note.text});
}

void Engine::Impl::Announce(const core::Note& note) {
  telemetry::Event event{note.kind, note.job, note.text, Now().wall};
  if (options_.on_event) options_.on_event(event, ReadingsFor(note.job));
  if (note.job) TellRecordingsOf(*note.job, event);
  events_.push_back(std::move(event));
}

Readings Engine::Impl::ReadingsFor(std::optional<JobId> client) const {
  Readings readings;
  if (!core_) return readings;
  readings.host = core_->host();
  readings.reserved = core_->Reserved();
  readings.pending = core_->pending();
  readings.active = core_->active();
  const core::JobRecord* record = client ? InMemory(*client) : nullptr;
  if (record == nullptr) return readings;
  readings.kind = record->kind;
  if (record->state == core::JobState::kPending) return readings;
  readings.charge = record->charge;
  readings.swap_budget = record->policy.swap_budget;
  readings.footprint = core_->UsageOf(record->id).footprint;
  return readings;
}

void Engine::Impl::LogFirstWaiting() {
  const std::optional<JobId> first = core_->FirstPending();
  if (!first || !options_.on_event) return;
  const std::vector<core::Blocker> blockers = core_->BlockersOf(Now(), *first);
  std::vector<core::BlockerKind> kinds;
  for (const core::Blocker& blocker : blockers) kinds.push_back(blocker.kind);
  if (kinds.empty() || first_waits_ == std::pair(*first, kinds)) return;
  first_waits_ = {*first, kinds};
  std::string text;
  for (const core::Blocker& blocker : blockers) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", core::Name(blocker.kind), ": ", blocker.text);
  }
  options_.on_event({"waits", *first, std::move(text), Now().wall}, ReadingsFor(*first));
}

}  // namespace stageload::engine
