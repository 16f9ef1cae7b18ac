#include "client/ctl/doctor_counters.h"

#include <unistd.h>

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

constexpr char kHost[] = "host";
// In points of a hundred.
constexpr double kLevelFits = 2;
constexpr double kSnapshotFits = 5;
// Under this the daemon stops jobs, unless they say otherwise (kill_free).
constexpr double kLowLevel = 10;
// A program that has done nothing but this takes more than a page and less than this.
constexpr Bytes kSmallest = KiB(100);
constexpr Bytes kLargest = GiB(1);
// The daemon reads at least once a second (daemon/core/sampling.h) and admits nothing on what is
// older than three intervals.
constexpr absl::Duration kFresh = absl::Seconds(3);
// Rounding of ticks, between two clocks that were read one after the other.
constexpr absl::Duration kSameTime = absl::Milliseconds(1);
constexpr absl::Duration kWorthTelling = absl::Seconds(2);

std::string Points(double level) { return FormatPercent(Percent{level}); }

bool IsMac(const Machine& machine) { return machine.platform == Platform::kMacos; }

std::string TextIn(const Json& probe, const char* object, const char* field) {
  if (!probe.contains(object) || !probe[object].is_object()) return "";
  const auto found = probe[object].find(field);
  return found != probe[object].end() && found->is_string() ? found->get<std::string>() : "";
}

Finding CheckLevel(const Json& probe, const Machine& machine) {
  const auto level = NumberIn(probe, kHost, "level_percent");
  const auto available = BytesIn(probe, kHost, "available_bytes");
  const auto total = BytesIn(probe, kHost, "total_bytes");
  if (!level) {
    return Fail("level", "how much memory is available cannot be read: nothing is ever admitted",
                kTellUs);
  }
  if (!(*level >= 0 && *level <= 100)) {
    return Fail("level", absl::StrCat("it reads ", *level, ", which is no percentage"), kTellUs);
  }
  // Linux has no level of its own: it is worked out from the two.
  if (!IsMac(machine) && available && total && *total > Bytes(0)) {
    const double worked_out = 100 * available->AsDouble() / total->AsDouble();
    if (std::abs(worked_out - *level) > kLevelFits) {
      return Fail("level",
                  absl::StrCat("it reads ", Points(*level), ", but ", FormatBytes(*available),
                               " of ", FormatBytes(*total), " are ", Points(worked_out)),
                  kTellUs);
    }
  }
  const std::string text = absl::StrCat(Points(*level), " of memory available");
  if (*level >= kLowLevel) return Well("level", text);
  return Warn("level", absl::StrCat("low: ", text, "; jobs are stopped when it stays so"),
              "see `stageloadctl top` and end what is not needed");
}

Finding CheckMemory(const Json& probe, const Machine& machine) {
  const auto available = BytesIn(probe, kHost, "available_bytes");
  const auto total = BytesIn(probe, kHost, "total_bytes");
  if (!available || !total) {
    return Fail("memory",
                absl::StrCat(available ? "how much there is" : "what can be had without swapping",
                             " cannot be read"),
                kTellUs);
  }
  const std::string text =
      absl::StrCat(FormatBytes(*available), " of ", FormatBytes(*total), " available");
  if (*total <= Bytes(0) || *available < Bytes(0) || *available > *total) {
    return Fail("memory", absl::StrCat("it makes no sense: ", text), kTellUs);
  }
  if (machine.memory <= Bytes(0)) return Well("memory", text);
  const double share = total->AsDouble() / machine.memory.AsDouble();
  if (share > 1.01 || (IsMac(machine) && share < 0.99)) {
    return Fail("memory", absl::StrCat(text, ", but the machine has ", FormatBytes(machine.memory)),
                kTellUs);
  }
  return Well("memory", share > 0.99 ? text
                                     : absl::StrCat(text, "; a cgroup limits it, the machine has ",
                                                    FormatBytes(machine.memory)));
}

Finding CheckPressure(const Json& probe, const Machine& machine) {
  const std::string pressure = TextIn(probe, kHost, "pressure");
  if (pressure == "NORMAL") return Well("pressure", pressure);
  if (pressure == "WARN" || pressure == "CRITICAL") {
    return Warn("pressure", absl::StrCat(pressure, ": the kernel says that memory is short"),
                "see `stageloadctl top` and end what is not needed");
  }
  if (IsMac(machine)) return Fail("pressure", "it cannot be read", kTellUs);
  return Warn("pressure", "this kernel does not tell it: no job waits for it",
              "to have it, boot a kernel that has PSI with psi=1");
}

