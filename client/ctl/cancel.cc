// stageloadctl cancel: ends jobs; a waiting one at once, a running one by SIGTERM and its grace
// time.
#include "client/ctl/job_control.h"
#include "client/ctl/job_follow.h"

namespace stageload::ctl {

void AddCancel(CLI::App& app, Invocation& invocation) {
  AddJobControl(app, invocation, "cancel", "end jobs", CancelJob);
}

}  // namespace stageload::ctl
