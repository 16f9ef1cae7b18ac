// A recording in figures: what `summary` prints, and what the stages of `plot` are.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_TRACE_SUMMARY_H_
#define STAGELOAD_CLIENT_CTL_TRACE_SUMMARY_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/trace.h"
#include "base/units.h"
#include "client/ctl/json.h"

namespace stageload::ctl {

struct TraceStage {
  std::string name;
  double begin = 0;  // seconds, as in the trace
  double end = 0;
  std::optional<Bytes> peak_footprint;  // of the samples in [begin, end)
};

// One after another, from the beginning to the last sample or stage; what comes before the first is
// "setup". One for the whole run where none was marked. A stage begins behind the releases that
// follow its event at once, and not anew when the run is in it already.
std::vector<TraceStage> StagesOf(const Trace& trace);

// Of "load" and "reload" events, or of "release" events.
struct TraceLoads {
  std::size_t count = 0;
  Bytes bytes;
  double seconds = 0;
};

struct TraceSwap {
  Bytes start;  // of the first sample that has it
  Bytes peak;
  Bytes end;
};

struct TraceSummary {
  double duration = 0;  // from the first sample to the last, in seconds
  std::size_t samples = 0;
  bool ended = false;
  // Absent where no sample has the value.
  std::optional<Bytes> peak_footprint;
  std::optional<TraceSwap> swap;
  std::optional<Percent> min_level;
  // The largest fall of available memory plus growth of swap since the first sample: what the run
  // took from the machine, also where no footprint shows it.
  std::optional<Bytes> true_peak;
  std::vector<TraceStage> stages;
  TraceLoads loads;
  TraceLoads releases;
  std::vector<std::string> outside_stage;  // names loaded with that note; sorted, each once
};

TraceSummary Summarise(const Trace& trace);

// The fields that the Python library's summary has, under its names, then ours. What is absent is
// null in the first and left out of the second.
Json SummaryJson(const Trace& trace, const TraceSummary& summary);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TRACE_SUMMARY_H_
