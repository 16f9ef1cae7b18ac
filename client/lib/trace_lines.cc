#include "client/lib/trace_lines.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace stageload::client {

using Json = nlohmann::ordered_json;

TraceSample TraceLine(const v1::ProcessSample& sample, absl::Duration begin) {
  TraceSample line;
  const absl::Duration since = absl::Nanoseconds(sample.awake_ns()) - begin;
  line.t = std::max(absl::ToDoubleSeconds(since), 0.0);
  const v1::HostSample& host = sample.host();
  if (sample.has_footprint_bytes()) line.footprint = Bytes(sample.footprint_bytes());
  if (host.has_swap_used_bytes()) line.swap_used = Bytes(host.swap_used_bytes());
  if (host.has_level_percent()) line.level = Percent{host.level_percent()};
  if (host.has_available_bytes()) line.available = Bytes(host.available_bytes());
  Json rest = Json::object();
  if (sample.has_swapped_bytes()) rest["swapped"] = sample.swapped_bytes();
  rest["processes"] = sample.processes();
  if (sample.has_charge_bytes()) rest["charge"] = sample.charge_bytes();
  line.rest = rest.dump();
  return line;
}

TraceEvent TraceLine(const v1::Event& event) {
  TraceEvent line;
  if (event.has_mark()) {
    const v1::Mark& mark = event.mark();
    line.kind = std::string(mark.kind());
    line.stage = std::string(mark.stage());
    line.name = std::string(mark.name());
    line.note = std::string(mark.note());
    if (mark.has_nbytes()) line.nbytes = Bytes(mark.nbytes());
    if (mark.has_seconds()) line.seconds = mark.seconds();
    return line;
  }
  line.kind = "mark";
  line.note = std::string(event.text().empty() ? event.kind() : event.text());
  line.rest = Json{{"event", std::string(event.kind())}}.dump(-1, ' ', false,
                                                              Json::error_handler_t::replace);
  return line;
}

bool IsGap(double seconds, absl::Duration interval) {
  TraceStart start;
  start.interval_seconds = absl::ToDoubleSeconds(interval);
  Trace trace;
  trace.start = start;
  return seconds > LongestUsualGap(trace);
}

std::string GapNote(absl::Duration gap, const std::string& why) {
  return absl::StrCat("no samples for ", FormatSpan(gap), ": ", why);
}

double TimeOf(const v1::Event& event, const v1::ProcessSample& sample, absl::Duration begin,
              double last_t) {
  const double t = absl::ToDoubleSeconds(absl::Nanoseconds(sample.awake_ns()) - begin);
  const absl::Duration before = absl::Nanoseconds(sample.time_ns() - event.time_ns());
  return std::max(std::min(t - absl::ToDoubleSeconds(before), t), last_t);
}

}  // namespace stageload::client
