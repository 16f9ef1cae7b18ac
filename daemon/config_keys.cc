#include "daemon/config_keys.h"

#include <cstdint>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "daemon/engine/busy_programs.h"

namespace stageload {
namespace {

using Text = std::optional<std::string>;
using Read = std::function<absl::Status(const toml::node&, DaemonConfig&)>;
using Show = std::function<Text(const DaemonConfig&)>;

constexpr std::size_t kMaxBusyPatterns = 32;  // as of a request
constexpr std::size_t kMaxWord = 256;

// ---- Values as they are written in the file ----

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      absl::StrAppend(&quoted, "\\u00", absl::Hex(byte, absl::kZeroPad2));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

// Exactly, in the largest unit that gives a whole number.
std::string SizeText(Bytes size) {
  for (const auto& [unit, letter] : {std::pair(GiB(1), "G"), std::pair(MiB(1), "M")}) {
    if (size > Bytes(0) && size.count() % unit.count() == 0) {
      return Quoted(absl::StrCat(size.count() / unit.count(), letter));
    }
  }
  return absl::StrCat(size.count());
}

std::string DurationText(absl::Duration duration) {
  for (const auto& [unit, name] :
       {std::pair(absl::Hours(24), "d"), std::pair(absl::Hours(1), "h"),
        std::pair(absl::Minutes(1), "m"), std::pair(absl::Seconds(1), "s"),
        std::pair(absl::Milliseconds(1), "ms")}) {
    absl::Duration rest;
    const std::int64_t count = absl::IDivDuration(duration, unit, &rest);
    if (count > 0 && rest == absl::ZeroDuration()) return Quoted(absl::StrCat(count, name));
  }
  return Quoted(absl::StrCat(absl::ToDoubleSeconds(duration), "s"));
}

// ---- One reader and one shower a kind of value; `field` finds it in a config ----

absl::StatusOr<Bytes> SizeOf(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return ParseBytes(*text);
  const auto count = node.value_exact<std::int64_t>();
  if (count && *count >= 0) return Bytes(*count);
  return absl::InvalidArgumentError("needs a size such as \"8G\" or a number of bytes");
}

template <typename Field>  // Bytes, or optional
Read ReadSize(Field field) {
  return [field](const toml::node& node, DaemonConfig& config) {
    const absl::StatusOr<Bytes> size = SizeOf(node);
    if (size.ok()) field(config) = *size;
    return size.status();
  };
}

constexpr char kNone[] = "none";  // as of the options

bool IsNone(const toml::node& node) { return node.value_exact<std::string>() == kNone; }

// A size that may also be absent; where zero would mean that nothing starts, it has to be above it.
template <typename Field>
Read ReadOptionalSize(Field field, Bytes least = Bytes(0)) {
  return [=](const toml::node& node, DaemonConfig& config) -> absl::Status {
    if (IsNone(node)) {
      field(config).reset();
      return absl::OkStatus();
    }
    const absl::StatusOr<Bytes> size = SizeOf(node);
    if (!size.ok() && node.is_string()) return size.status();
    if (!size.ok() || *size < least) {
      return absl::InvalidArgumentError(absl::StrCat("needs a size such as \"8G\"",
                                                     least > Bytes(0) ? " above 0" : "",
                                                     " or a number of bytes, or \"none\""));
    }
    field(config) = *size;
    return absl::OkStatus();
  };
}
Text ShowSize(std::optional<Bytes> size) { return size ? Text(SizeText(*size)) : std::nullopt; }

absl::StatusOr<absl::Duration> DurationOf(const toml::node& node, const char* example) {
  const auto text = node.value_exact<std::string>();
  if (text) return ParseDuration(*text);
  return absl::InvalidArgumentError(absl::StrCat("needs a duration such as \"", example, "\""));
}

template <typename Field>  // Duration, or optional
Read ReadDuration(const char* example, Field field, absl::Duration least = absl::ZeroDuration()) {
  return [=](const toml::node& node, DaemonConfig& config) -> absl::Status {
    const absl::StatusOr<absl::Duration> duration = DurationOf(node, example);
    if (!duration.ok()) return duration.status();
    if (*duration < least) {
      return absl::InvalidArgumentError(absl::StrCat("must be at least ", DurationText(least)));
    }
    field(config) = *duration;
    return absl::OkStatus();
  };
}
Text ShowDuration(std::optional<absl::Duration> duration) {
  return duration ? Text(DurationText(*duration)) : std::nullopt;
}

// A time to wait that may also have no end.
template <typename Field>
Read ReadTimeout(const char* example, Field field, absl::Duration least = absl::ZeroDuration()) {
  return [=](const toml::node& node, DaemonConfig& config) -> absl::Status {
    if (IsNone(node)) {
      field(config).reset();
      return absl::OkStatus();
    }
    const absl::StatusOr<absl::Duration> duration = DurationOf(node, example);
    if (!duration.ok() && node.is_string()) return duration.status();
    if (!duration.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs a duration such as \"", example, "\", or \"none\""));
    }
    if (*duration < least) {
      return absl::InvalidArgumentError(
          absl::StrCat("must be at least ", DurationText(least), ", or \"none\""));
    }
    field(config) = *duration;
    return absl::OkStatus();
  };
}
Text ShowTimeout(std::optional<absl::Duration> duration) {
  return duration ? DurationText(*duration) : "\"none\"";
}

