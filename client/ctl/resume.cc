// stageloadctl resume: suspended jobs go on.
#include "client/ctl/job_control.h"

namespace stageload::ctl {

void AddResume(CLI::App& app, Invocation& invocation) {
  CLI::App* command = AddJobControl(
      app, invocation,
      {"resume", "let suspended jobs go on",
       CallFor<v1::ResumeJobRequest, v1::ResumeJobResponse>(&v1::JobService::Stub::ResumeJob),
       [](const v1::Job& job) { return job.state() == v1::JOB_STATE_SUSPENDED; }});
  AddExample(*command, invocation, {"stageloadctl resume 3"});
}

}  // namespace stageload::ctl
