// Sums and extremes over one recording.
#include "client/ctl/trace_summary.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

namespace stageload::ctl {
namespace {

constexpr char kBeforeTheFirst[] = "setup";
// What a stage lets go of when it is entered begins to go at once, but for what is done on the way.
constexpr double kIdleBeforeReleases = 1;
// Where nothing says how long a release took, as in recordings of stageload 0.1: 14 GB took 5 s on
// a Mac that was short of memory.
constexpr double kLongestUntimedReleases = 10;

bool IsLoad(const TraceEvent& event) { return event.kind == "load" || event.kind == "reload"; }

template <typename Value>
void Raise(std::optional<Value>& highest, const std::optional<Value>& value) {
  if (value && (!highest || *value > *highest)) highest = value;
}

// When the own work of the stage that `event` begins does: until what it lets go of at once is
// released, the memory is still that of the stage before. What it releases later is its own.
double BeginOf(std::vector<TraceEvent>::const_iterator event, const std::vector<TraceEvent>& all) {
  const double entered = event->t;
  double begin = entered;
  double idle = 0;
  while (++event != all.end() && event->kind == "release") {
    if (event->seconds) idle += std::max(event->t - *event->seconds - begin, 0.0);
    const bool untimed_late = !event->seconds && event->t - entered > kLongestUntimedReleases;
    if (idle > kIdleBeforeReleases || untimed_late) break;
    begin = event->t;
  }
  return begin;
}

// The stages without their peaks. An event may come before the first sample and after the last; the
// stage that the run is in already does not begin anew.
std::vector<TraceStage> Bands(const Trace& trace) {
  const double begin = std::min(0.0, trace.samples.front().t);
  std::vector<TraceStage> stages;
  for (auto event = trace.events.begin(); event != trace.events.end(); ++event) {
    if (event->kind != "stage") continue;
    const double at = std::max(begin, BeginOf(event, trace.events));
    if (stages.empty() && at > begin) stages.push_back({kBeforeTheFirst, begin, begin, {}});
    if (!stages.empty() && stages.back().name == event->stage) continue;
    stages.push_back({event->stage, at, at, {}});
  }
  if (stages.empty()) stages.push_back({kBeforeTheFirst, begin, begin, {}});
  for (std::size_t i = 0; i + 1 < stages.size(); ++i) stages[i].end = stages[i + 1].begin;
  stages.back().end = std::max(stages.back().begin, trace.samples.back().t);
  return stages;
}

TraceLoads Sum(const std::vector<TraceEvent>& events, bool (*counts)(const TraceEvent&)) {
  TraceLoads sum;
  for (const TraceEvent& event : events) {
    if (!counts(event)) continue;
    ++sum.count;
    sum.bytes += event.nbytes.value_or(Bytes());
    sum.seconds += event.seconds.value_or(0);
  }
  return sum;
}

std::optional<TraceSwap> SwapOf(const std::vector<TraceSample>& samples) {
  std::optional<TraceSwap> swap;
  for (const TraceSample& sample : samples) {
    if (!sample.swap_used) continue;
    if (!swap) swap = TraceSwap{*sample.swap_used, *sample.swap_used, {}};
    swap->peak = std::max(swap->peak, *sample.swap_used);
    swap->end = *sample.swap_used;
  }
  return swap;
}

// Over the samples that have both.
std::optional<Bytes> TruePeakOf(const std::vector<TraceSample>& samples) {
  const TraceSample* first = nullptr;
  std::optional<Bytes> peak;
  for (const TraceSample& sample : samples) {
    if (!sample.available || !sample.swap_used) continue;
    if (first == nullptr) first = &sample;
    const Bytes fall = *first->available - *sample.available;
    const Bytes growth = *sample.swap_used - *first->swap_used;
    Raise(peak, std::optional(fall + growth));
  }
  return peak;
}

double ToMillisecond(double seconds) { return std::round(seconds * 1000) / 1000; }

template <typename Value, typename Print>
Json OrNull(const std::optional<Value>& value, Print print) {
  return value ? Json(print(*value)) : Json();
}
Json Size(const std::optional<Bytes>& size) {
  return OrNull(size, [](Bytes bytes) { return bytes.count(); });
}

// A whole number without a point, as it stands in traces.
Json Level(Percent level) {
  if (level.value == std::floor(level.value)) return static_cast<std::int64_t>(level.value);
  return level.value;
}

// The start line without its type; what it says first stands first.
Json Meta(const std::optional<TraceStart>& start) {
  Json meta = Json::object();
  if (!start) return meta;
  if (!start->utc.empty()) meta["utc"] = start->utc;
  if (start->interval_seconds) meta["interval"] = *start->interval_seconds;
  if (start->rest.empty()) return meta;
  const Json rest = Json::parse(start->rest);
  for (const auto& field : rest.items()) {
    if (field.key() != "type") meta[field.key()] = field.value();
  }
  return meta;
}

}  // namespace

std::vector<TraceStage> StagesOf(const Trace& trace) {
  std::vector<TraceStage> stages = Bands(trace);
  const double last = trace.samples.back().t;
  auto stage = stages.begin();
  for (const TraceSample& sample : trace.samples) {
    // The last sample belongs to the stage that it ends.
    while (std::next(stage) != stages.end() && sample.t >= stage->end &&
           !(sample.t == last && stage->end == last)) {
      ++stage;
    }
    if (sample.t >= stage->begin) Raise(stage->peak_footprint, sample.footprint);
    // And to those that begin with it.
    for (auto next = std::next(stage); next != stages.end() && sample.t == next->end; ++next) {
      Raise(next->peak_footprint, sample.footprint);
    }
  }
  return stages;
}

TraceSummary Summarise(const Trace& trace) {
  TraceSummary summary;
  summary.duration = trace.samples.back().t - trace.samples.front().t;
  summary.samples = trace.samples.size();
  summary.ended = trace.ended;
  for (const TraceSample& sample : trace.samples) {
    Raise(summary.peak_footprint, sample.footprint);
    if (!sample.level) continue;
    summary.min_level = std::min(summary.min_level.value_or(*sample.level), *sample.level);
  }
  summary.swap = SwapOf(trace.samples);
  summary.true_peak = TruePeakOf(trace.samples);
  summary.stages = StagesOf(trace);
  summary.loads = Sum(trace.events, IsLoad);
  summary.releases =
      Sum(trace.events, [](const TraceEvent& event) { return event.kind == "release"; });
  std::set<std::string> outside;
  for (const TraceEvent& event : trace.events) {
    if (IsLoad(event) && event.note == "outside_stage") outside.insert(event.name);
  }
  summary.outside_stage.assign(outside.begin(), outside.end());
  return summary;
}

Json SummaryJson(const Trace& trace, const TraceSummary& summary) {
  Json swap = Json::object();
  if (summary.swap) {
    swap = Json{{"start", summary.swap->start.count()},
                {"peak", summary.swap->peak.count()},
                {"end", summary.swap->end.count()}};
  }
  Json stages = Json::array();
  for (const TraceStage& stage : summary.stages) {
    stages.push_back(Json{{"stage", stage.name},
                          {"seconds", ToMillisecond(stage.end - stage.begin)},
                          {"peak_footprint", Size(stage.peak_footprint)}});
  }
  Json errors = Json::array();
  for (const TraceError& error : trace.errors) {
    errors.push_back(Json{{"t", error.t}, {"error", error.error}});
  }
  Json json{{"meta", Meta(trace.start)},
            {"duration", ToMillisecond(summary.duration)},
            {"peak_footprint", Size(summary.peak_footprint)},
            {"swap", std::move(swap)},
            {"min_level", OrNull(summary.min_level, Level)},
            {"stages", std::move(stages)},
            {"loads", Json{{"count", summary.loads.count},
                           {"bytes", summary.loads.bytes.count()},
                           {"seconds", ToMillisecond(summary.loads.seconds)}}},
            {"releases",
             Json{{"count", summary.releases.count}, {"bytes", summary.releases.bytes.count()}}},
            {"outside_stage", summary.outside_stage},
            {"errors", std::move(errors)}};
  if (summary.swap) {
    json["swap_growth"] = (summary.swap->peak - summary.swap->start).count();
  }
  if (summary.true_peak) json["true_peak"] = summary.true_peak->count();
  json["samples"] = summary.samples;
  json["ended"] = summary.ended;
  json["notes"] = trace.notes;
  json["trace"] = trace.path;
  return json;
}

}  // namespace stageload::ctl
