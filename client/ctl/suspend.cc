// stageloadctl suspend: stops all processes of running jobs; they keep their memory.
#include "client/ctl/job_control.h"

namespace stageload::ctl {

void AddSuspend(CLI::App& app, Invocation& invocation) {
  AddJobControl(
      app, invocation, "suspend",
      "suspend running jobs with all their processes; they keep their memory",
      CallFor<v1::SuspendJobRequest, v1::SuspendJobResponse>(&v1::JobService::Stub::SuspendJob));
}

}  // namespace stageload::ctl
