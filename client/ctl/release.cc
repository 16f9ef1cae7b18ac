// stageloadctl release: held jobs, or those of the held queue, may start again.
#include "client/ctl/job_control.h"

namespace stageload::ctl {

void AddRelease(CLI::App& app, Invocation& invocation) {
  AddJobControl(
      app, invocation, "release", "let held jobs start",
      CallFor<v1::ReleaseJobRequest, v1::ReleaseJobResponse>(&v1::JobService::Stub::ReleaseJob),
      [](const Connection& connection) {
        return CallJobs<v1::ReleaseQueueRequest, v1::ReleaseQueueResponse>(
                   connection, &v1::JobService::Stub::ReleaseQueue, v1::ReleaseQueueRequest())
            .status();
      });
}

}  // namespace stageload::ctl
