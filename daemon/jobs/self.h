// This process as others will know it.
//
// Threading: pure calls into the kernel.
#ifndef STAGELOAD_DAEMON_JOBS_SELF_H_
#define STAGELOAD_DAEMON_JOBS_SELF_H_

#include <string>

#include "absl/status/statusor.h"
#include "daemon/core/process.h"

namespace stageload::jobs {

struct Self {
  core::ProcessIdentity identity;
  std::string boot_id;  // different after each boot; "-" when the platform cannot tell
};

absl::StatusOr<Self> ReadSelf();

// From now on orphaned descendants become children of this process, where the platform can do that.
void AdoptOrphans();

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_SELF_H_
