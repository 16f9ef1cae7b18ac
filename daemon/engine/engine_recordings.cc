// What programs say of themselves, and reading single processes for who records them.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "base/text.h"
#include "daemon/engine/engine_impl.h"

namespace stageload::engine {
namespace {

constexpr int kMaxDepth = 64;  // of a process tree; a table in motion could show a loop
constexpr std::size_t kMaxGauges = 32;
// Of one frame, and of what a recording is still to be told.
constexpr std::size_t kMaxEvents = 1000;

// One line for people.
std::string TextOf(const telemetry::Mark& mark) {
  std::string text = mark.kind == "stage" ? mark.stage : mark.name;
  if (mark.nbytes) absl::StrAppend(&text, " ", FormatBytes(*mark.nbytes));
  if (mark.seconds) absl::StrAppend(&text, " in ", FormatSpan(absl::Seconds(*mark.seconds)));
  if (!mark.note.empty()) absl::StrAppend(&text, text.empty() ? "" : ": ", mark.note);
  return text;
}

// A report is taken as a whole or not at all.
absl::Status CheckGauges(const std::map<std::string, double>& known,
                         const std::vector<telemetry::Gauge>& reported) {
  std::set<std::string> added;
  for (const telemetry::Gauge& gauge : reported) {
    if (known.count(gauge.name) == 0) added.insert(gauge.name);
  }
  const std::size_t all = known.size() + added.size();
  if (all <= kMaxGauges) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          "gauges: with \"", *added.begin(), "\"",
          added.size() > 1 ? absl::StrCat(" and ", added.size() - 1, " more") : std::string(),
          " there would be ", all, ", a client has at most ", kMaxGauges)),
      kInvalidField, "gauges");
}

absl::Status NobodyListens(const ReportRequest& request) {
  if (request.client) {
    return WithReason(absl::NotFoundError(absl::StrCat("client_id: ", core::Value(*request.client),
                                                       " is not registered")),
                      kClientNotFound, "client_id");
  }
  return WithReason(
      absl::NotFoundError(absl::StrCat("process ", request.caller.pid,
                                       " is in no client's process tree and nobody records it")),
      kClientNotFound);
}

}  // namespace

// The process, its parent, and so on; empty when it is gone.
std::vector<core::ProcessIdentity> Engine::Impl::WithAncestors(std::int32_t pid) const {
  std::vector<core::ProcessIdentity> line;
  for (int depth = 0; depth < kMaxDepth && pid > 1; ++depth) {
    const absl::StatusOr<host::Process> process = parts_.host->Find(pid);
    // A "parent" that is younger than its child is another process that got the pid.
    if (!process.ok() || (!line.empty() && process->identity.start > line.back().start)) break;
    line.push_back(process->identity);
    if (pid == ::getpid()) break;  // who started this daemon is not above its jobs
    pid = process->parent;
  }
  return line;
}

// The active client in whose tree a process is.
std::optional<JobId> Engine::Impl::ClientAround(std::int32_t pid) {
  if (tree_.empty()) return std::nullopt;
  const std::vector<core::ProcessIdentity> line = WithAncestors(pid);
  const auto look = [&]() -> std::optional<JobId> {
    for (const core::ProcessIdentity& process : line) {
      const std::optional<JobId> client = tree_.ClientOf(process);
      if (!client) continue;
      const core::JobRecord* record = core_->Find(*client);
      if (record != nullptr && core::IsActive(record->state)) return client;
    }
    return std::nullopt;
  };
  if (const auto client = look()) return client;
  // Its parent may be gone, and it younger than the last look at all processes. Only jobs leave
  // such processes behind by the thousand, so for sessions alone it is not worth it.
  const std::vector<core::ClientStatus> clients = core_->Clients();
  const bool sessions_only =
      std::all_of(clients.begin(), clients.end(), [](const core::ClientStatus& client) {
        return client.record->kind == core::JobKind::kSession;
      });
  if (sessions_only || !UpdateTree().ok()) return std::nullopt;
  return look();
}

// ---- Reports ----

absl::StatusOr<Reported> Engine::Impl::Report(const ReportRequest& request) {
  Reported reported;
  if (request.client) {
    const absl::StatusOr<WatchToken> session = SessionOf(*request.client, request.caller);
    if (!session.ok()) return session.status();
    reported.client = request.client;
  } else {
    reported.client = ClientAround(request.caller.pid);
  }
  if (reported.client) {
    if (absl::Status status = CheckGauges(said_[*reported.client].gauges, request.gauges);
        !status.ok()) {
      return status;
    }
  }
  const std::vector<core::ProcessIdentity> from = WithAncestors(request.caller.pid);
  for (const telemetry::Mark& mark : request.marks) TakeMark(mark, reported.client, from, reported);
  if (!reported.client && reported.recordings == 0) return NobodyListens(request);
  if (!reported.client) return reported;
  std::map<std::string, double>& gauges = said_[*reported.client].gauges;
  for (const telemetry::Gauge& gauge : request.gauges) gauges[gauge.name] = gauge.value;
  return reported;
}

