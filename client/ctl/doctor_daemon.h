// `doctor`: the daemon, if there is one, the programs beside this one, and their config.
//
// Threading: the checks are pure functions; what reads is for one thread.
#ifndef STAGELOAD_CLIENT_CTL_DOCTOR_DAEMON_H_
#define STAGELOAD_CLIENT_CTL_DOCTOR_DAEMON_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/paths.h"
#include "client/ctl/connection.h"
#include "client/ctl/doctor_finding.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::ctl {

// How long a daemon may take for each answer.
inline constexpr absl::Duration kDoctorWaits = absl::Seconds(3);

struct DaemonFacts {
  Paths paths;
  std::optional<v1::GetVersionResponse> version;  // of the one that answers
  absl::Status silence;                           // why none does
  bool socket_file = false;                       // there is a socket at its path
  bool in_the_way = false;            // there is something else, and no daemon can listen
  bool socket_of_service = false;     // which launchd or systemd has made and may leave behind
  bool served_twice = false;          // launchd has it loaded twice (Supervised)
  int service_pid = 0;                // of the daemon that the service of this home has started
  bool service_program_gone = false;  // the service that is installed could not start again
  bool lock_held = false;
  int lock_pid = 0;       // of who holds the lock, else of the last that did; 0: unknown
  char lock_state = '?';  // of the holder: 'T' is stopped
  bool may_start = true;  // a command would start one
  // Of the one that answers.
  std::string program_change;  // ProgramChange()
  std::string unit;            // UnitAround()
};
// `connection` is what Connect() has said without starting one.
DaemonFacts ReadDaemon(const Paths& paths, const absl::StatusOr<Connection>& connection);
Finding CheckDaemon(const DaemonFacts& facts, absl::Time now);

// "0.2.0", as the stageloadd at that path says. FailedPrecondition of a program that is none, else
// as RunTool().
absl::StatusOr<std::string> VersionOf(const std::string& program);

// stageloadd and stageload-shim, as a command would start them.
struct Programs {
  absl::StatusOr<std::string> daemon = std::string();   // path
  absl::StatusOr<std::string> version = std::string();  // "0.2.0"
  std::string shim;                                     // path; empty when it is there
  bool named = false;                                   // by STAGELOAD_DAEMON
};
Programs FindPrograms();
// What to do about a stageloadd that does not do what it should.
std::string RepairOf(const Programs& programs);
Finding CheckPrograms(const Programs& programs);
// This program, the daemon that runs, and the one that would be started.
Finding CheckVersions(const v1::GetVersionResponse& running, const Programs& programs);

// `status` is what `stageloadd --check-config` has said, and whether it was content.
Finding CheckConfigFile(const std::string& path, bool exists, const absl::Status& status);

// What the daemon has said of its store since a day ago, newest first. An error is its own where it
// cannot read it.
absl::StatusOr<std::vector<v1::Event>> ReadStoreEvents(const Connection& connection,
                                                       absl::Time now);
Finding CheckStore(const absl::StatusOr<std::vector<v1::Event>>& events, absl::Time now);

// What the daemon has stopped since a day ago, newest last.
absl::StatusOr<std::vector<v1::Event>> ReadStops(const Connection& connection, absl::Time now);
Findings CheckStops(const std::vector<v1::Event>& stops, absl::Time now);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_DOCTOR_DAEMON_H_
