// The config file: every key optional, and nothing in it passed over in silence.
//
// Threading: a pure function of a file.
#ifndef STAGELOAD_DAEMON_CONFIG_H_
#define STAGELOAD_DAEMON_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/core/policy.h"

namespace stageload {

struct DaemonConfig {
  core::Config core;
  // Ended jobs, their logs and events are forgotten after so long.
  absl::Duration keep_history = absl::Hours(24 * 30);
  // Run by /bin/sh when a job has ended (jobs/end_hooks.h); empty is none.
  std::string on_end;
};

// Defaults when there is no such file. InvalidArgument names the file, the line, the key, the value
// and a right one; an unknown key is an error too.
absl::StatusOr<DaemonConfig> LoadConfig(const std::string& path);

}  // namespace stageload

#endif  // STAGELOAD_DAEMON_CONFIG_H_
