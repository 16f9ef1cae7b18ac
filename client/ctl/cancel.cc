// stageloadctl cancel: ends jobs; a waiting one at once, a running one by SIGTERM and its grace
// time.
#include "client/ctl/job_control.h"
#include "client/ctl/job_follow.h"
#include "client/ctl/outcome.h"

namespace stageload::ctl {

void AddCancel(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      AddJobControl(app, invocation,
                    {.name = "cancel",
                     .help = "end jobs",
                     .call = CancelJob,
                     .is_meant = [](const v1::Job& job) { return !IsEnd(job.state()); },
                     .newest_first = true});
  AddExample(*command, invocation,
             {"stageloadctl cancel $(stageloadctl queue --group gpu --json | jq '.jobs[].id')"});
}

}  // namespace stageload::ctl