template <typename Field>
Read ReadCount(int low, int high, Field field) {
  return [=](const toml::node& node, DaemonConfig& config) -> absl::Status {
    const auto count = node.value_exact<std::int64_t>();
    if (!count || *count < low || *count > high) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs a whole number from ", low, " to ", high));
    }
    field(config) = static_cast<int>(*count);
    return absl::OkStatus();
  };
}

// A number in a range, kept as `scale` times of it.
template <typename Field>
Read ReadNumber(double low, double high, double scale, Field field) {
  return [=](const toml::node& node, DaemonConfig& config) -> absl::Status {
    const auto number = node.value<double>();
    // Written so that a NaN is refused too.
    if (!node.is_number() || !number || !(*number >= low && *number <= high)) {
      return absl::InvalidArgumentError(absl::StrCat("needs a number from ", low, " to ", high));
    }
    field(config) = *number * scale;
    return absl::OkStatus();
  };
}

// NaN for what is none.
double PercentOf(const toml::node& node) {
  constexpr double kNoPercent = std::numeric_limits<double>::quiet_NaN();
  if (node.is_number()) return node.value_or(kNoPercent);
  const absl::StatusOr<Percent> read = ParsePercent(node.value_or(std::string()));
  return read.ok() ? read->value : kNoPercent;
}

// The same of percents, which may be written as the options take them.
template <typename Field>
Read ReadPercent(double low, double high, double scale, Field field) {
  return [=](const toml::node& node, DaemonConfig& config) -> absl::Status {
    const double percent = PercentOf(node);
    if (!(percent >= low && percent <= high)) {  // also a NaN
      return absl::InvalidArgumentError(
          absl::StrCat("needs a number from ", low, " to ", high, ", such as 15 or \"15%\""));
    }
    field(config) = percent * scale;
    return absl::OkStatus();
  };
}

// One of a few words.
template <typename Value>
Read ReadWord(std::vector<std::pair<std::string, Value>> words, Value& (*field)(DaemonConfig&)) {
  return [=](const toml::node& node, DaemonConfig& config) -> absl::Status {
    const std::string text = node.value_exact<std::string>().value_or("");
    std::string known;
    for (const auto& [word, value] : words) {
      if (word == text) {
        field(config) = value;
        return absl::OkStatus();
      }
      absl::StrAppend(&known, known.empty() ? "" : " or ", Quoted(word));
    }
    return absl::InvalidArgumentError(absl::StrCat("needs ", known));
  };
}

// ---- Those of a kind of their own ----

absl::Status ReadOnEnd(const toml::node& node, DaemonConfig& config) {
  const auto text = node.value_exact<std::string>();
  if (!text || text->empty() || text->find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        "needs a command for /bin/sh, such as \"echo $STAGELOAD_JOB_ID >>~/ended\"");
  }
  config.on_end = *text;
  return absl::OkStatus();
}

