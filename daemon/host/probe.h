// One look at the machine as JSON: what the daemon would read here and now, for `stageloadd
// --probe`, for `stageloadctl doctor`, and for a machine that has nothing else of stageload yet.
//
// Threading: as Host.
#ifndef STAGELOAD_DAEMON_HOST_PROBE_H_
#define STAGELOAD_DAEMON_HOST_PROBE_H_

#include <string>

#include "daemon/host/host.h"

namespace stageload::host {

struct Probe {
  // One document, indented. What cannot be read is left out; what should be there on every machine
  // and cannot be read stands under "errors", by its name. The fields are in docs/doctor.md.
  std::string json;
  bool whole = false;  // there are no errors
};

// Reads the sample, the process table, and the process that calls.
Probe TakeProbe(Host& host);

}  // namespace stageload::host

#endif  // STAGELOAD_DAEMON_HOST_PROBE_H_
