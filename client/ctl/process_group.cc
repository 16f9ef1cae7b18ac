#include "client/ctl/process_group.h"

#include <signal.h>

namespace stageload::ctl {

bool ProcessGroup::Runs() {
  if (kill(-id_, 0) != 0) return false;
  // Looked at every few milliseconds while its last members take their time.
  if (RunsInGroup(seen_, id_)) return true;
  const std::optional<pid_t> found = FindInGroup(id_);
  if (found) seen_ = *found;
  return found.has_value();
}

}  // namespace stageload::ctl
