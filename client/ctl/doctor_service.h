// `doctor`: the daemon as a service of launchd or systemd.
//
// Threading: the check is a pure function; what reads is for one thread.
#ifndef STAGELOAD_CLIENT_CTL_DOCTOR_SERVICE_H_
#define STAGELOAD_CLIENT_CTL_DOCTOR_SERVICE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/connection.h"
#include "client/ctl/doctor_finding.h"
#include "client/ctl/service_files.h"
#include "client/ctl/supervisor.h"

namespace stageload::ctl {

struct ServiceFacts {
  absl::Status told;                 // why nothing else is known
  std::string supervisor;            // "launchd", "systemd"
  std::vector<std::string> found;    // its files that are there
  std::vector<std::string> missing;  // and that are not
  bool serves_here = false;          // they are of this home
  bool program_gone = false;         // what they run is missing or not executable
  bool current = false;              // they are as they would be written now
  absl::Status ours;                 // why they are not ours to replace
  absl::StatusOr<Supervised> state = Supervised{};
  std::string last_words;  // of a daemon that is loaded and does not run
  std::string brewed;      // Homebrew's own file, if there is one
  // The user's, where it is there and this process, which goes by it, was not told: in cron, or
  // after su.
  std::string runtime_folder;
  int home_pid = 0;  // of the daemon that has the home; 0: none, or it cannot be told
};
// `daemon` is stageloadd's path.
ServiceFacts ReadService(Platform platform, const ConnectOptions& connect,
                         const std::string& daemon);

// `started_by` is that of the daemon that answers; UNSPECIFIED when none does.
Finding CheckService(const ServiceFacts& facts, v1::StartedBy started_by);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_DOCTOR_SERVICE_H_
