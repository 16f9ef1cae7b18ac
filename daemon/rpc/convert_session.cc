#include "daemon/rpc/convert_session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/trace_limits.h"
#include "base/utf8.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/convert_fields.h"
#include "daemon/rpc/convert_frame.h"

namespace stageload::rpc {
namespace {

constexpr int kMaxMarks = 100;
constexpr int kMaxGauges = 32;
constexpr std::size_t kMaxGaugeName = 64;
constexpr std::size_t kMaxKind = 32;
constexpr absl::Duration kDefaultInterval = absl::Milliseconds(500);
constexpr absl::Duration kShortestInterval = absl::Milliseconds(20);
constexpr absl::Duration kLongestInterval = absl::Hours(1);

bool IsWord(const std::string& text, std::size_t most) {
  return !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  });
}

absl::StatusOr<core::JobId> ToClientId(std::int64_t id) {
  if (id >= 1) return core::JobId{id};
  return Invalid("client_id", absl::StrCat(id, " is not a client's id; Registered has it"));
}

// What belongs to requests that wait in the queue, which a session never does.
absl::Status CheckSessionPolicy(const v1::Policy& policy) {
  const auto refused = [](const char* field, const char* instead) {
    return Invalid(field, absl::StrCat("is of jobs; ", instead));
  };
  if (policy.memory_auto()) {
    return refused("policy.memory_auto", "a session says what it loads when it acquires a lease");
  }
  if (policy.has_start_timeout_ns()) {
    return refused("policy.start_timeout_ns", "AcquireRequest has one for each lease");
  }
  if (policy.busy_patterns_size() > 0) {
    return refused("policy.busy_patterns", "a session runs already");
  }
  if (policy.has_quiet_for_ns()) return refused("policy.quiet_for_ns", "a session runs already");
  return absl::OkStatus();
}

absl::StatusOr<telemetry::Mark> ToMark(const v1::Mark& in) {
  if (!IsWord(in.kind(), kMaxKind)) {
    return Invalid("marks.kind", "must be 1 to 32 letters, digits, '_' or '.', such as \"stage\"");
  }
  for (const auto& [field, text] :
       {std::pair("marks.stage", &in.stage()), std::pair("marks.name", &in.name()),
        std::pair("marks.note", &in.note())}) {
    if (absl::Status status = CheckWord(field, *text); !status.ok()) return status;
  }
  if (in.kind() == "stage" && in.stage().empty()) {
    return Invalid("marks.stage", "is empty; a mark of kind \"stage\" names the stage that begins");
  }
  if (in.kind() == "mark" && in.note().empty()) {
    return Invalid("marks.note", "is empty; a mark of kind \"mark\" says something");
  }
  // As what reads the recordings does.
  if (absl::Status size = CheckTraceSize(Bytes(in.nbytes())); !size.ok()) {
    return Invalid("marks.nbytes", std::string(size.message()));
  }
  if (absl::Status took = CheckTraceSeconds(in.seconds()); !took.ok()) {
    return Invalid("marks.seconds", std::string(took.message()));
  }
  telemetry::Mark mark{
      .kind = in.kind(), .stage = in.stage(), .name = in.name(), .note = in.note()};
  if (in.has_nbytes()) mark.nbytes = Bytes(in.nbytes());
  if (in.has_seconds()) mark.seconds = in.seconds();
  return mark;
}

absl::StatusOr<telemetry::Gauge> ToGauge(const v1::Gauge& in) {
  if (!IsWord(in.name(), kMaxGaugeName)) {
    return Invalid("gauges.name",
                   "must be 1 to 64 letters, digits, '_' or '.', such as \"mps_driver_bytes\"");
  }
  if (!std::isfinite(in.value())) {
    return Invalid("gauges.value", absl::StrCat(in.name(), " is ", in.value()));
  }
  return telemetry::Gauge{in.name(), in.value()};
}