Finding CheckHeld(const Json& probe, const Machine& machine) {
  const auto compressed = BytesIn(probe, kHost, "compressed_bytes");
  const auto wired = BytesIn(probe, kHost, "wired_bytes");
  const auto total = BytesIn(probe, kHost, "total_bytes");
  std::string text;
  bool sane = true;
  for (const auto& [name, value] : {std::pair("compressed ", compressed), {"wired ", wired}}) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, value ? FormatBytes(*value) : "unknown");
    if (value && total) sane = sane && *value >= Bytes(0) && *value <= *total;
  }
  if (IsMac(machine)) {
    const auto internal = BytesIn(probe, kHost, "pageable_internal_bytes");
    absl::StrAppend(&text, ", anonymous ", internal ? FormatBytes(*internal) : "unknown");
    if (internal && total) sane = sane && *internal >= Bytes(0) && *internal <= *total;
    if (!compressed || !wired || !internal) {
      return Fail("compressed_wired", absl::StrCat("not all can be read: ", text), kTellUs);
    }
  }
  if (sane) return Well("compressed_wired", text);
  return Fail("compressed_wired", absl::StrCat(text, ": more than there is memory"), kTellUs);
}

Finding CheckPaging(const Json& first, const Json& second, const Machine& machine) {
  std::string text;
  for (const char* field : {"swapped_in_total_bytes", "swapped_out_total_bytes"}) {
    const auto before = BytesIn(first, kHost, field), after = BytesIn(second, kHost, field);
    if (!before || !after) {
      const std::string found = "how much was swapped since boot cannot be read";
      return IsMac(machine) ? Fail("paging", found, kTellUs) : Warn("paging", found, kTellUs);
    }
    if (*after < *before) {
      return Fail("paging",
                  absl::StrCat(field, " counts since boot and went back from ", before->count(),
                               " to ", after->count()),
                  kTellUs);
    }
    absl::StrAppend(&text, text.empty() ? "in " : ", out ", FormatBytes(*after));
  }
  return Well("paging", absl::StrCat(text, " since boot"));
}

Finding CheckProcesses(const Json& probe, const Machine& machine) {
  const double count = probe.contains("processes") && probe["processes"].is_number()
                           ? probe["processes"].get<double>()
                           : 0;
  if (count < 2) {
    return Fail("processes",
                "the list of processes cannot be read: no job's children would be known", kTellUs);
  }
  const auto footprint = BytesIn(probe, "self", "footprint_bytes");
  const auto swapped = BytesIn(probe, "self", "swapped_bytes");
  std::string text = absl::StrCat(static_cast<std::int64_t>(count), " listed; a probe's own ");
  if (!footprint) {
    return Fail("processes", absl::StrCat(text, "footprint cannot be read"), kTellUs);
  }
  absl::StrAppend(&text, "footprint ", FormatBytes(*footprint), ", swapped or compressed ",
                  swapped ? FormatBytes(*swapped) : "unknown");
  const auto uid = NumberIn(probe, "self", "uid");
  if (*footprint < kSmallest || *footprint > kLargest || uid != ::geteuid()) {
    return Fail("processes", absl::StrCat("it makes no sense: ", text), kTellUs);
  }
  if (!swapped && IsMac(machine)) {
    return Warn("processes",
                absl::StrCat(text, ": growth of swap is charged by footprints instead"), kTellUs);
  }
  if (!absl::StrContains(TextIn(probe, "self", "command_line"), "--probe")) {
    return Warn("processes",
                absl::StrCat(text, "; its command line cannot be read: no --busy works"), kTellUs);
  }
  return Well("processes", text);
}

Findings Errors(const Json& probe) {
  Findings findings;
  if (!probe.contains("errors") || !probe["errors"].is_object()) return findings;
  for (const auto& [what, why] : probe["errors"].items()) {
    findings.push_back(Fail(
        "probe", absl::StrCat(what, ": ", why.is_string() ? why.get<std::string>() : why.dump()),
        kTellUs));
  }
  return findings;
}

struct Clocks {
  absl::Duration awake, continuous;
  absl::Time wall;
};
std::optional<Clocks> ClocksIn(const Json& probe) {
  const auto read = [&](const char* field) -> std::optional<std::int64_t> {
    if (!NumberIn(probe, "clock", field)) return std::nullopt;
    return probe["clock"][field].get<std::int64_t>();
  };
  const auto awake = read("awake_ns"), continuous = read("continuous_ns"), wall = read("wall_ns");
  if (!awake || !continuous || !wall) return std::nullopt;
  return Clocks{absl::Nanoseconds(*awake), absl::Nanoseconds(*continuous),
                absl::FromUnixNanos(*wall)};
}

}  // namespace

