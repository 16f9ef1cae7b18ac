// What the services of all connections share. None of it belongs to rpc/.
//
// Threading: set once, before the first connection.
#ifndef STAGELOAD_DAEMON_RPC_PARTS_H_
#define STAGELOAD_DAEMON_RPC_PARTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/engine/engine.h"
#include "daemon/host/host.h"
#include "daemon/rpc/config_view.h"
#include "daemon/telemetry/hub.h"

namespace stageload::rpc {

enum class StartedBy { kUser, kAutostart, kService };

struct Parts {
  engine::Engine* engine = nullptr;
  telemetry::Hub* hub = nullptr;
  // The process that has a pid now; called from any thread.
  std::function<absl::StatusOr<host::Process>(std::int32_t pid)> find_process;
  // Called once an answer to Shutdown is on its way.
  std::function<void()> on_shutdown;
  // What holds where a request does not say otherwise. These three are called from any thread.
  std::function<core::Defaults()> defaults = [] { return core::Defaults(); };
  std::function<ConfigView()> config = [] { return ConfigView(); };
  std::function<absl::StatusOr<std::vector<SettingChange>>()> reload_config = [] {
    return absl::UnimplementedError("no config");
  };
  bool dry_run = false;
  StartedBy started_by = StartedBy::kUser;
  std::string state_directory;
  absl::Time start_time;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_PARTS_H_
