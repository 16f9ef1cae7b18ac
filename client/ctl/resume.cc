// stageloadctl resume: suspended jobs go on.
#include "client/ctl/job_control.h"

namespace stageload::ctl {

void AddResume(CLI::App& app, Invocation& invocation) {
  AddJobControl(
      app, invocation, "resume", "let suspended jobs go on",
      CallFor<v1::ResumeJobRequest, v1::ResumeJobResponse>(&v1::JobService::Stub::ResumeJob));
}

}  // namespace stageload::ctl