std::optional<double> NumberIn(const Json& probe, const char* object, const char* field) {
  if (!probe.is_object() || !probe.contains(object)) return std::nullopt;
  const Json& in = probe[object];
  if (!in.is_object() || !in.contains(field) || !in[field].is_number()) return std::nullopt;
  return in[field].get<double>();
}

std::optional<Bytes> BytesIn(const Json& probe, const char* object, const char* field) {
  if (!NumberIn(probe, object, field)) return std::nullopt;
  return Bytes(probe[object][field].get<std::int64_t>());
}

Findings CheckCounters(const Json& first, const Json& second, const Machine& machine) {
  Findings findings = Errors(second);
  findings.push_back(CheckLevel(second, machine));
  findings.push_back(CheckMemory(second, machine));
  findings.push_back(CheckPressure(second, machine));
  findings.push_back(CheckHeld(second, machine));
  findings.push_back(CheckPaging(first, second, machine));
  findings.push_back(CheckProcesses(second, machine));
  return findings;
}

Finding CheckClocks(const Json& first, const Json& second, absl::Time built) {
  const auto before = ClocksIn(first), after = ClocksIn(second);
  if (!before || !after) return Fail("clocks", "they cannot be read", kTellUs);
  if (after->awake <= before->awake || after->continuous <= before->continuous) {
    return Fail("clocks",
                absl::StrCat("they do not go forward: uptime from ",
                             absl::ToInt64Nanoseconds(before->awake), " to ",
                             absl::ToInt64Nanoseconds(after->awake), " ns, with sleep from ",
                             absl::ToInt64Nanoseconds(before->continuous), " to ",
                             absl::ToInt64Nanoseconds(after->continuous), " ns"),
                kTellUs);
  }
  const absl::Duration asleep = after->continuous - after->awake;
  if (asleep < -kSameTime) {
    return Fail("clocks",
                absl::StrCat("the one that runs through sleep is ", FormatSpan(-asleep),
                             " behind the one that stops"),
                kTellUs);
  }
  if (after->wall < built) {
    return Fail(
        "clocks",
        absl::StrCat("the wall clock says ",
                     absl::FormatTime("%Y-%m-%d %H:%M UTC", after->wall, absl::UTCTimeZone()),
                     ", before this program was built"),
        "set the clock: --begin and all times that are shown go by it");
  }
  return Well(
      "clocks",
      absl::StrCat("up ", FormatSpan(after->continuous), ", asleep ",
                   asleep < kWorthTelling ? "never" : FormatSpan(asleep), "; wall clock ",
                   absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", after->wall, absl::UTCTimeZone())));
}

Finding CheckSnapshot(const Snapshot& snapshot, const Json& probe) {
  constexpr char kCheck[] = "daemon_reads";
  if (snapshot.age > kFresh) {
    return Fail(kCheck,
                absl::StrCat("the daemon's newest sample is ", FormatSpan(snapshot.age),
                             " old: it admits nothing"),
                "look into its log; `stageloadctl daemon restart` (jobs run on)");
  }
  const auto level = NumberIn(probe, kHost, "level_percent");
  const auto total = BytesIn(probe, kHost, "total_bytes");
  if (!snapshot.level || !level) {
    return Fail(kCheck, "the daemon tells no level", "look into its log, which says what failed");
  }
  const std::string text =
      absl::StrCat("level ", Points(*snapshot.level), ", and a probe ", Points(*level));
  if (snapshot.total && total && snapshot.total != total) {
    return Warn(kCheck,
                absl::StrCat("the daemon sees ", FormatBytes(*snapshot.total),
                             " of memory, and a "
                             "program that is started here ",
                             FormatBytes(*total), ": they are in cgroups of different limits"),
                "start the daemon where its jobs are to run, as by `stageloadctl daemon restart`");
  }
  if (std::abs(*snapshot.level - *level) <= kSnapshotFits) return Well(kCheck, text);
  return Fail(kCheck, absl::StrCat("the daemon's ", text, " over and over"),
              "`stageloadctl daemon restart` (jobs run on); if that does not help, report it with "
              "the output of `stageloadctl doctor --json`");
}

}  // namespace stageload::ctl
