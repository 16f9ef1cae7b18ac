// stageloadctl release: held jobs may start again.
#include "client/ctl/job_control.h"

namespace stageload::ctl {

void AddRelease(CLI::App& app, Invocation& invocation) {
  AddJobControl(
      app, invocation, "release", "let held jobs start",
      CallFor<v1::ReleaseJobRequest, v1::ReleaseJobResponse>(&v1::JobService::Stub::ReleaseJob));
}

}  // namespace stageload::ctl
