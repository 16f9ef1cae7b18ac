#include "client/lib/convert.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/generated_enum_reflection.h>

#include <chrono>
#include <cstdint>
#include <utility>

namespace stageload::client {
namespace {

using client::FromProto;  // beside those of here

// The short word of an enum's value: JOB_STATE_PENDING is "PENDING". Empty for UNSPECIFIED, the
// number when it is not known. The prefix is that of the UNSPECIFIED value, which each enum has.
template <typename Enum>
std::string Word(Enum value) {
  const google::protobuf::EnumDescriptor& type = *google::protobuf::GetEnumDescriptor<Enum>();
  const int number = static_cast<int>(value);
  if (number == 0) return "";
  const google::protobuf::EnumValueDescriptor* found = type.FindValueByNumber(number);
  if (found == nullptr) return std::to_string(number);
  const std::string zero(type.FindValueByNumber(0)->name());
  const std::size_t prefix = zero.size() - std::string("UNSPECIFIED").size();
  return std::string(found->name()).substr(prefix);
}

Time At(std::int64_t wall_ns) { return Time(std::chrono::nanoseconds(wall_ns)); }

Blocker FromProto(const v1::Blocker& from) {
  Blocker blocker;
  blocker.kind = Word(from.kind());
  blocker.read = from.read();
  blocker.needed = from.needed();
  blocker.text = std::string(from.text());
  if (from.has_ends_in_ns()) blocker.ends_in = std::chrono::nanoseconds(from.ends_in_ns());
  return blocker;
}

Mark FromProto(const v1::Mark& from) {
  Mark mark;
  mark.kind = std::string(from.kind());
  mark.stage = std::string(from.stage());
  mark.name = std::string(from.name());
  mark.note = std::string(from.note());
  if (from.has_nbytes()) mark.bytes = from.nbytes();
  if (from.has_seconds()) mark.seconds = from.seconds();
  return mark;
}

Event FromProto(const v1::Event& from) {
  Event event;
  event.kind = std::string(from.kind());
  event.job_id = from.job_id();
  event.text = std::string(from.text());
  event.time = At(from.time_ns());
  if (from.has_mark()) event.mark = FromProto(from.mark());
  return event;
}

LeaseSample FromProto(const v1::LeaseSample& from) {
  LeaseSample lease;
  lease.lease_id = from.lease_id();
  lease.stage = std::string(from.stage());
  lease.memory_bytes = from.memory_bytes();
  lease.forced = from.forced();
  lease.granted = At(from.granted_time_ns());
  return lease;
}

WaitingRequest FromProto(const v1::WaitingRequest& from) {
  WaitingRequest request;
  request.job_id = from.job_id();
  request.name = std::string(from.name());
  request.lease_id = from.lease_id();
  request.stage = std::string(from.stage());
  if (from.has_memory_bytes()) request.memory_bytes = from.memory_bytes();
  request.blockers = FromProto(from.blockers());
  request.since = At(from.since_ns());
  return request;
}

ClientSample FromProto(const v1::ClientSample& from) {
  ClientSample sample;
  sample.job_id = from.job_id();
  sample.name = std::string(from.name());
  sample.kind = Word(from.kind());
  sample.state = Word(from.state());
  if (from.has_pid()) sample.pid = from.pid();
  if (from.has_footprint_bytes()) sample.footprint_bytes = from.footprint_bytes();
  if (from.has_swapped_bytes()) sample.swapped_bytes = from.swapped_bytes();
  sample.charge_bytes = from.charge_bytes();
  sample.swap_budget_bytes = from.swap_budget_bytes();
  if (from.has_memory_bytes()) sample.memory_bytes = from.memory_bytes();
  sample.processes = from.processes();
  sample.start = At(from.start_time_ns());
  for (const v1::LeaseSample& lease : from.leases()) sample.leases.push_back(FromProto(lease));
  for (const v1::Gauge& gauge : from.gauges()) {
    sample.gauges.push_back({.name = std::string(gauge.name()), .value = gauge.value()});
  }
  sample.stage = std::string(from.stage());
  return sample;
}

void FillPolicy(const SessionOptions& options, v1::Policy& policy) {
  if (options.memory_bytes) policy.set_memory_bytes(*options.memory_bytes);
  if (options.swap_budget_bytes) policy.set_swap_budget_bytes(*options.swap_budget_bytes);
  if (options.swap_limit_bytes) policy.set_swap_limit_bytes(*options.swap_limit_bytes);
  if (options.wait_free_percent) policy.set_wait_free_percent(*options.wait_free_percent);
  if (options.kill_free_percent) policy.set_kill_free_percent(*options.kill_free_percent);
  if (options.priority) policy.set_priority(*options.priority);
  if (options.grace) policy.set_grace_ns(options.grace->count());
  policy.set_charge_mode(options.charge_mode == ChargeMode::kOwn ? v1::CHARGE_MODE_OWN
                                                                 : v1::CHARGE_MODE_SYSTEM);
  switch (options.on_over_budget) {
    case OverBudget::kStop:
      policy.set_on_over_budget(v1::OVER_BUDGET_STOP);
      break;
    case OverBudget::kSuspend:
      policy.set_on_over_budget(v1::OVER_BUDGET_SUSPEND);
      break;
    case OverBudget::kWarn:
      policy.set_on_over_budget(v1::OVER_BUDGET_WARN);
      break;
  }
}

}  // namespace

Pressure FromProto(v1::Pressure pressure) {
  switch (pressure) {
    case v1::PRESSURE_WARN:
      return Pressure::kWarn;
    case v1::PRESSURE_CRITICAL:
      return Pressure::kCritical;
    default:
      return Pressure::kNormal;
  }
}

HostSample FromProto(const v1::HostSample& from) {
  HostSample host;
  if (from.has_level_percent()) host.level_percent = from.level_percent();
  if (from.has_total_bytes()) host.total_bytes = from.total_bytes();
  if (from.has_available_bytes()) host.available_bytes = from.available_bytes();
  if (from.has_swap_used_bytes()) host.swap_used_bytes = from.swap_used_bytes();
  if (from.has_swap_total_bytes()) host.swap_total_bytes = from.swap_total_bytes();
  if (from.has_pressure()) host.pressure = FromProto(from.pressure());
  if (from.has_compressed_bytes()) host.compressed_bytes = from.compressed_bytes();
  if (from.has_wired_bytes()) host.wired_bytes = from.wired_bytes();
  if (from.has_gpu_wired_limit_bytes()) host.gpu_wired_limit_bytes = from.gpu_wired_limit_bytes();
  if (from.has_swapped_in_bytes()) host.swapped_in_bytes = from.swapped_in_bytes();
  if (from.has_swapped_out_bytes()) host.swapped_out_bytes = from.swapped_out_bytes();
  return host;
}

std::vector<Blocker> FromProto(const google::protobuf::RepeatedPtrField<v1::Blocker>& blockers) {
  std::vector<Blocker> list;
  list.reserve(static_cast<std::size_t>(blockers.size()));
  for (const v1::Blocker& blocker : blockers) list.push_back(FromProto(blocker));
  return list;
}

Frame FromProto(const v1::WatchTelemetryResponse& response) {
  const v1::Frame& from = response.frame();
  Frame frame;
  frame.sequence = from.sequence();
  frame.time = At(from.time_ns());
  frame.awake = std::chrono::nanoseconds(from.awake_ns());
  frame.interval = std::chrono::nanoseconds(from.interval_ns());
  frame.host = FromProto(from.host());
  for (const v1::ClientSample& sample : from.clients()) frame.clients.push_back(FromProto(sample));
  frame.pending = from.pending();
  frame.active = from.active();
  for (const v1::Event& event : from.events()) frame.events.push_back(FromProto(event));
  frame.reserved_bytes = from.reserved_bytes();
  for (const v1::WaitingRequest& request : from.waiting()) {
    frame.waiting.push_back(FromProto(request));
  }
  if (from.has_queue_held()) frame.queue_held = std::string(from.queue_held());
  frame.dropped = response.dropped();
  return frame;
}

Waiting FromProto(const v1::Waiting& from) {
  return {.blockers = FromProto(from.blockers()), .position = from.position()};
}

StopRequest FromProto(const v1::StopRequested& from) {
  return {.reason = Word(from.reason()),
          .text = std::string(from.text()),
          .grace = std::chrono::nanoseconds(from.grace_ns())};
}

BudgetWarning FromProto(const v1::Warned& from) {
  return {.charge_bytes = from.charge_bytes(),
          .swap_budget_bytes = from.swap_budget_bytes(),
          .text = std::string(from.text())};
}

Suspension FromProto(const v1::Suspended& from) {
  return {.resumed = false, .reason = Word(from.reason()), .text = std::string(from.text())};
}

v1::RegisterRequest ToProto(const SessionOptions& options) {
  v1::RegisterRequest request;
  request.set_name(options.name);
  request.set_pid(options.pid);
  request.set_enforce(options.enforce);
  FillPolicy(options, *request.mutable_policy());
  return request;
}

}  // namespace stageload::client
