// What the daemon tells of a process, as the lines of a trace (base/trace.h).
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_LIB_TRACE_LINES_H_
#define STAGELOAD_CLIENT_LIB_TRACE_LINES_H_

#include <string>

#include "absl/time/time.h"
#include "base/trace.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::client {

// `begin` is when the recording began, on the awake clock.
TraceSample TraceLine(const v1::ProcessSample& sample, absl::Duration begin);
// A mark as the program said it, and what was done to it as a note. Without its `t`.
TraceEvent TraceLine(const v1::Event& event);
// Whether so long from one sample to the next is more than a late one; as readers have it.
bool IsGap(double seconds, absl::Duration interval);
// Why, where the daemon went on by itself: it had been stopped, or was swapped out.
inline constexpr char kNotSampled[] = "the daemon did not sample";
// What stands at the last sample before a time of which there are none.
std::string GapNote(absl::Duration gap, const std::string& why);
// When that was, in seconds since `begin`. An event has the wall clock only, and that may be set
// meanwhile: so it is counted from the sample that it came with, and kept between that and the one
// before, which was at `last_t`.
double TimeOf(const v1::Event& event, const v1::ProcessSample& sample, absl::Duration begin,
              double last_t);

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_TRACE_LINES_H_
