// One reason why a request waits, with the value read and the value needed.
//
// Threading: plain values.
#ifndef STAGELOAD_DAEMON_CORE_BLOCKER_H_
#define STAGELOAD_DAEMON_CORE_BLOCKER_H_

#include <optional>
#include <string>

#include "absl/time/time.h"

namespace stageload::core {

// The numbers are stored: only append.
enum class BlockerKind {
  // What the machine lacks. `read` and `needed` are:
  kLevel,      // percent available
  kPressure,   // a Pressure
  kSwapLimit,  // bytes of swap: used and promised; the limit
  kMemory,     // bytes: free after reservations; declared
  // What passes by itself.
  kStale,       // seconds of age of the newest sample; the oldest that is fresh
  kWaking,      // seconds since the machine woke; how many it needs
  kSwapping,    // bytes by which swap grew over the last 5 s; how much may be
  kSettling,    // seconds since a start without a declaration; how many it needs
  kRecovering,  // bytes that came back since a client ended; how many it held
  // The request's own.
  kBusy,             // seconds of quiet; how many it needs
  kGroup,            // clients of its group that run; the limit
  kDependency,       // jobs that have not completed; 0
  kDependencyNever,  // the id of the job that failed or is gone; 0
  kHeld,             // 1; 0
  kNotBefore,        // seconds since the epoch: now; its begin
  // The daemon's.
  kDraining,   // 1; 0
  kOrder,      // its own id; the id of the one that goes first
  kQueueHeld,  // 1; 0
  kReturning,  // seconds for which programs of the daemon before are still waited for; 0
};
const char* Name(BlockerKind kind);  // "MEMORY"

// `text` is one line for people: "needs 13.3 GiB, 9.1 GiB free after 16.3 GiB reserved by job 7".
struct Blocker {
  BlockerKind kind = BlockerKind::kLevel;
  double read = 0;
  double needed = 0;
  std::string text;
  // At the latest, where that can be told.
  std::optional<absl::Duration> ends_in = std::nullopt;
};

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_BLOCKER_H_
