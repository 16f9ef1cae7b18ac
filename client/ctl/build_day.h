// The day on which this program was built, or its SOURCE_DATE_EPOCH: a clock that is before it is
// wrong.
//
// Threading: a pure function.
#ifndef STAGELOAD_CLIENT_CTL_BUILD_DAY_H_
#define STAGELOAD_CLIENT_CTL_BUILD_DAY_H_

#include <string>

#include "absl/time/time.h"

namespace stageload::ctl {

std::string BuildDay();  // "2026-11-30"
// Its beginning wherever on earth it begins first.
absl::Time BuildTime();

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_BUILD_DAY_H_
