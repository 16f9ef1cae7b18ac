// Puts frames into words.
#include "client/ctl/telemetry_text.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "client/ctl/json.h"
#include "client/ctl/outcome.h"

namespace stageload::ctl {
namespace {

constexpr std::size_t kKindColumns = 32;

std::string Size(std::int64_t bytes) { return FormatBytes(Bytes(bytes)); }

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  for (const std::string_view other : words) {
    if (word == other) return true;
  }
  return false;
}

std::string MarkText(const v1::Mark& mark) {
  std::vector<std::string> parts;
  for (const std::string& part :
       {std::string(mark.stage()), std::string(mark.name()), std::string(mark.note())}) {
    if (!part.empty()) parts.push_back(part);
  }
  if (mark.has_nbytes()) parts.push_back(Size(mark.nbytes()));
  if (mark.has_seconds()) parts.push_back(absl::StrCat(Number(mark.seconds()), " s"));
  return absl::StrJoin(parts, ", ");
}

}  // namespace

std::string DaemonText(const v1::GetVersionResponse& daemon, absl::Time now) {
  return absl::StrCat("stageloadd ", std::string(daemon.version()), ", pid ", daemon.pid(), ", up ",
                      FormatSpan(now - absl::FromUnixNanos(daemon.start_time_ns())));
}

std::string HostLine(const v1::HostSample& host) {
  std::vector<std::string> parts;
  if (host.has_level_percent()) {
    parts.push_back(absl::StrCat("level ", FormatPercent(Percent{host.level_percent()})));
  }
  if (host.has_available_bytes()) {
    parts.push_back(
        absl::StrCat(Size(host.available_bytes()),
                     host.has_total_bytes() ? absl::StrCat(" of ", Size(host.total_bytes())) : "",
                     " available"));
  }
  if (host.has_swap_used_bytes()) {
    parts.push_back(absl::StrCat(
        "swap ", Size(host.swap_used_bytes()),
        host.has_swap_total_bytes() ? absl::StrCat(" of ", Size(host.swap_total_bytes())) : ""));
  }
  if (host.has_pressure()) parts.push_back(absl::StrCat("pressure ", Word(host.pressure())));
  return absl::StrJoin(parts, ", ");
}

std::string GaugeText(const v1::Gauge& gauge) {
  const std::string name(gauge.name());
  const double value = gauge.value();
  // Not a size that there can be: the number as it came.
  const bool is_size = absl::EndsWith(name, "_bytes") && std::abs(value) < 9e18;
  if (is_size) return absl::StrCat(name, " ", Size(static_cast<std::int64_t>(value)));
  const char* unit = "";
  if (absl::EndsWith(name, "_percent")) unit = " %";
  if (absl::EndsWith(name, "_seconds")) unit = " s";
  return absl::StrCat(name, " ", Number(value), unit);
}

std::string LeaseText(const v1::LeaseSample& lease) {
  return absl::StrCat(std::string(lease.stage()), lease.stage().empty() ? "" : " ",
                      Size(lease.memory_bytes()), lease.forced() ? " (forced)" : "");
}

std::string LeasesAndGauges(const v1::ClientSample& client) {
  std::vector<std::string> parts;
  for (const v1::LeaseSample& lease : client.leases()) {
    parts.push_back(absl::StrCat("lease ", LeaseText(lease)));
  }
  for (const v1::Gauge& gauge : client.gauges()) parts.push_back(GaugeText(gauge));
  return absl::StrJoin(parts, ", ");
}

std::string WantsText(const v1::WaitingRequest& request) {
  std::string text = request.lease_id() == 0 ? "start" : "lease";
  if (!request.stage().empty()) absl::StrAppend(&text, " ", std::string(request.stage()));
  if (request.has_memory_bytes()) absl::StrAppend(&text, ", ", Size(request.memory_bytes()));
  return text;
}

std::vector<std::string> BlockerTexts(const v1::WaitingRequest& request) {
  std::vector<std::string> texts;
  for (const v1::Blocker& blocker : request.blockers()) texts.push_back(BlockerLine(blocker));
  if (texts.empty()) texts.emplace_back("-");
  return texts;
}

bool IsHeld(const v1::WaitingRequest& request) {
  for (const v1::Blocker& blocker : request.blockers()) {
    if (blocker.kind() == v1::BLOCKER_KIND_HELD) return true;
  }
  return false;
}

std::string EventText(const v1::Event& event) {
  return event.text().empty() ? MarkText(event.mark()) : std::string(event.text());
}

Colour ColourOf(const v1::Event& event) {
  const std::string kind(event.kind());
  if (IsOneOf(kind,
              {"stopping", "killed", "would_stop", "stuck", "store_failed", "store_damaged"})) {
    return Colour::kRed;
  }
  if (IsOneOf(kind, {"warned", "suspended", "refused", "gap", "queue_held", "lease_denied",
                     "implausible", "sample_failed", "shim_lost", "signal_refused", "start_delayed",
                     "result_delayed"})) {
    return Colour::kYellow;
  }
  if (IsOneOf(kind, {"admitted", "lease_granted", "registered", "resumed"})) return Colour::kGreen;
  return Colour::kNone;
}

Table EventTable(const std::vector<v1::Event>& events, absl::TimeZone zone, bool dates) {
  Table table({{.title = "TIME"},
               {.title = "EVENT", .limit = kKindColumns},
               {.title = "ID", .right = true},
               {.title = "TEXT", .wrap = true}});
  for (const v1::Event& event : events) {
    table.Add({absl::FormatTime(dates ? "%Y-%m-%d %H:%M:%S" : "%H:%M:%S",
                                absl::FromUnixNanos(event.time_ns()), zone),
               {std::string(event.kind()), ColourOf(event)},
               event.job_id() == 0 ? std::string() : absl::StrCat(event.job_id()),
               EventText(event)});
  }
  return table;
}

}  // namespace stageload::ctl
