// This process, and what it started, as others will know them.
//
// Threading: pure calls into the kernel.
#ifndef STAGELOAD_DAEMON_JOBS_SELF_H_
#define STAGELOAD_DAEMON_JOBS_SELF_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/core/process.h"

namespace stageload::jobs {

absl::StatusOr<core::ProcessIdentity> ReadSelf();

// Different after each boot; "-" when the platform cannot tell.
const std::string& BootId();

// Of a child of this process that has not been waited for, so that its pid is its own.
absl::StatusOr<core::ProcessIdentity> IdentityOfChild(std::int32_t pid);

// Those of this process that live, `most` at most.
std::vector<core::ProcessIdentity> LivingChildren(std::size_t most);

// From now on orphaned descendants become children of this process, where the platform can do that.
void AdoptOrphans();

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_SELF_H_
