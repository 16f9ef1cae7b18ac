// One moment, read from three clocks at once. Laptops sleep: a rule must say whether it means time
// that passed or time that the machine was awake, so no bare clock is ever handed around.
//
// Threading: plain value.
#ifndef STAGELOAD_BASE_INSTANT_H_
#define STAGELOAD_BASE_INSTANT_H_

#include "absl/time/time.h"

namespace stageload {

struct Instant {
  // Since boot, stopped while the machine sleeps: timeouts, grace times, rates.
  // Linux CLOCK_MONOTONIC; macOS CLOCK_UPTIME_RAW (xnu: mach_absolute_time).
  absl::Duration awake;
  // Since boot, running through sleep: tells a sleep from a stall.
  // Linux CLOCK_BOOTTIME; macOS CLOCK_MONOTONIC_RAW (xnu: mach_continuous_time).
  absl::Duration continuous;
  // The wall clock, for people only: it can be set back.
  absl::Time wall;

  friend bool operator==(const Instant&, const Instant&) = default;
};

}  // namespace stageload

#endif  // STAGELOAD_BASE_INSTANT_H_
