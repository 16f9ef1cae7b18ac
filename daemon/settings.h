// The settings in force: those of the config file as it was last read without a mistake, and what
// the daemon's command line says over them.
//
// Threading: any thread. Reload() reads a file; one at a time.
#ifndef STAGELOAD_DAEMON_SETTINGS_H_
#define STAGELOAD_DAEMON_SETTINGS_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/config.h"
#include "daemon/rpc/config_view.h"

namespace stageload {

// What the command line says, which no file changes.
struct Overrides {
  std::optional<LogLevel> log_level;  // --log-level
  bool log_json = false;              // --log-json
  bool dry_run = false;               // --dry-run
};

using rpc::ConfigView;
using rpc::SettingChange;

// "max_bypass 5 -> 3; log.files 5 -> 9 (at the next start)"; "nothing has changed".
std::string Described(const std::vector<SettingChange>& changes);

class Settings {
 public:
  // InvalidArgument as LoadConfig().
  static absl::StatusOr<std::unique_ptr<Settings>> Load(std::string path, Overrides overrides);

  const std::string& path() const { return path_; }
  // Those in force; what is handed out stays as it is.
  std::shared_ptr<const DaemonConfig> config() const;
  ConfigView View() const;

  // Reads the file again and calls `apply` with what is in force then, before anybody else sees it.
  // A file with mistakes changes nothing.
  using Apply = std::function<void(const DaemonConfig&)>;
  absl::StatusOr<std::vector<SettingChange>> Reload(const Apply& apply);

 private:
  Settings(std::string path, Overrides overrides, DaemonConfig config);

  const std::string path_;
  const Overrides overrides_;
  std::mutex reloading_;
  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<const DaemonConfig> config_;
  absl::Time load_time_;
};

// The same of a file that no daemon has read yet.
ConfigView ViewOf(const DaemonConfig& config, const std::string& path, const Overrides& overrides);

}  // namespace stageload

#endif  // STAGELOAD_DAEMON_SETTINGS_H_