void Fill(const engine::Registered& in, v1::RegisterResponse& out) {
  v1::Registered& registered = *out.mutable_registered();
  registered.set_client_id(core::Value(in.client));
  FillPolicy(in.policy, *registered.mutable_policy());
  FillHost(in.host, *registered.mutable_host());
  registered.set_joined(in.joined);
}
void Fill(const core::Warned& in, v1::RegisterResponse& out) {
  v1::Warned& warned = *out.mutable_warned();
  warned.set_charge_bytes(in.charge.count());
  warned.set_swap_budget_bytes(in.swap_budget.count());
  warned.set_text(ToUtf8(in.text));
}
void Fill(const core::StopRequested& in, v1::RegisterResponse& out) {
  v1::StopRequested& stop = *out.mutable_stop_requested();
  stop.set_reason(ToProto(in.reason));
  stop.set_text(ToUtf8(in.text));
  stop.set_grace_ns(absl::ToInt64Nanoseconds(in.grace));
}
void Fill(const engine::PressureChanged& in, v1::RegisterResponse& out) {
  v1::PressureChanged& changed = *out.mutable_pressure_changed();
  if (in.host.pressure) changed.set_pressure(ToProto(*in.host.pressure));
  FillHost(in.host, *changed.mutable_host());
}
void Fill(const engine::Suspended& in, v1::RegisterResponse& out) {
  out.mutable_suspended()->set_reason(ToProto(in.reason));
  out.mutable_suspended()->set_text(ToUtf8(in.text));
}
void Fill(const engine::Resumed&, v1::RegisterResponse& out) { out.mutable_resumed(); }
void Fill(const engine::ClientEnded&, v1::RegisterResponse&) {}

void FillReading(const engine::ProcessReading& in, v1::ProcessSample& out) {
  out.set_time_ns(Nanoseconds(in.time.wall));
  out.set_awake_ns(absl::ToInt64Nanoseconds(in.time.awake));
  if (in.usage.footprint) out.set_footprint_bytes(in.usage.footprint->count());
  if (in.usage.swapped) out.set_swapped_bytes(in.usage.swapped->count());
  out.set_processes(in.processes);
  FillHost(in.host, *out.mutable_host());
  if (in.charge) out.set_charge_bytes(in.charge->count());
  if (in.swap_budget) out.set_swap_budget_bytes(in.swap_budget->count());
}

absl::StatusOr<std::int32_t> ToPid(std::int32_t pid, const engine::Caller& caller) {
  if (pid < 0) return Invalid("pid", absl::StrCat(pid, " is not a process id"));
  return pid == 0 ? caller.pid : pid;
}

absl::StatusOr<absl::Duration> ToInterval(const v1::WatchProcessRequest& request) {
  if (request.interval_ns() == 0) return kDefaultInterval;
  const absl::Duration interval = absl::Nanoseconds(request.interval_ns());
  if (interval >= kShortestInterval && interval <= kLongestInterval) return interval;
  return Invalid("interval_ns",
                 absl::StrCat(request.interval_ns(), " is not from ", FormatSpan(kShortestInterval),
                              " to ", FormatSpan(kLongestInterval)));
}

}  // namespace

absl::StatusOr<engine::RegisterRequest> ToRegister(const v1::RegisterRequest& request,
                                                   const engine::Caller& caller,
                                                   const core::Defaults& defaults) {
  if (absl::Status name = CheckWord("name", request.name()); !name.ok()) return name;
  if (absl::Status status = CheckSessionPolicy(request.policy()); !status.ok()) return status;
  core::Policy of_sessions = defaults.policy;
  // It runs already, and says itself what it holds.
  of_sessions.memory.reset();
  of_sessions.memory_auto = false;
  of_sessions.busy.clear();
  of_sessions.start_timeout.reset();
  of_sessions.time_limit.reset();
  absl::StatusOr<core::Policy> policy = ToPolicy(request.policy(), std::move(of_sessions));
  if (!policy.ok()) return policy.status();
  const absl::StatusOr<std::int32_t> pid = ToPid(request.pid(), caller);
  if (!pid.ok()) return pid.status();
  return engine::RegisterRequest{request.name(), *std::move(policy), *pid, request.enforce(),
                                 request.was_joined(), caller};
}

