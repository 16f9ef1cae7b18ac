// stageloadctl hold: waiting jobs, or the whole queue, wait on, whatever room there is, until they
// are released.
#include <memory>
#include <string>

#include "client/ctl/job_control.h"

namespace stageload::ctl {

void AddHold(CLI::App& app, Invocation& invocation) {
  const auto reason = std::make_shared<std::string>();
  CLI::App* command = AddJobControl(
      app, invocation,
      {"hold", "keep waiting jobs from starting until they are released",
       CallFor<v1::HoldJobRequest, v1::HoldJobResponse>(&v1::JobService::Stub::HoldJob),
       [](const v1::Job& job) { return job.state() == v1::JOB_STATE_PENDING && !job.held(); },
       [reason](const Connection& connection) {
         v1::HoldQueueRequest request;
         request.set_reason(*reason);
         return CallJobs<v1::HoldQueueRequest, v1::HoldQueueResponse>(
                    connection, &v1::JobService::Stub::HoldQueue, request)
             .status();
       },
       /*holds_queue=*/true});
  command->add_option("--reason", *reason, "with --queue: why, for those who look at the queue")
      ->type_name("TEXT")
      ->needs("--queue");
  AddExample(*command, invocation,
             {"stageloadctl hold --queue --reason 'the machine is needed until noon'"});
}

}  // namespace stageload::ctl
