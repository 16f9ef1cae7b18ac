// Subscribes to the daemon's telemetry.
//
//   stageload::Watch watch({}, [](const stageload::Frame& frame) { ... });
//
// Threading: one thread of the library makes all callbacks, one after another, and reads nothing
// meanwhile: one that is too slow for the daemon's pace gets what the connection holds (64 KiB and
// more, minutes of small frames; Frame::time tells), then misses frames and is told how many
// (Frame::dropped). An exception that leaves a callback ends the process. Whoever destroys a Watch
// waits for the callback that runs, so no callback may destroy it. fork: as with Session.
#ifndef STAGELOAD_WATCH_H_
#define STAGELOAD_WATCH_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "stageload/error.h"
#include "stageload/telemetry.h"

namespace stageload {

namespace client {
class WatchCore;
}

struct WatchOptions {
  // Begins with the frames after this one that the daemon still keeps: 0 is all of them, an hour at
  // most. Absent: only new ones.
  std::optional<std::int64_t> since_sequence;
  // At least this long between two frames. Events of frames left out come with the next one.
  std::chrono::nanoseconds min_interval{0};
  // As in SessionOptions.
  std::string socket;
  bool autostart = true;
  // The daemon went away, with one line that says how. The next one is looked for, and all of its
  // frames are given.
  std::function<void(const std::string&)> on_lost;
  // The daemon refused (TOO_MANY_SUBSCRIBERS...): no frame comes any more.
  std::function<void(const Error&)> on_end;
};

class Watch {
 public:
  // Blocks until a daemon has answered, as Session's constructor does, with the same errors;
  // NoDaemon when none does. It reads the environment.
  Watch(WatchOptions options, std::function<void(const Frame&)> on_frame);
  // No callback runs after it.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  std::shared_ptr<client::WatchCore> core_;
};

}  // namespace stageload

#endif  // STAGELOAD_WATCH_H_