absl::StatusOr<engine::AcquireRequest> ToAcquire(const v1::AcquireRequest& request,
                                                 const engine::Caller& caller) {
  const absl::StatusOr<core::JobId> client = ToClientId(request.client_id());
  if (!client.ok()) return client.status();
  if (absl::Status stage = CheckWord("stage", request.stage()); !stage.ok()) return stage;
  if (request.stage().empty()) {
    return Invalid("stage", "is empty; a lease is for a stage, such as \"transformer\"");
  }
  if (absl::Status id = CheckWord("request_id", request.request_id()); !id.ok()) return id;
  if (request.memory_bytes() <= 0) {
    return Invalid("memory_bytes", absl::StrCat(request.memory_bytes(), " is not above 0"));
  }
  engine::AcquireRequest out;
  out.client = *client;
  out.stage = request.stage();
  out.memory = Bytes(request.memory_bytes());
  if (request.has_start_timeout_ns()) {
    if (request.start_timeout_ns() < 0) {
      return Invalid("start_timeout_ns", absl::StrCat(request.start_timeout_ns(), " is negative"));
    }
    out.start_timeout = absl::Nanoseconds(request.start_timeout_ns());
  }
  out.request_id = request.request_id();
  out.loaded = request.already_loaded();
  out.worker = static_cast<std::uint64_t>(request.worker());
  out.caller = caller;
  return out;
}

absl::StatusOr<engine::ReleaseRequest> ToRelease(const v1::ReleaseRequest& request,
                                                 const engine::Caller& caller) {
  const absl::StatusOr<core::JobId> client = ToClientId(request.client_id());
  if (!client.ok()) return client.status();
  if ((request.lease_id() != 0) != request.request_id().empty()) {
    return Invalid("lease_id", "name the lease either by lease_id or by request_id");
  }
  engine::ReleaseRequest out;
  out.client = *client;
  if (request.lease_id() != 0) out.lease = core::LeaseId{request.lease_id()};
  out.request_id = request.request_id();
  out.caller = caller;
  return out;
}

absl::StatusOr<engine::ReportRequest> ToReport(const v1::ReportRequest& request,
                                               const engine::Caller& caller) {
  engine::ReportRequest out;
  out.caller = caller;
  if (request.client_id() != 0) {
    const absl::StatusOr<core::JobId> client = ToClientId(request.client_id());
    if (!client.ok()) return client.status();
    out.client = *client;
  }
  if (request.marks_size() > kMaxMarks) {
    return Invalid("marks",
                   absl::StrCat(request.marks_size(), " at once, the limit is ", kMaxMarks));
  }
  if (request.gauges_size() > kMaxGauges) {
    return Invalid("gauges",
                   absl::StrCat(request.gauges_size(), " at once, the limit is ", kMaxGauges));
  }
  for (const v1::Gauge& in : request.gauges()) {
    absl::StatusOr<telemetry::Gauge> gauge = ToGauge(in);
    if (!gauge.ok()) return gauge.status();
    out.gauges.push_back(*std::move(gauge));
  }
  for (const v1::Mark& in : request.marks()) {
    absl::StatusOr<telemetry::Mark> mark = ToMark(in);
    if (!mark.ok()) return mark.status();
    out.marks.push_back(*std::move(mark));
  }
  return out;
}

absl::StatusOr<engine::RecordRequest> ToRecord(const v1::WatchProcessRequest& request,
                                               const engine::Caller& caller) {
  const absl::StatusOr<absl::Duration> interval = ToInterval(request);
  if (!interval.ok()) return interval.status();
  const absl::StatusOr<std::int32_t> pid = ToPid(request.pid(), caller);
  if (!pid.ok()) return pid.status();
  return engine::RecordRequest{*pid, *interval};
}

v1::RegisterResponse ToProto(const engine::SessionEvent& event) {
  v1::RegisterResponse out;
  std::visit([&out](const auto& one) { Fill(one, out); }, event);
  return out;
}

v1::AcquireResponse ToProto(const engine::LeaseEvent& event) {
  v1::AcquireResponse out;
  if (const auto* waiting = std::get_if<engine::LeaseWaiting>(&event)) {
    for (const core::Blocker& blocker : waiting->blockers) {
      FillBlocker(blocker, *out.mutable_waiting()->add_blockers());
    }
    out.mutable_waiting()->set_position(waiting->position);
    return out;
  }
  const auto& granted = std::get<engine::LeaseGranted>(event);
  out.mutable_granted()->set_lease_id(core::Value(granted.id));
  out.mutable_granted()->set_forced(granted.forced);
  out.mutable_granted()->set_waited_ns(absl::ToInt64Nanoseconds(granted.waited));
  return out;
}

v1::WatchProcessResponse ToProto(const engine::RecordingUpdate& update) {
  v1::WatchProcessResponse out;
  if (update.reading) FillReading(*update.reading, *out.mutable_sample());
  for (const telemetry::Event& event : update.events) *out.add_events() = ToProto(event);
  return out;
}

}  // namespace stageload::rpc
