#include "daemon/core/sample.h"

namespace stageload::core {

const char* Name(Pressure pressure) {
  switch (pressure) {
    case Pressure::kNormal:
      return "normal";
    case Pressure::kWarn:
      return "warn";
    case Pressure::kCritical:
      return "critical";
  }
  return "?";
}

}  // namespace stageload::core
