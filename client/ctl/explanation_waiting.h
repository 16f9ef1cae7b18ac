// The part of explanation.h that is about jobs that wait.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_EXPLANATION_WAITING_H_
#define STAGELOAD_CLIENT_CTL_EXPLANATION_WAITING_H_

#include "client/ctl/explanation.h"

namespace stageload::ctl {

Explanation ExplainWaiting(const v1::Job& job, const Others& others, absl::Time now);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_EXPLANATION_WAITING_H_
