// A frame as it goes over the wire, made once and shared by everybody who gets it.
//
// Threading: plain values; shared as const.
#ifndef STAGELOAD_DAEMON_TELEMETRY_PUBLISHED_H_
#define STAGELOAD_DAEMON_TELEMETRY_PUBLISHED_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace stageload::telemetry {

// What an encoder makes of a frame.
struct Encoded {
  std::string bytes;
  // So many at the front are the wire form of its events alone, for whoever is not sent the rest.
  std::size_t events_size = 0;
};

struct Published {
  std::int64_t sequence = 0;
  absl::Duration awake;  // Instant::awake of the sample
  Encoded wire;
  std::int64_t events_before = 0;  // the last frame before this one that had events; 0 is none
};

}  // namespace stageload::telemetry

#endif  // STAGELOAD_DAEMON_TELEMETRY_PUBLISHED_H_
