// What passes by itself and holds up admissions meanwhile: memory of a client that ended and has
// not come back yet, and swap that is growing right now.
//
// Threading: one owner; no I/O, no clock. Times are Instant::awake.
#ifndef STAGELOAD_DAEMON_CORE_RECOVERY_H_
#define STAGELOAD_DAEMON_CORE_RECOVERY_H_

#include <deque>
#include <optional>

#include "absl/time/time.h"
#include "base/units.h"
#include "daemon/core/ids.h"

namespace stageload::core {

// Memory on its way back. A GPU driver or a dying process can take seconds to give it up, and what
// starts into the gap is counted against memory that is not there.
struct Recovering {
  JobId id{};            // who ended last
  Bytes held;            // what is to come back, of all that ended
  Bytes back;            // of it, so far
  absl::Duration until;  // at the latest, if nothing more comes back
};

class Recovery {
 public:
  // A client ended that held `held`, of which the newest sample said that so much was available.
  void Ended(absl::Duration now, JobId id, Bytes held, std::optional<Bytes> available);
  // Over when nine tenths came back; else 4 s after the end, or later while available still rises,
  // but never more than 30 s.
  void Observe(absl::Duration now, std::optional<Bytes> available);
  std::optional<Recovering> At(absl::Duration now) const;

 private:
  struct State {
    Recovering seen;
    std::optional<Bytes> base;    // available before the first of them ended
    std::optional<Bytes> newest;  // available
    absl::Duration ended;         // the last of them
  };
  std::optional<State> state_;
};

// By how much swap grew over the last 5 s.
class SwapWindow {
 public:
  void Observe(absl::Duration now, std::optional<Bytes> swap_used);
  void Clear() { readings_.clear(); }  // over a gap
  Bytes growth() const;

  static constexpr absl::Duration kLength = absl::Seconds(5);

 private:
  struct Reading {
    absl::Duration at;
    Bytes swap_used;
  };
  std::deque<Reading> readings_;
};

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_RECOVERY_H_
