// What programs that registered themselves ask of the engine, and what they are told:
// registrations, leases, reports, and recordings of a process.
//
// Threading: plain values.
#ifndef STAGELOAD_DAEMON_ENGINE_SESSION_H_
#define STAGELOAD_DAEMON_ENGINE_SESSION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "base/instant.h"
#include "daemon/core/blocker.h"
#include "daemon/core/effects.h"
#include "daemon/core/ids.h"
#include "daemon/core/job.h"
#include "daemon/core/policy.h"
#include "daemon/core/sample.h"
#include "daemon/telemetry/frame.h"

namespace stageload::engine {

// Who asks, by the kernel's word: what a client may do depends on which process it is.
struct Caller {
  std::uint64_t connection = 0;  // its own number for each connection
  std::int32_t pid = 0;
};

struct RegisterRequest {
  std::string name;  // empty: the base name of the process's command
  core::Policy policy;
  std::int32_t pid = 0;  // whose right to be named the caller of the engine has checked
  bool enforce = false;  // it may be signalled
  bool was_joined = false;  // to a client of the daemon before
  Caller caller;
};

struct Registered {
  core::JobId client{};
  core::Policy policy;
  core::HostSample host;
  bool joined = false;  // a client that was there already, in whose tree the process is
};
struct PressureChanged {
  core::HostSample host;
};
struct Suspended {
  core::Reason reason = core::Reason::kNone;
  std::string text;
};
struct Resumed {};
// The process has ended, or the client was stopped and is gone. The last.
struct ClientEnded {};
using SessionEvent = std::variant<Registered, core::Warned, core::StopRequested, PressureChanged,
                                  Suspended, Resumed, ClientEnded>;

struct AcquireRequest {
  core::JobId client{};
  std::string stage;
  Bytes memory;
  std::optional<absl::Duration> start_timeout;
  std::string request_id;    // by which Release() knows it too; empty is none
  bool loaded = false;       // under a lease of a daemon that has gone
  std::uint64_t worker = 0;  // which of the program's lines of work asks
  Caller caller;
};
struct LeaseWaiting {
  std::vector<core::Blocker> blockers;
  std::int64_t position = 0;  // among the leases that wait, from 1
};
struct LeaseGranted {
  core::LeaseId id{};
  bool forced = false;
  absl::Duration waited;
};
using LeaseEvent = std::variant<LeaseWaiting, LeaseGranted>;

struct ReleaseRequest {
  core::JobId client{};
  std::optional<core::LeaseId> lease;  // else the one of `request_id`
  std::string request_id;
  Caller caller;
};

struct ReportRequest {
  std::optional<core::JobId> client;  // else the one in whose tree the caller is
  std::vector<telemetry::Gauge> gauges;
  std::vector<telemetry::Mark> marks;
  Caller caller;
};
struct Reported {
  std::optional<core::JobId> client;
  int recordings = 0;  // that got the marks
};

struct RecordRequest {
  std::int32_t pid = 0;  // whose right to be named the caller of the engine has checked
  absl::Duration interval;
};
// A process and its descendants at one instant.
struct ProcessReading {
  Instant time;
  core::Usage usage;
  int processes = 0;
  core::HostSample host;
  std::optional<Bytes> charge;  // of the client that it is, if it is one
  std::optional<Bytes> swap_budget;
};
struct RecordingUpdate {
  std::optional<ProcessReading> reading;
  std::vector<telemetry::Event> events;  // that are about it, since the update before
  bool ended = false;                    // none of the processes is left; the last
};

}  // namespace stageload::engine

#endif  // STAGELOAD_DAEMON_ENGINE_SESSION_H_
