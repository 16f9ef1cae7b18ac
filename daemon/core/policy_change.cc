#include "daemon/core/policy_change.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"

namespace stageload::core {
namespace {

std::string Text(Percent percent) { return FormatPercent(percent); }
std::string Text(Bytes size) { return FormatBytes(size); }
std::string Text(absl::Duration duration) { return FormatSpan(duration); }
std::string Text(int number) { return absl::StrCat(number); }
std::string Text(ChargeMode mode) { return mode == ChargeMode::kOwn ? "own" : "system"; }
std::string Text(OverBudget action) {
  return action == OverBudget::kStop ? "stop" : action == OverBudget::kSuspend ? "suspend" : "warn";
}
std::string Text(const std::vector<std::string>& words) {
  return words.empty() ? "none" : absl::StrJoin(words, " ");
}
template <typename T>
std::string Text(const std::optional<T>& value) {
  return value ? Text(*value) : "none";
}

std::string Memory(const Policy& policy) {
  if (policy.memory) return Text(*policy.memory);
  return policy.memory_auto ? "auto" : "none";
}

}  // namespace

std::string ChangesBetween(const Policy& before, const Policy& after) {
  std::vector<std::string> changes;
  const auto add = [&](const char* name, const std::string& old_text, const std::string& text) {
    if (old_text != text) changes.push_back(absl::StrCat(name, " ", old_text, " -> ", text));
  };
  add("priority", Text(before.priority), Text(after.priority));
  add("memory", Memory(before), Memory(after));
  add("wait free", Text(before.wait_free), Text(after.wait_free));
  add("swap budget", Text(before.swap_budget), Text(after.swap_budget));
  add("swap limit", Text(before.swap_limit), Text(after.swap_limit));
  add("kill free", Text(before.kill_free), Text(after.kill_free));
  add("charge", Text(before.charge_mode), Text(after.charge_mode));
  add("on over budget", Text(before.on_over_budget), Text(after.on_over_budget));
  add("start timeout", Text(before.start_timeout), Text(after.start_timeout));
  add("time limit", Text(before.time_limit), Text(after.time_limit));
  add("grace", Text(before.grace), Text(after.grace));
  add("busy", Text(before.busy), Text(after.busy));
  add("quiet for", Text(before.quiet_for), Text(after.quiet_for));
  return absl::StrJoin(changes, ", ");
}

}  // namespace stageload::core
