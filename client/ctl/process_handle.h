// A process that is not our child, held so that another that gets its pid later is not taken for
// it.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_PROCESS_HANDLE_H_
#define STAGELOAD_CLIENT_CTL_PROCESS_HANDLE_H_

#include <sys/types.h>

#include "client/ctl/unique_fd.h"

namespace stageload::ctl {

class ProcessHandle {
 public:
  // Of the process that has this pid now.
  explicit ProcessHandle(pid_t pid);

  // Also when there was none.
  bool Ended();

 private:
  pid_t pid_;
  UniqueFd fd_;  // Linux: a pidfd; macOS: a kqueue with its NOTE_EXIT
  bool ended_ = false;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PROCESS_HANDLE_H_
