// Whether something of a process group still runs. kill(2) cannot tell: it counts the zombies,
// which in a container whose first process does not wait for its orphans stay for good.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_PROCESS_GROUP_H_
#define STAGELOAD_CLIENT_CTL_PROCESS_GROUP_H_

#include <sys/types.h>

#include <optional>

namespace stageload::ctl {

class ProcessGroup {
 public:
  explicit ProcessGroup(pid_t id) : id_(id), seen_(id) {}

  // Also where it cannot be told.
  bool Runs();

 private:
  const pid_t id_;
  pid_t seen_;  // the member that ran when last looked at
};

// Whether this process is in the group and no zombie.
bool RunsInGroup(pid_t pid, pid_t group);
// One that is; `group` itself where the processes cannot be listed.
std::optional<pid_t> FindInGroup(pid_t group);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PROCESS_GROUP_H_
