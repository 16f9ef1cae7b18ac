// stageloadctl suspend: stops all processes of running jobs; they keep their memory.
#include "client/ctl/job_control.h"

namespace stageload::ctl {

void AddSuspend(CLI::App& app, Invocation& invocation) {
  CLI::App* command = AddJobControl(
      app, invocation,
      {"suspend", "suspend running jobs with all their processes; they keep their memory",
       CallFor<v1::SuspendJobRequest, v1::SuspendJobResponse>(&v1::JobService::Stub::SuspendJob),
       [](const v1::Job& job) { return job.state() == v1::JOB_STATE_RUNNING; }});
  AddExample(*command, invocation, {"stageloadctl suspend 3"});
}

}  // namespace stageload::ctl
