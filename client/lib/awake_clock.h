// The clock that stands still while the machine sleeps, as the daemon's `awake_ns`
// (base/instant.h).
//
// Threading: any thread.
#ifndef STAGELOAD_CLIENT_LIB_AWAKE_CLOCK_H_
#define STAGELOAD_CLIENT_LIB_AWAKE_CLOCK_H_

#include <time.h>

#include "absl/time/time.h"

namespace stageload::client {

// Since boot.
inline absl::Duration AwakeNow() {
  timespec now{};
#ifdef __APPLE__
  clock_gettime(CLOCK_UPTIME_RAW, &now);
#else
  clock_gettime(CLOCK_MONOTONIC, &now);
#endif
  return absl::DurationFromTimespec(now);
}

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_AWAKE_CLOCK_H_
