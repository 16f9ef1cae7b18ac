// `doctor`: whether the counters that the daemon goes by can be read and make sense, judged from
// two probes (`stageloadd --probe`, daemon/host/probe.h) a moment apart.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_DOCTOR_COUNTERS_H_
#define STAGELOAD_CLIENT_CTL_DOCTOR_COUNTERS_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/units.h"
#include "client/ctl/doctor_finding.h"
#include "client/ctl/doctor_machine.h"
#include "client/ctl/json.h"

namespace stageload::ctl {

// A number in a probe, by the names on the way to it; nothing when it is not there or is none.
std::optional<double> NumberIn(const Json& probe, const char* object, const char* field);
std::optional<Bytes> BytesIn(const Json& probe, const char* object, const char* field);

// Level, memory, pressure, compressed and wired, paging, processes. `second` was taken after
// `first`, and is what is shown.
Findings CheckCounters(const Json& first, const Json& second, const Machine& machine);

// That no clock goes back, that the machine's sleep accounts for what lies between them, and that
// the wall clock is not before the day on which this program was built.
Finding CheckClocks(const Json& first, const Json& second, absl::Time built);

// Whether the daemon's newest frame says of the machine what a probe right after it says.
struct Snapshot {
  std::optional<double> level;
  std::optional<Bytes> total;
  absl::Duration age;
};
Finding CheckSnapshot(const Snapshot& snapshot, const Json& probe);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_DOCTOR_COUNTERS_H_
