// One reason why a request waits, with the value read and the value needed.
//
// Threading: plain values.
#ifndef STAGELOAD_DAEMON_CORE_BLOCKER_H_
#define STAGELOAD_DAEMON_CORE_BLOCKER_H_

#include <string>

namespace stageload::core {

enum class BlockerKind { kLevel, kPressure, kSwapLimit, kMemory, kStale, kOrder };
const char* Name(BlockerKind kind);  // "MEMORY"

// `read` and `needed` are in the unit of the kind: percent for kLevel, a Pressure for kPressure,
// bytes for kSwapLimit and kMemory, seconds of age for kStale, a job id for kOrder. `text` is one
// line for people: "needs 13.3 GiB, 9.1 GiB free after 16.3 GiB reserved by job 7".
struct Blocker {
  BlockerKind kind = BlockerKind::kLevel;
  double read = 0;
  double needed = 0;
  std::string text;
};

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_BLOCKER_H_
