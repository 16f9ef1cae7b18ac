// What a frame knows of a client beyond its job: the leases that it holds and waits for, its stage
// and its gauges.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_CLIENT_LEASES_H_
#define STAGELOAD_CLIENT_CTL_CLIENT_LEASES_H_

#include <cstdint>
#include <vector>

#include "client/ctl/json.h"
#include "stageload/v1/job.pb.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::ctl {

// Whether frames tell of it: it has started and has not ended.
bool IsActive(const v1::Job& job);

// Null for one that is not in the frame.
const v1::ClientSample* ClientOf(const v1::Frame& frame, std::int64_t id);
// In the order in which they may be granted, of those that the frame tells.
std::vector<const v1::WaitingRequest*> WaitingLeasesOf(const v1::Frame& frame, std::int64_t id);

// The job; of one that is active also stage, leases, waiting_leases and gauges.
Json ToJson(const v1::Job& job, const v1::Frame& frame);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_CLIENT_LEASES_H_
