// Runs a program of the system's (launchctl, systemctl) and hears what it says.
//
// Threading: one thread; reads the environment.
#ifndef STAGELOAD_CLIENT_CTL_TOOL_H_
#define STAGELOAD_CLIENT_CTL_TOOL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stageload::ctl {

// For one that only tells something.
inline constexpr absl::Duration kLookWithin = absl::Seconds(10);

struct ToolResult {
  int exit_code = 0;   // 128+n when signal n ended it
  std::string output;  // stdout and stderr as they came, without blanks around
  bool ok() const { return exit_code == 0; }
};

// argv[0] is looked for in $PATH. NotFound or PermissionDenied when it cannot be run,
// DeadlineExceeded when it has not ended in time; then it is killed.
absl::StatusOr<ToolResult> RunTool(std::vector<std::string> argv,
                                   absl::Duration timeout = absl::Seconds(90));

// As one would type it.
std::string ShellText(const std::vector<std::string>& argv);

// "COMMAND: exit code 5: what it said".
std::string ToolFailure(const std::vector<std::string>& argv, const ToolResult& result);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TOOL_H_
