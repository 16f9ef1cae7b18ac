// Jobs as rows.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_JOB_TABLE_H_
#define STAGELOAD_CLIENT_CTL_JOB_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/ctl/print.h"
#include "stageload/v1/job.pb.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::ctl {

// `frame` has what those that run wait for.
Table JobTable(const std::vector<v1::Job>& jobs, const v1::Frame& frame = {});

Colour ColourOf(v1::JobState state);

// "1.2 GiB", or "-" where there is none.
std::string SizeOrDash(bool present, std::int64_t bytes);

// "3.1 GiB / 8 GiB".
std::string ChargeOfBudget(std::int64_t charge_bytes, std::int64_t budget_bytes);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_JOB_TABLE_H_
