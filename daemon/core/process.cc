#include "daemon/core/process.h"

#include "daemon/core/fault.h"

namespace stageload::core {

bool IsStill(const ProcessIdentity& meant, const ProcessIdentity& found) {
  if (IsOn(Fault::kIdentityUnchecked)) return meant.pid == found.pid;
  return meant == found;
}

}  // namespace stageload::core
