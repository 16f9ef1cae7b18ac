// How often the machine is read: seldom when nothing can go wrong, often when it may within the
// second. Swap on a 48 GB Mac has been seen to grow by 2.8 GiB/s and the level to fall from 80 to 6
// in 4.5 s.
//
// Threading: a pure function.
#ifndef STAGELOAD_DAEMON_CORE_SAMPLING_H_
#define STAGELOAD_DAEMON_CORE_SAMPLING_H_

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "base/units.h"

namespace stageload::core {

struct SamplingInput {
  struct Client {
    Bytes charge;
    Bytes swap_budget;
    Percent kill_free;
  };
  std::vector<Client> clients;
  int waiting = 0;      // requests in the queue
  int subscribers = 0;  // of telemetry
  std::optional<Percent> level;
  Bytes swap_change;                                       // since the sample before; signed
  absl::Duration since_before = absl::InfiniteDuration();  // between the two
};

inline constexpr absl::Duration kFastInterval = absl::Milliseconds(50);
inline constexpr absl::Duration kInterval = absl::Milliseconds(500);
inline constexpr absl::Duration kIdleInterval = absl::Seconds(1);

absl::Duration SamplingInterval(const SamplingInput& input);

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_SAMPLING_H_
