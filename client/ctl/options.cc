// Declares the admission options and reads them.
#include "client/ctl/options.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/closest_word.h"
#include "base/error_reason.h"
#include "base/text.h"

namespace stageload::ctl {
namespace {

constexpr char kAuto[] = "auto";
constexpr int kPriorityLimit = 1000;  // policy.proto

// Reads `text`, if there is one, with `parse` and hands the value to `store`.
template <typename Parse, typename Store>
absl::Status Read(const char* option, const std::optional<std::string>& text, Parse parse,
                  Store store) {
  if (!text) return absl::OkStatus();
  auto value = parse(*text);
  if (!value.ok()) return AboutOption(option, value.status());
  store(*value);
  return absl::OkStatus();
}

absl::StatusOr<int> ParsePriority(const std::string& text) {
  int priority = 0;
  if (!absl::SimpleAtoi(text, &priority) || priority < -kPriorityLimit ||
      priority > kPriorityLimit) {
    return absl::InvalidArgumentError(absl::StrCat("priority \"", text, "\": not a number from ",
                                                   -kPriorityLimit, " to ", kPriorityLimit));
  }
  return priority;
}

absl::StatusOr<v1::ChargeMode> ParseChargeMode(const std::string& text) {
  if (text == "system") return v1::CHARGE_MODE_SYSTEM;
  if (text == "own") return v1::CHARGE_MODE_OWN;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\": write system or own", DidYouMean(text, {"system", "own"})));
}

absl::StatusOr<v1::OverBudget> ParseOverBudget(const std::string& text) {
  if (text == "stop") return v1::OVER_BUDGET_STOP;
  if (text == "suspend") return v1::OVER_BUDGET_SUSPEND;
  if (text == "warn") return v1::OVER_BUDGET_WARN;
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": write stop, suspend or warn",
                                                 DidYouMean(text, {"stop", "suspend", "warn"})));
}

// Zero could be meant as "no limit" and would end the command at its start.
absl::StatusOr<absl::Duration> ParseTimeLimit(const std::string& text) {
  absl::StatusOr<absl::Duration> limit = ParseDuration(text);
  if (limit.ok() && *limit <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("duration \"", text, "\": must be above 0; leave it out for no limit"));
  }
  return limit;
}

absl::Status ReadSizes(const AdmissionOptions& options, v1::Policy& policy) {
  absl::Status status;
  status.Update(Read("--swap-budget", options.swap_budget, ParseBytes,
                     [&](Bytes size) { policy.set_swap_budget_bytes(size.count()); }));
  status.Update(Read("--swap-limit", options.swap_limit, ParseBytes,
                     [&](Bytes size) { policy.set_swap_limit_bytes(size.count()); }));
  if (options.memory == kAuto) {
    policy.set_memory_auto(true);
    return status;
  }
  status.Update(Read("--memory", options.memory, ParseBytes,
                     [&](Bytes size) { policy.set_memory_bytes(size.count()); }));
  return status;
}

absl::Status ReadTimes(const AdmissionOptions& options, v1::Policy& policy) {
  absl::Status status;
  const auto read = [&](const char* option, const std::optional<std::string>& text, auto parse,
                        void (v1::Policy::*set)(std::int64_t)) {
    status.Update(Read(option, text, parse, [&](absl::Duration time) {
      (policy.*set)(absl::ToInt64Nanoseconds(time));
    }));
  };
  read("--start-timeout", options.start_timeout, ParseDuration, &v1::Policy::set_start_timeout_ns);
  read("--grace", options.grace, ParseDuration, &v1::Policy::set_grace_ns);
  read("--time", options.time_limit, ParseTimeLimit, &v1::Policy::set_time_limit_ns);
  read("--quiet-for", options.quiet_for, ParseDuration, &v1::Policy::set_quiet_for_ns);
  return status;
}

// What makes no sense without another option. --quiet-for has company that we do not see: the
// patterns of the config.
absl::Status CheckCompany(const AdmissionOptions& options) {
  if (options.memory == kAuto && options.profile.empty() && options.name.empty()) {
    return absl::InvalidArgumentError(  // it would never declare anything
        "--memory auto: needs a --profile or a --name, under which what its runs have needed is "
        "remembered");
  }
  return absl::OkStatus();
}

}  // namespace

