#include "daemon/core/blocker.h"

namespace stageload::core {

const char* Name(BlockerKind kind) {
  switch (kind) {
    case BlockerKind::kLevel:
      return "LEVEL";
    case BlockerKind::kPressure:
      return "PRESSURE";
    case BlockerKind::kSwapLimit:
      return "SWAP_LIMIT";
    case BlockerKind::kMemory:
      return "MEMORY";
    case BlockerKind::kStale:
      return "STALE";
    case BlockerKind::kWaking:
      return "WAKING";
    case BlockerKind::kSwapping:
      return "SWAPPING";
    case BlockerKind::kSettling:
      return "SETTLING";
    case BlockerKind::kRecovering:
      return "RECOVERING";
    case BlockerKind::kBusy:
      return "BUSY";
    case BlockerKind::kGroup:
      return "GROUP";
    case BlockerKind::kDependency:
      return "DEPENDENCY";
    case BlockerKind::kDependencyNever:
      return "DEPENDENCY_NEVER";
    case BlockerKind::kHeld:
      return "HELD";
    case BlockerKind::kNotBefore:
      return "NOT_BEFORE";
    case BlockerKind::kDraining:
      return "DRAINING";
    case BlockerKind::kQueueHeld:
      return "QUEUE_HELD";
    case BlockerKind::kReturning:
      return "RETURNING";
    case BlockerKind::kOrder:
      return "ORDER";
  }
  return "?";
}

}  // namespace stageload::core
