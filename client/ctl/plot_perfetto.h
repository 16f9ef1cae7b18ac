// Recorded runs as a trace viewer reads them (ui.perfetto.dev, chrome://tracing): the JSON of
// Chrome's Trace Event Format. Each run is a process with counters, stages, loads and marks.
//
// Threading: a pure function.
#ifndef STAGELOAD_CLIENT_CTL_PLOT_PERFETTO_H_
#define STAGELOAD_CLIENT_CTL_PLOT_PERFETTO_H_

#include <string>
#include <vector>

#include "base/trace.h"

namespace stageload::ctl {

std::string PerfettoJson(const std::vector<Trace>& traces);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PLOT_PERFETTO_H_
