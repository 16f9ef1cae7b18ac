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

// A number that a program gives of itself; the unit is in the name: "mps_driver_bytes".
struct Gauge {
  std::string name;
  double value = 0;
};

// Something that a program says about its own run: see Mark in telemetry_service.proto.
struct Mark {
  std::string kind;
  std::string stage = "";
  std::string name = "";
  std::string note = "";
  std::optional<Bytes> nbytes = std::nullopt;
  std::optional<double> seconds = std::nullopt;
};

struct LeaseFrame {
  core::LeaseId id{};
  std::string stage;
  Bytes memory;
  bool forced = false;
  absl::Time granted;
};

struct ClientFrame {
  core::JobId job{};
  std::string name;
  core::JobState state = core::JobState::kRunning;
  core::Usage usage;
  Bytes charge;
  Bytes swap_budget;
  std::optional<Bytes> memory;
  int processes = 0;
  core::JobKind kind = core::JobKind::kJob;
  std::optional<std::int32_t> pid;
  std::optional<absl::Time> started;
  std::vector<LeaseFrame> leases;  // held
  std::vector<Gauge> gauges;       // by name
  std::string stage;               // the last that it reported or got a lease for
};

// A start or a lease that waits.
struct WaitingFrame {
  core::JobId job{};
  std::string name;
  std::optional<core::LeaseId> lease;
  std::string stage;
  std::optional<Bytes> memory;
  std::vector<core::Blocker> blockers;
  absl::Time since;
};

struct Event {
  std::string kind;  // "submitted", "admitted", "warned", "stopping", "killed", "ended", "refused"
  std::optional<core::JobId> job;
  std::string text;
  absl::Time time;
  std::optional<Mark> mark = std::nullopt;  // that a program reported
};

struct Frame {
  std::int64_t sequence = 0;  // filled by the hub
  Instant time;
  absl::Duration interval;
  core::HostSample host;
  std::vector<ClientFrame> clients;
  int pending = 0;
  int active = 0;
  std::vector<core::Blocker> blockers;    // of the first pending request
  std::vector<Event> events;              // since the frame before
  Bytes reserved;                         // promised to active clients beyond their footprints
  std::vector<WaitingFrame> waiting;      // the first of them, leases before starts
  std::optional<std::string> queue_held;  // why the whole queue is held
};

}  // namespace stageload::telemetry

#endif  // STAGELOAD_DAEMON_TELEMETRY_FRAME_H_
