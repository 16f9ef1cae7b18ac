// stageloadctl release: held jobs, or those of the held queue, may start again.
#include "client/ctl/job_control.h"

namespace stageload::ctl {

void AddRelease(CLI::App& app, Invocation& invocation) {
  CLI::App* command = AddJobControl(
      app, invocation,
      {"release", "let held jobs start",
       CallFor<v1::ReleaseJobRequest, v1::ReleaseJobResponse>(&v1::JobService::Stub::ReleaseJob),
       [](const v1::Job& job) { return job.held(); },
       [](const Connection& connection) {
         return CallJobs<v1::ReleaseQueueRequest, v1::ReleaseQueueResponse>(
                    connection, &v1::JobService::Stub::ReleaseQueue, v1::ReleaseQueueRequest())
             .status();
       }});
  AddExample(*command, invocation, {"stageloadctl release --queue"});
}

}  // namespace stageload::ctl
