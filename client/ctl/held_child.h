// A child that is forked now and executes its command later, when it is let go: the daemon can know
// and watch the very process that will be the command before it has touched any memory. When the
// guard dies first, the child ends without running anything.
//
// Threading: Fork while the process has one thread only (a forked copy of a gRPC client is
// unsound); the rest from one thread.
#ifndef STAGELOAD_CLIENT_CTL_HELD_CHILD_H_
#define STAGELOAD_CLIENT_CTL_HELD_CHILD_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/unique_fd.h"

namespace stageload::ctl {

class HeldChild {
 public:
  // In a process group of its own, with signals as they are now.
  static absl::StatusOr<HeldChild> Fork(std::vector<std::string> argv);

  pid_t pid() const { return pid_; }  // also of its process group

  // Lets it execute argv (looked up in PATH). 0 once it runs, else the errno of the exec: the child
  // has then ended with 127.
  int LetGo();

  // Ends it unstarted. Whoever waits for the child sees it exit with 0.
  void Discard() { go_.Reset(); }

 private:
  HeldChild() = default;

  pid_t pid_ = -1;
  UniqueFd go_;      // one byte lets it go, the end of file ends it
  UniqueFd failed_;  // the errno of a failed exec comes here; the exec itself closes it
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_HELD_CHILD_H_