// `from` is the process that says it, with its ancestors.
void Engine::Impl::TakeMark(const telemetry::Mark& mark, std::optional<JobId> client,
                            const std::vector<core::ProcessIdentity>& from, Reported& reported) {
  const telemetry::Event event{mark.kind, client, TextOf(mark), Now().wall, mark};
  if (client) {
    if (mark.kind == "stage") said_[*client].stage = mark.stage;
    if (events_.size() < kMaxEvents) events_.push_back(event);
  }
  reported.recordings = 0;
  for (auto& [token, recording] : recordings_) {
    const bool inside = std::any_of(from.begin(), from.end(), [&](const auto& process) {
      return process == recording.root || recording.tree.Contains(process);
    });
    // Or the client itself says it over a connection of its own.
    const bool is_client = client && tree_.ClientOfRoot(recording.root) == client;
    if (!inside && !is_client) continue;
    recording.events.push_back(event);
    SendEvents(recording);
    ++reported.recordings;
  }
}

// ---- Recordings ----

void Engine::Impl::Record(WatchToken token, RecordRequest request, OnUpdate on_update) {
  const absl::StatusOr<host::Process> process = parts_.host->Find(request.pid);
  if (!process.ok()) {
    return on_update(WithReason(absl::InvalidArgumentError(absl::StrCat("pid: there is no process ",
                                                                        request.pid, " to record")),
                                kInvalidField, "pid"));
  }
  Recording& recording = recordings_[token];
  recording.root = process->identity;
  recording.tree.Add(JobId{}, process->identity, ProcessTree::Root::kMember);
  recording.interval = request.interval;
  recording.next = Now().awake;
  recording.on_update = std::move(on_update);
  next_sample_ = std::min(next_sample_, recording.next);
}

bool Engine::Impl::IsRecordingDue(absl::Duration now) const {
  return std::any_of(recordings_.begin(), recordings_.end(),
                     [now](const auto& entry) { return entry.second.next <= now; });
}

void Engine::Impl::ReadRecordings(const Instant& now, const core::HostSample& host,
                                  const std::vector<host::Process>& table) {
  for (auto entry = recordings_.begin(); entry != recordings_.end();) {
    Recording& recording = entry->second;
    if (recording.next > now.awake) {
      ++entry;
      continue;
    }
    // From where it was due, so that the pace is kept; after a stall, from now.
    const absl::Duration next = recording.next + recording.interval;
    recording.next = next > now.awake ? next : now.awake + recording.interval;
    recording.tree.Update(table);
    RecordingUpdate update = ReadRecording(recording, now, host);
    const bool ended = update.ended;
    recording.on_update(std::move(update));
    entry = ended ? recordings_.erase(entry) : std::next(entry);
  }
}

RecordingUpdate Engine::Impl::ReadRecording(Recording& recording, const Instant& now,
                                            const core::HostSample& host) {
  RecordingUpdate update;
  update.events = std::exchange(recording.events, {});
  const std::vector<core::ProcessIdentity> members = recording.tree.MembersOf(JobId{});
  update.ended = members.empty();
  if (update.ended) return update;
  ProcessReading reading;
  reading.time = now;
  reading.usage = UsageOf(members);
  reading.processes = static_cast<int>(members.size());
  reading.host = host;
  const std::optional<JobId> client = tree_.ClientOfRoot(recording.root);
  const core::JobRecord* record = client ? core_->Find(*client) : nullptr;
  if (record != nullptr && core::IsActive(record->state)) {
    reading.charge = record->charge;
    reading.swap_budget = record->policy.swap_budget;
  }
  update.reading = std::move(reading);
  return update;
}

// What was done to the client that a recorded process is.
void Engine::Impl::TellRecordingsOf(JobId client, const telemetry::Event& event) {
  for (auto& [token, recording] : recordings_) {
    if (tree_.ClientOf(recording.root) != client) continue;
    if (recording.events.size() >= kMaxEvents) continue;
    recording.events.push_back(event);
  }
}

void Engine::Impl::SendEvents(Recording& recording) {
  RecordingUpdate update;
  update.events = std::exchange(recording.events, {});
  recording.on_update(std::move(update));
}

// Before what they tell of is done: a recorder in the tree that is signalled has its last word by
// then, and needs no further sample.
void Engine::Impl::SendEventsOfRecordings() {
  for (auto& [token, recording] : recordings_) {
    if (!recording.events.empty()) SendEvents(recording);
  }
}

}  // namespace stageload::engine