void AddPolicyOptions(CLI::App& command, AdmissionOptions& options,
                      const std::string& default_start_timeout) {
  // What a job has already is no default.
  const bool of_new = !default_start_timeout.empty();
  const auto add = [&](const char* name, auto& value, const char* type, const std::string& help,
                       const std::string& standard = "") {
    const std::string bracket =
        of_new && !standard.empty() ? absl::StrCat(" (", standard, ")") : std::string();
    return command.add_option(name, value, help + bracket)
        ->type_name(type)
        ->group(of_new ? kAdmissionHeading : "Admission");
  };
  add("--wait-free", options.wait_free, "PCT",
      "start only while at least this much memory is available", "40");
  add("--memory", options.memory, "SIZE|auto",
      "the peak that the command is expected to need; kept free for it once it is admitted. "
      "\"auto\": what runs of its profile have needed");
  add("--swap-budget", options.swap_budget, "SIZE",
      "stop it once the swap put down to it is over this", "8G");
  add("--swap-limit", options.swap_limit, "SIZE",
      "stop it while the whole machine's swap is over this", "none");
  add("--charge", options.charge, "system|own",
      "what counts against the swap budget: its share of the machine's growth, or only what its "
      "own swapped bytes account for",
      "system");
  add("--on-over-budget", options.on_over_budget, "stop|suspend|warn",
      "what to do once it is over its swap budget", "stop");
  add("--kill-free", options.kill_free, "PCT",
      "it may be stopped to save the machine while less memory than this is available", "10");
  add("--busy", options.busy, "REGEX",
      "wait while a program that stageload does not run matches this regular expression "
      "(as Python's) anywhere in its command line; may be repeated")
      ->allow_extra_args(false);
  add("--quiet-for", options.quiet_for, "DUR",
      "with --busy: wait for so long after the last that matched", "1m");
  add("--start-timeout", options.start_timeout, "DUR", "give up after waiting this long for room",
      default_start_timeout);
  add("--time", options.time_limit, "DUR",
      "stop it after running for so long, not counting time asleep or suspended", "no limit");
  add("--priority", options.priority, "N", "-1000 to 1000; higher goes first", "0");
  add("--grace", options.grace, "DUR", "from SIGTERM to SIGKILL when it is stopped", "5s");
}

void AddAdmissionOptions(CLI::App& command, AdmissionOptions& options,
                         const std::string& default_start_timeout) {
  AddPolicyOptions(command, options, default_start_timeout);
  const auto add = [&](const char* name, auto& value, const char* type, const std::string& help) {
    return command.add_option(name, value, help)->type_name(type)->group(kAdmissionHeading);
  };
  add("--after", options.after, "ID[,ID...]",
      "start once these jobs have completed; cancelled when one of them fails. May be repeated")
      ->allow_extra_args(false);
  add("--group", options.group, "NAME",
      "shares the limit that the config sets for this group (group_limits)");
  add("--profile", options.profile, "NAME",
      "remember under this name what the run needs, for --memory auto (the --name)");
  add("--name", options.name, "NAME", "what it is called in the queue (the command's name)");
}

absl::StatusOr<v1::Policy> ToPolicy(const AdmissionOptions& options) {
  absl::StatusOr<v1::Policy> policy = ToPolicyChange(options);
  if (!policy.ok()) return policy;
  if (absl::Status status = CheckCompany(options); !status.ok()) return status;
  return policy;
}

absl::StatusOr<v1::Policy> ToPolicyChange(const AdmissionOptions& options) {
  v1::Policy policy;
  absl::Status status = ReadSizes(options, policy);
  status.Update(Read("--wait-free", options.wait_free, ParsePercent,
                     [&](Percent level) { policy.set_wait_free_percent(level.value); }));
  status.Update(Read("--kill-free", options.kill_free, ParsePercent,
                     [&](Percent level) { policy.set_kill_free_percent(level.value); }));
  status.Update(ReadTimes(options, policy));
  status.Update(Read("--priority", options.priority, ParsePriority,
                     [&](int priority) { policy.set_priority(priority); }));
  status.Update(Read("--charge", options.charge, ParseChargeMode,
                     [&](v1::ChargeMode mode) { policy.set_charge_mode(mode); }));
  status.Update(Read("--on-over-budget", options.on_over_budget, ParseOverBudget,
                     [&](v1::OverBudget action) { policy.set_on_over_budget(action); }));
  for (const std::string& pattern : options.busy) policy.add_busy_patterns(pattern);
  if (!status.ok()) return status;
  return policy;
}

