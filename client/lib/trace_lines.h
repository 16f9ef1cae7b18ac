// What the daemon tells of a process, as the lines of a trace (base/trace.h).
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_LIB_TRACE_LINES_H_
#define STAGELOAD_CLIENT_LIB_TRACE_LINES_H_

#include "absl/time/time.h"
#include "base/trace.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::client {

// `begin` is when the recording began, on the awake clock.
TraceSample TraceLine(const v1::ProcessSample& sample, absl::Duration begin);
// A mark as the program said it, and what was done to it as a note. Without its `t`.
TraceEvent TraceLine(const v1::Event& event);

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_TRACE_LINES_H_
