// One sample and all that goes with it, as subscribers get it.
//
// Threading: plain values.
#ifndef STAGELOAD_DAEMON_TELEMETRY_FRAME_H_
#define STAGELOAD_DAEMON_TELEMETRY_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/instant.h"
#include "base/units.h"
#include "daemon/core/blocker.h"
#include "daemon/core/job.h"
#include "daemon/core/sample.h"

namespace stageload::telemetry {

struct ClientFrame {
  core::JobId job{};
  std::string name;
  core::JobState state = core::JobState::kRunning;
  core::Usage usage;
  Bytes charge;
  Bytes swap_budget;
  std::optional<Bytes> memory;
  int processes = 0;
};

struct Event {
  std::string kind;  // "submitted", "admitted", "warned", "stopping", "killed", "ended", "refused"
  std::optional<core::JobId> job;
  std::string text;
  absl::Time time;
};

struct Frame {
  std::int64_t sequence = 0;  // filled by the hub
  Instant time;
  absl::Duration interval;
  core::HostSample host;
  std::vector<ClientFrame> clients;
  int pending = 0;
  int active = 0;
  std::vector<core::Blocker> blockers;  // of the first pending request
  std::vector<Event> events;            // since the frame before
  Bytes reserved;                       // promised to active clients beyond their footprints
};

}  // namespace stageload::telemetry

#endif  // STAGELOAD_DAEMON_TELEMETRY_FRAME_H_
