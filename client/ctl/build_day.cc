#include "client/ctl/build_day.h"

namespace stageload::ctl {

std::string BuildDay() { return STAGELOAD_BUILD_DAY; }

absl::Time BuildTime() {
  absl::Time day;
  std::string error;
  if (!absl::ParseTime("%Y-%m-%d", BuildDay(), &day, &error)) return absl::InfinitePast();
  return day - absl::Hours(14);
}

}  // namespace stageload::ctl
