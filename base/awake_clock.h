// The clock that stands still while the machine sleeps: Instant::awake of base/instant.h, the
// daemon's `awake_ns`. For timeouts; libc++'s steady_clock runs through sleep on macOS and not on
// Linux.
//
// Threading: any thread.
#ifndef STAGELOAD_BASE_AWAKE_CLOCK_H_
#define STAGELOAD_BASE_AWAKE_CLOCK_H_

#include <time.h>

#include "absl/time/time.h"

namespace stageload {

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

}  // namespace stageload

#endif  // STAGELOAD_BASE_AWAKE_CLOCK_H_
