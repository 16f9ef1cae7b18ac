#include "client/ctl/plot_perfetto.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "client/ctl/json.h"
#include "client/ctl/plot_picture.h"
#include "client/ctl/trace_name.h"
#include "client/ctl/trace_summary.h"

namespace stageload::ctl {
namespace {

constexpr int kStages = 1;  // threads of a run
constexpr int kLoads = 2;

// The format counts in microseconds, and viewers in unsigned ones.
std::int64_t Microseconds(double seconds) { return std::llround(std::max(seconds, 0.0) * 1e6); }

class Run {
 public:
  Run(Json& events, int pid) : events_(events), pid_(pid) {}

  void Add(const Trace& trace, const std::string& name) {
    Name("process_name", 0, name);
    Name("thread_name", kStages, "stages");
    Name("thread_name", kLoads, "loads");
    for (const TraceSample& sample : trace.samples) {
      if (sample.footprint) Count("footprint (bytes)", sample.t, sample.footprint->count());
      if (sample.swap_used) Count("swap used (bytes)", sample.t, sample.swap_used->count());
      if (sample.level) Count("level (%)", sample.t, sample.level->value);
    }
    for (const TraceStage& stage : StagesOf(trace)) {
      Slice(kStages, stage.name, stage.begin, stage.end);
    }
    for (const TraceEvent& event : trace.events) {
      if (event.kind == "stage") continue;
      if (event.seconds) {
        Slice(kLoads, MarkText(event), event.t - *event.seconds, event.t);
      } else {
        Instant(MarkText(event), event.t);
      }
    }
  }

 private:
  void Name(const char* what, int thread, const std::string& name) {
    events_.push_back(Json{{"ph", "M"},
                           {"pid", pid_},
                           {"tid", thread},
                           {"name", what},
                           {"args", Json{{"name", name}}}});
  }
  template <typename Value>
  void Count(const char* name, double t, Value value) {
    events_.push_back(Json{{"ph", "C"},
                           {"pid", pid_},
                           {"ts", Microseconds(t)},
                           {"name", name},
                           {"args", Json{{"value", value}}}});
  }
  void Slice(int thread, const std::string& name, double begin, double end) {
    events_.push_back(Json{{"ph", "X"},
                           {"pid", pid_},
                           {"tid", thread},
                           {"ts", Microseconds(begin)},
                           {"dur", Microseconds(end) - Microseconds(begin)},
                           {"name", name}});
  }
  void Instant(const std::string& name, double t) {
    events_.push_back(Json{{"ph", "i"},
                           {"s", "p"},
                           {"pid", pid_},
                           {"tid", kStages},
                           {"ts", Microseconds(t)},
                           {"name", name}});
  }

  Json& events_;
  int pid_;
};

}  // namespace

std::string PerfettoJson(const std::vector<Trace>& traces) {
  std::vector<std::string> paths;
  for (const Trace& trace : traces) paths.push_back(trace.path);
  const std::vector<std::string> names = TraceNames(paths);
  Json events = Json::array();
  for (std::size_t i = 0; i < traces.size(); ++i) {
    Run(events, static_cast<int>(i) + 1).Add(traces[i], names[i]);
  }
  return Line(Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}});
}

}  // namespace stageload::ctl
