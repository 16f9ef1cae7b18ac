// stageloadctl hold: waiting jobs wait on, whatever room there is, until they are released.
#include "client/ctl/job_control.h"

namespace stageload::ctl {

void AddHold(CLI::App& app, Invocation& invocation) {
  AddJobControl(app, invocation, "hold", "keep waiting jobs from starting until they are released",
                CallFor<v1::HoldJobRequest, v1::HoldJobResponse>(&v1::JobService::Stub::HoldJob));
}

}  // namespace stageload::ctl
