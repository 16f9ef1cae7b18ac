// The config file: every key optional, and nothing in it passed over in silence.
//
// Threading: a pure function of a file.
#ifndef STAGELOAD_DAEMON_CONFIG_H_
#define STAGELOAD_DAEMON_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "daemon/core/policy.h"

namespace stageload {

// Defaults when there is no such file. InvalidArgument names the file, the line, the key, the value
// and a right one; an unknown key is an error too.
absl::StatusOr<core::Config> LoadConfig(const std::string& path);

}  // namespace stageload

#endif  // STAGELOAD_DAEMON_CONFIG_H_
