// Times over which nothing may be concluded: the machine slept, or nobody looked.
//
// Threading: pure functions.
#ifndef STAGELOAD_DAEMON_CORE_GAP_H_
#define STAGELOAD_DAEMON_CORE_GAP_H_

#include "base/instant.h"

namespace stageload::core {

// More than 2 s passed that the machine was not awake. Hibernation itself writes pages to swap.
bool Slept(const Instant& before, const Instant& now);

// It slept, or nobody looked for more than a minute: no rate is computed from one to the other and
// no swap is charged.
bool IsGap(const Instant& before, const Instant& now);

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_GAP_H_