absl::StatusOr<v1::Terms> ToTerms(const AdmissionOptions& options) {
  v1::Terms terms;
  terms.set_group(options.group);
  terms.set_profile(options.profile);
  for (const std::string& list : options.after) {
    for (const std::string& text : std::vector<std::string>(absl::StrSplit(list, ','))) {
      const absl::StatusOr<std::int64_t> id = ParseJobId(text);
      if (!id.ok()) return AboutOption("--after", id.status());
      terms.add_after(*id);
    }
  }
  return terms;
}

std::vector<std::string> TakeNone(AdmissionOptions& options) {
  constexpr char kNone[] = "none";
  const std::pair<std::optional<std::string>*, const char*> clearable[] = {
      {&options.memory, "memory_bytes"},
      {&options.swap_limit, "swap_limit_bytes"},
      {&options.start_timeout, "start_timeout_ns"},
      {&options.time_limit, "time_limit_ns"}};
  std::vector<std::string> fields;
  for (const auto& [value, field] : clearable) {
    if (*value != kNone) continue;
    value->reset();
    fields.emplace_back(field);
  }
  if (options.busy == std::vector<std::string>{kNone}) {
    options.busy.clear();
    fields.emplace_back("busy_patterns");
  }
  return fields;
}

namespace {

// Of "policy.swap_limit_bytes"; false for a field of something else.
bool LeavesToDefault(const v1::Policy& asked, const std::string& field) {
  const auto* descriptor =
      asked.GetDescriptor()->FindFieldByName(std::string(absl::StripPrefix(field, "policy.")));
  return descriptor != nullptr && descriptor->has_presence() &&
         !asked.GetReflection()->HasField(asked, descriptor);
}

// "swap_limit of the config's [defaults]", of "--swap-limit".
std::string ConfigKeyOf(const std::string& option) {
  return absl::StrCat(absl::StrReplaceAll(absl::StripPrefix(option, "--"), {{"-", "_"}}),
                      " of the config's [defaults]");
}

}  // namespace

absl::Status AboutOption(const std::string& option, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(option, ": ", status.message()));
}

absl::Status NamingOptions(const absl::Status& status, const v1::Policy* asked) {
  static constexpr std::pair<const char*, const char*> kOptions[] = {
      {"after", "--after"},
      {"variables", "--env"},
      {"name", "--name"},
      {"policy.busy_patterns", "--busy"},
      {"policy.grace_ns", "--grace"},
      {"policy.kill_free_percent", "--kill-free"},
      {"policy.memory_bytes", "--memory"},
      {"policy.priority", "--priority"},
      {"policy.quiet_for_ns", "--quiet-for"},
      {"policy.start_timeout_ns", "--start-timeout"},
      {"policy.swap_budget_bytes", "--swap-budget"},
      {"policy.swap_limit_bytes", "--swap-limit"},
      {"policy.time_limit_ns", "--time"},
      {"policy.wait_free_percent", "--wait-free"},
      {"terms.after", "--after"},
      {"terms.group", "--group"},
      {"terms.profile", "--profile"},
  };
  const std::string field = FieldOf(status);
  std::string message(status.message());
  for (const auto& [name, option] : kOptions) {
    if (field != name || !message.starts_with(absl::StrCat(field, ": "))) continue;
    const bool of_config = asked != nullptr && LeavesToDefault(*asked, field);
    message.replace(0, field.size(), of_config ? ConfigKeyOf(option) : option);
    return WithReason(absl::Status(status.code(), message), ReasonOf(status), field);
  }
  return status;
}

absl::StatusOr<absl::Duration> DurationOption(const std::string& option, const std::string& text) {
  absl::StatusOr<absl::Duration> duration = ParseDuration(text);
  if (!duration.ok()) return AboutOption(option, duration.status());
  return duration;
}

absl::StatusOr<std::int64_t> ParseJobId(const std::string& text) {
  std::int64_t id = 0;
  if (!absl::SimpleAtoi(text, &id) || id < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("job id \"", text, "\": not a whole number from 1 up"));
  }
  return id;
}

absl::StatusOr<std::vector<std::int64_t>> ParseJobIds(const std::vector<std::string>& texts) {
  std::vector<std::int64_t> ids;
  for (const std::string& text : texts) {
    const absl::StatusOr<std::int64_t> id = ParseJobId(text);
    if (!id.ok()) return id.status();
    if (std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
  }
  return ids;
}

}  // namespace stageload::ctl