absl::Status ReadGroupLimits(const toml::node& node, DaemonConfig& config) {
  constexpr char kNeeds[] = "needs a table of groups and how many of each may run, such as gpu = 1";
  const toml::table* table = node.as_table();
  if (table == nullptr) return absl::InvalidArgumentError(kNeeds);
  for (const auto& [group, value] : *table) {
    const std::string name(group.str());
    const auto limit = [&name](DaemonConfig& of) -> int& { return of.core.group_limits[name]; };
    if (!ReadCount(1, 100'000, limit)(value, config).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(kNeeds, "; ", name, " has something else"));
    }
  }
  return absl::OkStatus();
}

Text ShowGroupLimits(const DaemonConfig& config) {
  if (config.core.group_limits.empty()) return std::nullopt;
  std::string text;
  for (const auto& [group, limit] : config.core.group_limits) {
    absl::StrAppend(&text, text.empty() ? "{ " : ", ", Quoted(group), " = ", limit);
  }
  return text + " }";
}

absl::Status ReadMemory(const toml::node& node, DaemonConfig& config) {
  core::Policy& policy = config.defaults.policy;
  policy.memory_auto = node.value_exact<std::string>() == "auto";
  if (policy.memory_auto || IsNone(node)) return absl::OkStatus();
  const absl::StatusOr<Bytes> size = SizeOf(node);
  if (size.ok()) policy.memory = *size;
  return size.ok() || node.is_string()
             ? size.status()
             : absl::InvalidArgumentError("needs a size such as \"8G\", or \"auto\" or \"none\"");
}

Text ShowMemory(const DaemonConfig& config) {
  return config.defaults.policy.memory_auto ? "\"auto\"" : ShowSize(config.defaults.policy.memory);
}

absl::Status ReadBusy(const toml::node& node, DaemonConfig& config) {
  constexpr char kNeeds[] = "needs a list of regular expressions, such as [\"[o]llama runner\"]";
  if (IsNone(node)) return absl::OkStatus();
  const toml::array* patterns = node.as_array();
  if (patterns == nullptr) return absl::InvalidArgumentError(kNeeds);
  if (patterns->size() > kMaxBusyPatterns) {
    return absl::InvalidArgumentError(
        absl::StrCat(patterns->size(), " patterns, the limit is ", kMaxBusyPatterns));
  }
  for (const toml::node& each : *patterns) {
    const auto pattern = each.value_exact<std::string>();
    if (!pattern || pattern->empty() || pattern->size() > kMaxWord) {
      return absl::InvalidArgumentError(kNeeds);
    }
    if (absl::Status status = engine::CheckBusyPattern(*pattern); !status.ok()) return status;
    config.defaults.policy.busy.push_back(*pattern);
  }
  return absl::OkStatus();
}

Text ShowBusy(const DaemonConfig& config) {
  if (config.defaults.policy.busy.empty()) return std::nullopt;
  std::string text;
  for (const std::string& pattern : config.defaults.policy.busy) {
    absl::StrAppend(&text, text.empty() ? "[" : ", ", Quoted(pattern));
  }
  return text + "]";
}

// ---- The list ----

core::Policy& Terms(DaemonConfig& config) { return config.defaults.policy; }
const core::Policy& Terms(const DaemonConfig& config) { return config.defaults.policy; }

std::vector<ConfigKey> MachineKeys() {
  using C = DaemonConfig;
  return {
      {"memory_pool", "No more than this is declared by all running jobs together.", "\"32G\"",
       ReadOptionalSize(
           [](C & c) -> auto& { return c.core.memory_pool; }, Bytes(1)),
       [](const C& c) { return ShowSize(c.core.memory_pool); }},
      {"reserve_percent", "Of all memory, kept free beside what is declared.", "",
       ReadPercent(
           0, 90, 0.01, [](C & c) -> auto& { return c.core.reserve_fraction; }),
       [](const C& c) { return absl::StrCat(c.core.reserve_fraction * 100); }},
      {"reserve", "The same as an amount; counts instead of reserve_percent.", "\"4G\"",
       ReadOptionalSize([](C & c) -> auto& { return c.core.reserve; }),
       [](const C& c) { return ShowSize(c.core.reserve); }},
      {"max_pressure", "Nothing is started at this memory pressure or above: warn or critical.", "",
       ReadWord<core::Pressure>(
           {{"warn", core::Pressure::kWarn}, {"critical", core::Pressure::kCritical}},
           [](C & c) -> auto& { return c.core.max_pressure; }),
       [](const C& c) {
         return Quoted(c.core.max_pressure == core::Pressure::kWarn ? "warn" : "critical");
       }},
      {"settle", "After a start that declares no memory, nothing else is started for so long.", "",
       ReadDuration(
           "15s", [](C & c) -> auto& { return c.core.settle; }),
       [](const C& c) { return ShowDuration(c.core.settle); }},
      {"group_limits", "How many of a --group run at once; a group that is not named has no limit.",
       "{ gpu = 1 }", ReadGroupLimits, ShowGroupLimits},
      {"max_bypass", "How often jobs that fit may pass one that waits for memory.", "",
       ReadCount(
           0, 1000, [](C & c) -> auto& { return c.core.max_bypass; }),
       [](const C& c) { return absl::StrCat(c.core.max_bypass); }},
      {"max_queued", "How many jobs may wait.", "",
       ReadCount(
           1, 100'000, [](C & c) -> auto& { return c.core.max_queued; }),
       [](const C& c) { return absl::StrCat(c.core.max_queued); }},
      {"max_sessions", "How many programs may be registered at once.", "",
       ReadCount(
           1, 1000, [](C & c) -> auto& { return c.core.max_sessions; }),
       [](const C& c) { return absl::StrCat(c.core.max_sessions); }},
      // A job would be gone before its `wait` could ask for it.
      {"keep_history", "How long ended jobs, their logs and the events are kept.", "",
       ReadDuration(
           "30d", [](C & c) -> auto& { return c.keep_history; }, absl::Minutes(1)),
       [](const C& c) { return ShowDuration(c.keep_history); }},
      {"on_end", "Run by /bin/sh in / when a job has ended, with STAGELOAD_JOB_STATE and more.",
       "\"say done\"", ReadOnEnd,
       [](const C& c) { return c.on_end.empty() ? Text() : Quoted(c.on_end); }},
      {"anonymous_credit",
       "The share of other programs' memory that counts as free, since it can be compressed.", "",
       ReadNumber(
           0, 1, 1, [](C & c) -> auto& { return c.core.anonymous_credit; }),
       [](const C& c) { return absl::StrCat(c.core.anonymous_credit); }},
  };
}

std::vector<ConfigKey> DefaultsForMemory() {
  using C = DaemonConfig;
  return {
      {"defaults.wait_free", "Start only with so much percent of memory available (--wait-free).",
       "",
       ReadPercent(
           0, 100, 1, [](C & c) -> auto& { return Terms(c).wait_free.value; }),
       [](const C& c) { return absl::StrCat(Terms(c).wait_free.value); }},
      {"defaults.swap_budget", "Stop a job when it has added more swap than this (--swap-budget).",
       "", ReadSize([](C & c) -> auto& { return Terms(c).swap_budget; }),
       [](const C& c) { return ShowSize(Terms(c).swap_budget); }},
      {"defaults.swap_limit", "Stop it while the machine uses more swap than this (--swap-limit).",
       "\"20G\"", ReadOptionalSize([](C & c) -> auto& { return Terms(c).swap_limit; }),
       [](const C& c) { return ShowSize(Terms(c).swap_limit); }},
      {"defaults.kill_free",
       "It may be stopped when less percent of memory than this is available (--kill-free).", "",
       ReadPercent(
           0, 100, 1, [](C & c) -> auto& { return Terms(c).kill_free.value; }),
       [](const C& c) { return absl::StrCat(Terms(c).kill_free.value); }},
      {"defaults.memory",
       "The most that it will take, or auto for what its profile's runs have needed (--memory).",
       "\"auto\"", ReadMemory, ShowMemory},
      {"defaults.charge", "What counts as swap that it added: system or own (--charge).", "",
       ReadWord<core::ChargeMode>(
           {{"system", core::ChargeMode::kSystem}, {"own", core::ChargeMode::kOwn}},
           [](C & c) -> auto& { return Terms(c).charge_mode; }),
       [](const C& c) {
         return Quoted(Terms(c).charge_mode == core::ChargeMode::kOwn ? "own" : "system");
       }},
      {"defaults.on_over_budget",
       "What happens to it over its budget: stop, suspend or warn (--on-over-budget).", "",
       ReadWord<core::OverBudget>(
           {{"stop", core::OverBudget::kStop},
            {"suspend", core::OverBudget::kSuspend},
            {"warn", core::OverBudget::kWarn}},
           [](C & c) -> auto& { return Terms(c).on_over_budget; }),
       [](const C& c) {
         const core::OverBudget action = Terms(c).on_over_budget;
         return Quoted(action == core::OverBudget::kStop      ? "stop"
                       : action == core::OverBudget::kSuspend ? "suspend"
                                                              : "warn");
       }},
  };
}

std::vector<ConfigKey> DefaultsForTime() {
  using C = DaemonConfig;
  return {
      {"defaults.busy", "Start only while no other program matches one of these (--busy).",
       "[\"[o]llama runner\"]", ReadBusy, ShowBusy},
      {"defaults.quiet_for", "And so long after the last that did (--quiet-for).", "",
       ReadDuration(
           "1m", [](C & c) -> auto& { return Terms(c).quiet_for; }),
       [](const C& c) { return ShowDuration(Terms(c).quiet_for); }},
      {"defaults.start_timeout",
       "Give a job up that could not start for so long, or none (--start-timeout).", "",
       ReadTimeout(
           "8h", [](C & c) -> auto& { return Terms(c).start_timeout; }),
       [](const C& c) { return ShowTimeout(Terms(c).start_timeout); }},
      {"defaults.guard_start_timeout", "The same of a guarded command.", "",
       ReadTimeout(
           "30m", [](C & c) -> auto& { return c.defaults.guard_start_timeout; }),
       [](const C& c) { return ShowTimeout(c.defaults.guard_start_timeout); }},
      // Zero could be meant as "no limit" and would end every job at its start.
      {"defaults.time", "Stop it after running for so long, or none (--time).", "\"12h\"",
       ReadTimeout(
           "12h", [](C & c) -> auto& { return Terms(c).time_limit; }, absl::Seconds(1)),
       [](const C& c) { return ShowDuration(Terms(c).time_limit); }},
      {"defaults.grace", "From SIGTERM to SIGKILL (--grace).", "",
       ReadDuration(
           "5s", [](C & c) -> auto& { return Terms(c).grace; }),
       [](const C& c) { return ShowDuration(Terms(c).grace); }},
      {"defaults.priority", "Higher goes first (--priority).", "",
       ReadCount(
           -1000, 1000, [](C & c) -> auto& { return Terms(c).priority; }),
       [](const C& c) { return absl::StrCat(Terms(c).priority); }},
  };
}

std::vector<ConfigKey> LogKeys() {
  using C = DaemonConfig;
  return {
      {"log.level", "trace, debug, info, warn or error (stageloadd --log-level).", "",
       [](const toml::node& node, C& config) {
         const auto level = ParseLogLevel(node.value_exact<std::string>().value_or(""));
         if (level.ok()) config.log.level = *level;
         return level.status();
       },
       [](const C& c) { return Quoted(Name(c.log.level)); }},
      {"log.format", "text, or json for one object a line (stageloadd --log-json).", "",
       ReadWord<bool>(
           {{"text", false}, {"json", true}}, [](C & c) -> auto& { return c.log.json; }),
       [](const C& c) { return Quoted(c.log.json ? "json" : "text"); }},
      {"log.file_size", "A new file is begun at this size.", "",
       [](const toml::node& node, C& config) -> absl::Status {
         const absl::StatusOr<Bytes> size = SizeOf(node);
         if (!size.ok()) return size.status();
         if (*size < MiB(1) || *size > GiB(1)) {
           return absl::InvalidArgumentError("needs a size from \"1M\" to \"1G\"");
         }
         config.log.file_size = *size;
         return absl::OkStatus();
       },
       [](const C& c) { return ShowSize(c.log.file_size); }, true},
      {"log.files", "How many files are kept.", "",
       ReadCount(
           1, 100, [](C & c) -> auto& { return c.log.files; }),
       [](const C& c) { return absl::StrCat(c.log.files); }, true},
  };
}

}  // namespace

const std::vector<ConfigKey>& ConfigKeys() {
  static const auto* keys = [] {
    auto* all = new std::vector<ConfigKey>;
    for (const auto& part : {MachineKeys(), DefaultsForMemory(), DefaultsForTime(), LogKeys()}) {
      all->insert(all->end(), part.begin(), part.end());
    }
    return all;
  }();
  return *keys;
}

}  // namespace stageload
