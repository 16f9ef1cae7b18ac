// The part of explanation.h that is about what waits: jobs for their start, clients for a lease.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_EXPLANATION_WAITING_H_
#define STAGELOAD_CLIENT_CTL_EXPLANATION_WAITING_H_

#include "client/ctl/explanation.h"

namespace stageload::ctl {

Explanation ExplainWaiting(const v1::Job& job, const Others& others, absl::Time now);
// Adds what leases the client holds, and what it waits for.
void ExplainLeases(const v1::Job& job, const v1::Frame& frame, absl::Time now,
                   Explanation& explanation);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_EXPLANATION_WAITING_H_
