// Runs a program that is told everything on stdin and heard to the end of its stdout.
//
// Threading: blocks its thread, and has one of its own meanwhile; SIGPIPE must be ignored.
#ifndef STAGELOAD_CLIENT_CTL_FILTER_H_
#define STAGELOAD_CLIENT_CTL_FILTER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stageload::ctl {

struct Filtered {
  int wait_status = 0;  // of waitpid
  std::string out;
  std::string err;  // its beginning
};

// argv[0] is a path. An error only where it cannot be started.
absl::StatusOr<Filtered> Filter(std::vector<std::string> argv, const std::string& input);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_FILTER_H_
