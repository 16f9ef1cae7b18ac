// The keys of the config file: how each is read, shown and explained. The one list of them, from
// which the parser, `config show` and `config init` are made.
//
// Threading: pure functions.
#ifndef STAGELOAD_DAEMON_CONFIG_KEYS_H_
#define STAGELOAD_DAEMON_CONFIG_KEYS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/config.h"
#include "toml++/toml.h"

namespace stageload {

struct ConfigKey {
  std::string name;     // with its table: "defaults.swap_budget"
  std::string does;     // for people, in a line or two
  std::string example;  // a value for the file where there is no default
  // Reads the value into the config; an error says what is wrong with it, without the place.
  std::function<absl::Status(const toml::node&, DaemonConfig&)> read;
  // As it would be written in the file; absent when there is none.
  std::function<std::optional<std::string>(const DaemonConfig&)> show;
  bool needs_restart = false;
};

// In the order of the documentation: those without a table first, then table by table.
const std::vector<ConfigKey>& ConfigKeys();

}  // namespace stageload

#endif  // STAGELOAD_DAEMON_CONFIG_KEYS_H_
