// What an update has changed, in a line for people.
//
// Threading: a pure function.
#ifndef STAGELOAD_DAEMON_CORE_POLICY_CHANGE_H_
#define STAGELOAD_DAEMON_CORE_POLICY_CHANGE_H_

#include <string>

#include "daemon/core/policy.h"

namespace stageload::core {

// "wait free 40 % -> 25 %, time limit none -> 2h00m"; empty when they are equal.
std::string ChangesBetween(const Policy& before, const Policy& after);

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_POLICY_CHANGE_H_
