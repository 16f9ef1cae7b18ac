// One option of a policy over a range of values: "swap-budget=2G:12G:2G".
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_SIMULATE_SWEEP_H_
#define STAGELOAD_CLIENT_CTL_SIMULATE_SWEEP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/core/policy.h"

namespace stageload::ctl {

struct SweepStep {
  std::string value;  // for people: "4 GiB", "15 %"
  core::Policy policy;
};
struct Sweep {
  std::string option;  // "swap-budget"
  std::vector<SweepStep> steps;
};

// NAME=FROM:TO:STEP, both ends included, over `base`. InvalidArgument says what was given and shows
// a right one.
absl::StatusOr<Sweep> ParseSweep(const std::string& text, const core::Policy& base);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_SIMULATE_SWEEP_H_
