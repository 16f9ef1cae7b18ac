// The config file: every key optional, and nothing in it passed over in silence.
//
// Threading: pure functions of a file.
#ifndef STAGELOAD_DAEMON_CONFIG_H_
#define STAGELOAD_DAEMON_CONFIG_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/units.h"
#include "daemon/core/policy.h"

namespace stageload {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError };
const char* Name(LogLevel level);  // "info"
// InvalidArgument names the words there are.
absl::StatusOr<LogLevel> ParseLogLevel(const std::string& text);

// The daemon's own log (daemon/log.h).
struct LogConfig {
  LogLevel level = LogLevel::kInfo;
  bool json = false;
  Bytes file_size = MiB(8);  // of one file; at the next start
  int files = 5;             // kept, the one that is written among them; at the next start
};

struct DaemonConfig {
  core::Config core;
  core::Defaults defaults;
  // Ended jobs, their logs and events are forgotten after so long.
  absl::Duration keep_history = absl::Hours(24 * 30);
  // Run by /bin/sh when a job has ended (jobs/end_hooks.h); empty is none.
  std::string on_end;
  LogConfig log;
  // The line of each key that the file sets.
  std::map<std::string, int> lines;
};

// What a file that is not there stands for.
enum class IfMissing { kDefaults, kError };

// InvalidArgument has a line of its own for each mistake, with
// the file, the line, the key, the value and a right one; an unknown key is a mistake too.
absl::StatusOr<DaemonConfig> LoadConfig(const std::string& path,
                                        IfMissing if_missing = IfMissing::kDefaults);

// One key as it stands in a config.
struct Setting {
  std::string key;                   // with its table: "defaults.swap_budget"
  std::optional<std::string> value;  // as it is written in the file; absent when there is none
  std::optional<int> line;           // of the file, when it says so
  bool needs_restart = false;        // the daemon keeps the value with which it was started
};

// Every key there is, in the order of the documentation.
std::vector<Setting> SettingsOf(const DaemonConfig& config);

// A config file with every key commented out, each with its default and what it does.
std::string ConfigTemplate();

}  // namespace stageload

#endif  // STAGELOAD_DAEMON_CONFIG_H_
