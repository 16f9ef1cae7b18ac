// stageloadd's own command line: what it is asked to do, and its mistakes in words that name a
// right value.
//
// Threading: pure functions.
#ifndef STAGELOAD_DAEMON_OPTIONS_H_
#define STAGELOAD_DAEMON_OPTIONS_H_

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "daemon/rpc/parts.h"
#include "daemon/settings.h"

namespace stageload {

enum class Action { kServe, kCheckConfig, kShowConfig, kPrintConfigTemplate, kProbe };

struct Options {
  Action action = Action::kServe;
  std::string config_file;  // of kCheckConfig and kShowConfig; empty is the daemon's own
  std::optional<absl::Duration> idle_exit;
  bool log_stderr = false;
  std::string started_as;  // argv[0], which ReadOptions does not know
  Overrides overrides;
  rpc::StartedBy started_by = rpc::StartedBy::kUser;
};

// Instead of options: the help or the version, or on stderr what is wrong.
struct Answer {
  std::string out;
  std::string err;
  int exit_code = 0;
};

// `words` are without the program's name.
std::variant<Options, Answer> ReadOptions(const std::vector<std::string>& words);

}  // namespace stageload

#endif  // STAGELOAD_DAEMON_OPTIONS_H_
