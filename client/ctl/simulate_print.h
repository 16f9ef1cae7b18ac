// Replays as people and programs read them.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_SIMULATE_PRINT_H_
#define STAGELOAD_CLIENT_CTL_SIMULATE_PRINT_H_

#include <string>
#include <vector>

#include "base/trace.h"
#include "client/ctl/json.h"
#include "client/ctl/print.h"
#include "client/ctl/replay.h"
#include "daemon/core/policy.h"

namespace stageload::ctl {

// One trace under one policy.
struct SimulatedRun {
  const Trace* trace = nullptr;
  std::string swept;  // the value of the option that is swept; empty without a sweep
  core::Policy policy;
  Replay replay;
};

// One of "traces"; docs/simulate.md has the fields.
Json ToJson(const SimulatedRun& run);

// Every decision with its figures.
Table DecisionTable(const Replay& replay);
// "Stopped. From then on swap went 1.58 GiB past the budget of 8 GiB."
std::string Conclusion(const SimulatedRun& run);

// A line a run; `option` names what is swept, or is empty.
Table RunTable(const std::vector<SimulatedRun>& runs, const std::string& option);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_SIMULATE_PRINT_H_
