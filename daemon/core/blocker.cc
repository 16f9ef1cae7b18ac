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
    case BlockerKind::kOrder:
      return "ORDER";
  }
  return "?";
}

}  // namespace stageload::core
