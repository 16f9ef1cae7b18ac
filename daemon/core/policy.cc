#include "daemon/core/policy.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "base/text.h"

namespace stageload::core {
namespace {

absl::Status Invalid(const char* field, const std::string& message) {
  return WithReason(absl::InvalidArgumentError(absl::StrCat(field, ": ", message)), kInvalidField,
                    field);
}

absl::Status ValidatePercent(const char* field, Percent percent) {
  // Written so that a NaN is refused too.
  if (percent.value >= 0 && percent.value <= 100) return absl::OkStatus();
  return Invalid(field, absl::StrCat(percent.value, " is not a percentage from 0 to 100"));
}

absl::Status ValidateSize(const char* field, Bytes size) {
  if (size >= Bytes(0)) return absl::OkStatus();
  return Invalid(field, absl::StrCat(size.count(), " bytes is negative"));
}

absl::Status ValidateDuration(const char* field, absl::Duration duration) {
  if (duration >= absl::ZeroDuration()) return absl::OkStatus();
  // With all of its digits: -5 ns is not "-0s".
  return Invalid(field, absl::StrCat(absl::FormatDuration(duration), " is negative"));
}

}  // namespace

Bytes DefaultSwapBudget(std::optional<Bytes> swap_limit, Bytes budget) {
  return swap_limit ? std::min(budget, std::max(Bytes(0), *swap_limit)) : budget;
}

absl::Status Validate(const Policy& policy) {
  const absl::Status checks[] = {
      ValidatePercent("policy.wait_free_percent", policy.wait_free),
      ValidateSize("policy.swap_budget_bytes", policy.swap_budget),
      ValidateSize("policy.swap_limit_bytes", policy.swap_limit.value_or(Bytes(0))),
      ValidatePercent("policy.kill_free_percent", policy.kill_free),
      ValidateSize("policy.memory_bytes", policy.memory.value_or(Bytes(0))),
      ValidateDuration("policy.start_timeout_ns",
                       policy.start_timeout.value_or(absl::ZeroDuration())),
      ValidateDuration("policy.grace_ns", policy.grace),
      ValidateDuration("policy.time_limit_ns", policy.time_limit.value_or(absl::ZeroDuration())),
      ValidateDuration("policy.quiet_for_ns", policy.quiet_for),
  };
  for (const absl::Status& check : checks) {
    if (!check.ok()) return check;
  }
  if (policy.priority < -1000 || policy.priority > 1000) {
    return Invalid("policy.priority", absl::StrCat(policy.priority, " is not from -1000 to 1000"));
  }
  return absl::OkStatus();
}

}  // namespace stageload::core
