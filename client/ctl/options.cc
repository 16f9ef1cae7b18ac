// Declares the admission options and reads them.
#include "client/ctl/options.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace stageload::ctl {
namespace {

constexpr char kAdmission[] = "Admission";
constexpr int kPriorityLimit = 1000;  // policy.proto

// The parser's status with the option in front; keeps its code.
absl::Status About(const std::string& option, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(option, ": ", status.message()));
}

// Reads `text`, if there is one, with `parse` and hands the value to `store`.
template <typename Parse, typename Store>
absl::Status Read(const char* option, const std::optional<std::string>& text, Parse parse,
                  Store store) {
  if (!text) return absl::OkStatus();
  auto value = parse(*text);
  if (!value.ok()) return About(option, value.status());
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

absl::Status ReadSizes(const AdmissionOptions& options, v1::Policy& policy) {
  absl::Status status;
  status.Update(Read("--swap-budget", options.swap_budget, ParseBytes,
                     [&](Bytes size) { policy.set_swap_budget_bytes(size.count()); }));
  status.Update(Read("--swap-limit", options.swap_limit, ParseBytes,
                     [&](Bytes size) { policy.set_swap_limit_bytes(size.count()); }));
  status.Update(Read("--memory", options.memory, ParseBytes,
                     [&](Bytes size) { policy.set_memory_bytes(size.count()); }));
  return status;
}

}  // namespace

void AddAdmissionOptions(CLI::App& command, AdmissionOptions& options,
                         const std::string& default_start_timeout) {
  const auto add = [&](const char* name, std::optional<std::string>& value, const char* type,
                       const std::string& help) {
    command.add_option(name, value, help)->type_name(type)->group(kAdmission);
  };
  add("--wait-free", options.wait_free, "PCT",
      "start only while at least this much memory is available (40)");
  add("--memory", options.memory, "SIZE",
      "the peak that the command is expected to need; kept free for it once it is admitted");
  add("--swap-budget", options.swap_budget, "SIZE",
      "stop it once the swap put down to it is over this (8G)");
  add("--swap-limit", options.swap_limit, "SIZE",
      "stop it while the whole machine's swap is over this (none)");
  add("--kill-free", options.kill_free, "PCT",
      "it may be stopped to save the machine while less memory than this is available (10)");
  add("--start-timeout", options.start_timeout, "DUR",
      absl::StrCat("give up after waiting this long for room (", default_start_timeout, ")"));
  add("--priority", options.priority, "N", "-1000 to 1000; higher goes first (0)");
  add("--grace", options.grace, "DUR", "from SIGTERM to SIGKILL when it is stopped (5s)");
  command.add_option("--name", options.name, "what it is called in the queue (the command's name)")
      ->type_name("NAME")
      ->group(kAdmission);
}

absl::StatusOr<v1::Policy> ToPolicy(const AdmissionOptions& options) {
  v1::Policy policy;
  absl::Status status = ReadSizes(options, policy);
  status.Update(Read("--wait-free", options.wait_free, ParsePercent,
                     [&](Percent level) { policy.set_wait_free_percent(level.value); }));
  status.Update(Read("--kill-free", options.kill_free, ParsePercent,
                     [&](Percent level) { policy.set_kill_free_percent(level.value); }));
  status.Update(Read(
      "--start-timeout", options.start_timeout, ParseDuration,
      [&](absl::Duration time) { policy.set_start_timeout_ns(absl::ToInt64Nanoseconds(time)); }));
  status.Update(Read("--grace", options.grace, ParseDuration, [&](absl::Duration time) {
    policy.set_grace_ns(absl::ToInt64Nanoseconds(time));
  }));
  status.Update(Read("--priority", options.priority, ParsePriority,
                     [&](int priority) { policy.set_priority(priority); }));
  if (!status.ok()) return status;
  return policy;
}

absl::StatusOr<absl::Duration> DurationOption(const std::string& option, const std::string& text) {
  absl::StatusOr<absl::Duration> duration = ParseDuration(text);
  if (!duration.ok()) return About(option, duration.status());
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
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace stageload::ctl
