// One seed from beginning to end: a phase with faults, then one without in which all that can be
// done is done.
//
// Threading: each run is its own; runs may go on side by side.
#ifndef STAGELOAD_TESTS_SIM_DRIVER_H_
#define STAGELOAD_TESTS_SIM_DRIVER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/sim/disk.h"
#include "tests/sim/invariants.h"

namespace stageload::sim {

struct RunOptions {
  std::uint64_t seed = 1;
  absl::Duration length = absl::Seconds(60);  // of the phase with faults
  StoreTrip* trip = nullptr;                  // through which rows go at each restart; not owned
  bool record = false;                        // keeps the last lines
  std::function<void(const std::string&)> each_line;
};

struct RunResult {
  std::uint64_t hash = 0;
  std::optional<Violation> violation;
  absl::Duration at;  // World::time()
  Counters counters;
  std::vector<std::string> lines;  // the last ones, of a run that was recorded
};

RunResult Simulate(const RunOptions& options);

}  // namespace stageload::sim

#endif  // STAGELOAD_TESTS_SIM_DRIVER_H_
