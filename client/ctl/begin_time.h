// The moment that --begin or --since names, from how people write one.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_BEGIN_TIME_H_
#define STAGELOAD_CLIENT_CTL_BEGIN_TIME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stageload::ctl {

// "2026-12-01T22:00", "2026-12-01 22:00:00" and "2026-12-01" (its first moment) in `zone`, or in
// the zone that is written behind ("Z", "+02:00"); "22:00" is the next such time after `now`;
// "now",
// "+30m" and "now+30m" count from `now`. InvalidArgument names the text, what is wrong with it and
// a right one; so does a moment that has passed.
absl::StatusOr<absl::Time> ParseBeginTime(const std::string& text, absl::Time now,
                                          absl::TimeZone zone);
// The same of moments with a date, which must have passed.
absl::StatusOr<absl::Time> ParsePastTime(const std::string& text, absl::Time now,
                                         absl::TimeZone zone);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_BEGIN_TIME_H_
