// A pipe whose ends are closed by themselves.
//
// Threading: no state.
#ifndef STAGELOAD_CLIENT_CTL_PIPE_H_
#define STAGELOAD_CLIENT_CTL_PIPE_H_

#include "absl/status/statusor.h"
#include "client/ctl/unique_fd.h"

namespace stageload::ctl {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

// Both ends close-on-exec.
absl::StatusOr<Pipe> MakePipe();

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PIPE_H_
