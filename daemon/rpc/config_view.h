// The settings as the API tells them.
//
// Threading: plain values.
#ifndef STAGELOAD_DAEMON_RPC_CONFIG_VIEW_H_
#define STAGELOAD_DAEMON_RPC_CONFIG_VIEW_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace stageload::rpc {

struct SettingView {
  std::string key;                   // with its table: "defaults.swap_budget"
  std::optional<std::string> value;  // as it is written in the file; absent when there is none
  std::string origin;                // "/home/ann/config.toml:12", "--log-level", "default"
};

struct ConfigView {
  std::string path;
  std::vector<SettingView> settings;
  absl::Time load_time;
};

struct SettingChange {
  std::string key;
  std::optional<std::string> before;
  std::optional<std::string> after;
  bool needs_restart = false;  // the one before stays in force
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_CONFIG_VIEW_H_
