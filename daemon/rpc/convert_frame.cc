#include "daemon/rpc/convert_frame.h"

#include "base/utf8.h"
#include "daemon/rpc/convert_fields.h"

namespace stageload::rpc {
namespace {

void FillLease(const telemetry::LeaseFrame& lease, v1::LeaseSample& out) {
  out.set_lease_id(core::Value(lease.id));
  out.set_stage(ToUtf8(lease.stage));
  out.set_memory_bytes(lease.memory.count());
  out.set_forced(lease.forced);
  out.set_granted_time_ns(Nanoseconds(lease.granted));
}

void FillClient(const telemetry::ClientFrame& client, v1::ClientSample& out) {
  out.set_job_id(core::Value(client.job));
  out.set_name(ToUtf8(client.name));
  out.set_state(ToProto(client.state));
  if (client.usage.footprint) out.set_footprint_bytes(client.usage.footprint->count());
  if (client.usage.swapped) out.set_swapped_bytes(client.usage.swapped->count());
  out.set_charge_bytes(client.charge.count());
  out.set_swap_budget_bytes(client.swap_budget.count());
  if (client.memory) out.set_memory_bytes(client.memory->count());
  out.set_processes(client.processes);
  out.set_kind(ToProto(client.kind));
  if (client.pid) out.set_pid(*client.pid);
  if (client.started) out.set_start_time_ns(Nanoseconds(*client.started));
  for (const telemetry::LeaseFrame& lease : client.leases) FillLease(lease, *out.add_leases());
  for (const telemetry::Gauge& gauge : client.gauges) {
    v1::Gauge& filled = *out.add_gauges();
    filled.set_name(gauge.name);
    filled.set_value(gauge.value);
  }
  out.set_stage(ToUtf8(client.stage));
}

void FillWaiting(const telemetry::WaitingFrame& waiting, v1::WaitingRequest& out) {
  out.set_job_id(core::Value(waiting.job));
  out.set_name(ToUtf8(waiting.name));
  if (waiting.lease) out.set_lease_id(core::Value(*waiting.lease));
  out.set_stage(ToUtf8(waiting.stage));
  if (waiting.memory) out.set_memory_bytes(waiting.memory->count());
  for (const core::Blocker& blocker : waiting.blockers) FillBlocker(blocker, *out.add_blockers());
  out.set_since_ns(Nanoseconds(waiting.since));
}

void FillMark(const telemetry::Mark& mark, v1::Mark& out) {
  out.set_kind(mark.kind);
  out.set_stage(ToUtf8(mark.stage));
  out.set_name(ToUtf8(mark.name));
  out.set_note(ToUtf8(mark.note));
  if (mark.nbytes) out.set_nbytes(mark.nbytes->count());
  if (mark.seconds) out.set_seconds(*mark.seconds);
}

}  // namespace

v1::Event ToProto(const telemetry::Event& event) {
  v1::Event out;
  out.set_kind(event.kind);
  if (event.job) out.set_job_id(core::Value(*event.job));
  out.set_text(ToUtf8(event.text));
  out.set_time_ns(Nanoseconds(event.time));
  if (event.mark) FillMark(*event.mark, *out.mutable_mark());
  return out;
}

v1::Frame ToProto(const telemetry::Frame& frame) {
  v1::Frame out;
  out.set_sequence(frame.sequence);
  out.set_time_ns(Nanoseconds(frame.time.wall));
  out.set_awake_ns(absl::ToInt64Nanoseconds(frame.time.awake));
  out.set_interval_ns(absl::ToInt64Nanoseconds(frame.interval));
  FillHost(frame.host, *out.mutable_host());
  for (const telemetry::ClientFrame& client : frame.clients) {
    FillClient(client, *out.add_clients());
  }
  out.set_pending(frame.pending);
  out.set_active(frame.active);
  for (const core::Blocker& blocker : frame.blockers) FillBlocker(blocker, *out.add_blockers());
  for (const telemetry::Event& event : frame.events) *out.add_events() = ToProto(event);
  out.set_reserved_bytes(frame.reserved.count());
  for (const telemetry::WaitingFrame& waiting : frame.waiting) {
    FillWaiting(waiting, *out.add_waiting());
  }
  if (frame.queue_held) out.set_queue_held(ToUtf8(*frame.queue_held));
  return out;
}

}  // namespace stageload::rpc
