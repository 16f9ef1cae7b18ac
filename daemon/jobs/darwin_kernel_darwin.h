// The kernel of the Mac that this runs on.
//
// Threading: from any thread.
#ifndef STAGELOAD_DAEMON_JOBS_DARWIN_KERNEL_DARWIN_H_
#define STAGELOAD_DAEMON_JOBS_DARWIN_KERNEL_DARWIN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "daemon/jobs/darwin_kernel.h"

namespace stageload::jobs {

// For all calls but those about ends, which this fails with EBADF.
DarwinKernel& PlainDarwinKernel();

// With a queue of its own for Attach() and what belongs to it.
absl::StatusOr<std::unique_ptr<DarwinKernel>> NewDarwinKernel();

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_DARWIN_KERNEL_DARWIN_H_
