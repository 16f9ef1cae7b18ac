// What a job waits for, on the one line that a terminal has for it.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_WAITING_LINE_H_
#define STAGELOAD_CLIENT_CTL_WAITING_LINE_H_

#include <cstddef>
#include <string>

#include "stageload/v1/job.pb.h"

namespace stageload::ctl {

// "stageload: job 3 waits: MEMORY: needs 12 GiB, 9.1 GiB free after ...", no wider than `width` (0
// is no limit): where that is narrow, of each blocker its figures alone, and the last ones are cut.
std::string WaitingLine(const v1::Job& job, std::size_t width);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_WAITING_LINE_H_
