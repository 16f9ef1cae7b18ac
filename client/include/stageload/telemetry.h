// What the daemon reads and decides, as plain structs.
//
// Sizes are bytes, levels percent (0 to 100). A Time is wall time in nanoseconds since 1970-01-01
// UTC, for people and for putting things in order by the hour: it can be set back. What could not
// be read is absent, never 0. Words such as "MEMORY" or "RUNNING" are those of the API and of
// `stageloadctl --json`; new ones may come.
//
// Threading: plain values.
#ifndef STAGELOAD_TELEMETRY_H_
#define STAGELOAD_TELEMETRY_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stageload {

using Time = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;

// How hard the kernel says that memory is to get.
enum class Pressure { kNormal = 1, kWarn = 2, kCritical = 3 };

// System-wide memory at one instant.
struct HostSample {
  std::optional<double> level_percent;  // of memory available
  std::optional<std::int64_t> total_bytes;
  std::optional<std::int64_t> available_bytes;
  std::optional<std::int64_t> swap_used_bytes;
  std::optional<std::int64_t> swap_total_bytes;
  std::optional<Pressure> pressure;
  std::optional<std::int64_t> compressed_bytes;
  std::optional<std::int64_t> wired_bytes;
  std::optional<std::int64_t> swapped_in_bytes;  // since boot
  std::optional<std::int64_t> swapped_out_bytes;
  // What the user lets the GPU wire at most; absent where the system chooses it.
  std::optional<std::int64_t> gpu_wired_limit_bytes;
};

// One reason why a request waits.
struct Blocker {
  std::string kind;  // "MEMORY", "LEVEL", "ORDER"...: docs/admission.md has them all
  double read = 0;   // in the unit of the kind
  double needed = 0;
  std::string text;  // one line with the figures
  // How long it blocks at most, where that can be told.
  std::optional<std::chrono::nanoseconds> ends_in;
};

// A number that a program gives of itself. The unit is in the name: "mps_driver_bytes".
struct Gauge {
  std::string name;  // letters, digits, '_' and '.'; at most 64 bytes
  double value = 0;
};

// Something that a program said about its own run.
struct Mark {
  std::string kind;  // "stage", "load", "reload", "release", "mark", or another word
  std::string stage;
  std::string name;
  std::string note;
  std::optional<std::int64_t> bytes;
  std::optional<double> seconds;
};

// A lease that is held.
struct LeaseSample {
  std::int64_t lease_id = 0;
  std::string stage;
  std::int64_t memory_bytes = 0;
  bool forced = false;  // granted though it may not fit
  Time granted;
};

// A request that waits: the start of a job or of a guarded command, or a lease.
struct WaitingRequest {
  std::int64_t job_id = 0;  // the job, or the client that wants the lease
  std::string name;
  std::int64_t lease_id = 0;  // 0 for a start
  std::string stage;          // of a lease
  std::optional<std::int64_t> memory_bytes;
  std::vector<Blocker> blockers;
  Time since;
};

// One active client: a job, a guarded command or a session.
struct ClientSample {
  std::int64_t job_id = 0;
  std::string name;
  std::string kind;   // "JOB", "GUARD", "SESSION"
  std::string state;  // "RUNNING", "SUSPENDED", "STOPPING"
  std::optional<std::int32_t> pid;
  std::optional<std::int64_t> footprint_bytes;
  std::optional<std::int64_t> swapped_bytes;
  std::int64_t charge_bytes = 0;  // swap put down to it; negative when swap fell
  std::int64_t swap_budget_bytes = 0;
  std::optional<std::int64_t> memory_bytes;  // declared
  std::int32_t processes = 0;
  Time start;
  std::vector<LeaseSample> leases;
  std::vector<Gauge> gauges;
  std::string stage;  // the last that it reported or got a lease for
};

// Something that happened between this frame and the one before.
struct Event {
  std::string kind;  // "admitted", "warned", "lease_waiting", "lease_granted"...
  std::int64_t job_id = 0;
  std::string text;  // one line with the figures
  Time time;
  std::optional<Mark> mark;  // of one that a program reported
};

// One sample of the machine and all that goes with it.
struct Frame {
  std::int64_t sequence = 0;  // grows by 1 a frame; starts again with each daemon
  Time time;
  std::chrono::nanoseconds awake{0};     // since boot, without time asleep
  std::chrono::nanoseconds interval{0};  // until the next planned sample
  HostSample host;
  std::vector<ClientSample> clients;
  std::int32_t pending = 0;
  std::int32_t active = 0;
  std::vector<Event> events;
  std::int64_t reserved_bytes = 0;  // promised to active clients beyond their footprints
  // What waits: leases first, then starts, in the order in which they may go; the first 20.
  std::vector<WaitingRequest> waiting;
  std::optional<std::string> queue_held;  // why the whole queue is held
  // Frames that this subscriber was too slow for, since the one before.
  std::int64_t dropped = 0;
};

}  // namespace stageload

#endif  // STAGELOAD_TELEMETRY_H_
