// Reading the machine and the clients, and telling it to whoever subscribes.
#include <utility>

#include "daemon/engine/busy_programs.h"
#include "daemon/engine/engine_impl.h"

namespace stageload::engine {
namespace {

constexpr absl::Duration kBusyInterval = absl::Milliseconds(900);

}  // namespace

void Engine::Impl::SampleIfDue(const Instant& now) {
  sampled_ = false;
  const bool due = now.awake >= next_sample_;
  if (due) TakeSample(now);
  // Also when none was due: what happened since may ask for an earlier one, such as a request that
  // ends the idle pace.
  const absl::Duration next = now.awake + core_->SampleInterval(parts_.hub->subscribers());
  next_sample_ = due ? next : std::min(next_sample_, next);
}

void Engine::Impl::TakeSample(const Instant& now) {
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
  if (!tree_.empty() || look) {
    if (const auto table = UpdateTree(); table.ok()) {
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
  Feed(core::SampleTaken{std::move(sample)});
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
  for (const core::ProcessIdentity& member : members) {
    const absl::StatusOr<core::Usage> usage = parts_.host->Usage(member);
    if (!usage.ok()) continue;  // ended since the table was read
    if (usage->footprint) {
      client.usage.footprint = client.usage.footprint.value_or(Bytes(0)) + *usage->footprint;
    }
    if (usage->swapped) {
      client.usage.swapped = client.usage.swapped.value_or(Bytes(0)) + *usage->swapped;
    }
  }
  return client;
}

void Engine::Impl::PublishFrame() {
  telemetry::Frame frame;
  frame.time = sample_time_;
  frame.interval = core_->SampleInterval(parts_.hub->subscribers());
  frame.host = core_->host();
  for (const core::ClientStatus& client : core_->Clients()) {
    const core::JobRecord& record = *client.record;
    frame.clients.push_back({record.id, record.name, record.state, client.usage, record.charge,
                             record.policy.swap_budget, record.policy.memory, client.processes});
  }
  frame.pending = core_->pending();
  frame.active = core_->active();
  if (const auto first = core_->FirstPending()) frame.blockers = core_->BlockersOf(Now(), *first);
  frame.events = std::exchange(events_, {});
  frame.reserved = core_->Reserved();
  parts_.hub->Publish(std::move(frame));
  sampled_ = false;
}

void Engine::Impl::Note(const core::Note& note) {
  telemetry::Event event{note.kind, note.job, note.text, Now().wall};
  if (options_.on_event) options_.on_event(event);
  events_.push_back(std::move(event));
}

}  // namespace stageload::engine
