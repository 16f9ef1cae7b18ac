// Frames for tests of `top`.
#ifndef STAGELOAD_TESTS_CLIENT_CTL_TOP_FRAMES_H_
#define STAGELOAD_TESTS_CLIENT_CTL_TOP_FRAMES_H_

#include <cstdint>
#include <string>

#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::ctl {

inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;
inline constexpr std::int64_t kSecondNs = 1'000'000'000;
// 2026-11-30 12:00:00 UTC.
inline constexpr std::int64_t kNoonNs = 1'796'040'000 * kSecondNs;

// The machine `second` seconds after noon.
inline v1::Frame FrameAt(std::int64_t second, double level = 63, std::int64_t swap = 0) {
  v1::Frame frame;
  frame.set_sequence(second + 1);
  frame.set_time_ns(kNoonNs + second * kSecondNs);
  frame.set_awake_ns((1000 + second) * kSecondNs);
  v1::HostSample& host = *frame.mutable_host();
  host.set_level_percent(level);
  host.set_total_bytes(48 * kGiB);
  host.set_available_bytes(30 * kGiB);
  host.set_swap_used_bytes(swap);
  host.set_swap_total_bytes(8 * kGiB);
  host.set_pressure(v1::PRESSURE_NORMAL);
  return frame;
}

inline v1::ClientSample& AddClient(v1::Frame& frame, std::int64_t id, const std::string& name,
                                   std::int64_t footprint, std::int64_t charge = 0,
                                   std::int64_t budget = 8 * kGiB) {
  v1::ClientSample& client = *frame.add_clients();
  client.set_job_id(id);
  client.set_name(name);
  client.set_state(v1::JOB_STATE_RUNNING);
  client.set_footprint_bytes(footprint);
  client.set_charge_bytes(charge);
  client.set_swap_budget_bytes(budget);
  client.set_processes(1);
  frame.set_active(frame.clients_size());
  return client;
}

inline v1::WaitingRequest& AddWaiting(v1::Frame& frame, std::int64_t id, const std::string& name,
                                      const std::string& blocker,
                                      v1::BlockerKind kind = v1::BLOCKER_KIND_MEMORY) {
  v1::WaitingRequest& request = *frame.add_waiting();
  request.set_job_id(id);
  request.set_name(name);
  request.set_since_ns(frame.time_ns() - 90 * kSecondNs);
  v1::Blocker& added = *request.add_blockers();
  added.set_kind(kind);
  added.set_text(blocker);
  frame.set_pending(frame.waiting_size());
  return request;
}

inline v1::Event EventAt(std::int64_t second, const std::string& kind, std::int64_t id,
                         const std::string& text) {
  v1::Event event;
  event.set_time_ns(kNoonNs + second * kSecondNs);
  event.set_kind(kind);
  event.set_job_id(id);
  event.set_text(text);
  return event;
}

}  // namespace stageload::ctl

#endif  // STAGELOAD_TESTS_CLIENT_CTL_TOP_FRAMES_H_
