#include "daemon/rpc/convert_fields.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "base/utf8.h"

namespace stageload::rpc {
namespace {

constexpr std::size_t kMaxWord = 256;

// The words of the API are one above those of the core, for the unspecified.
v1::ChargeMode ToProto(core::ChargeMode mode) {
  return static_cast<v1::ChargeMode>(static_cast<int>(mode) + 1);
}
static_assert(static_cast<int>(core::ChargeMode::kOwn) + 1 == v1::CHARGE_MODE_OWN);
v1::OverBudget ToProto(core::OverBudget action) {
  return static_cast<v1::OverBudget>(static_cast<int>(action) + 1);
}
static_assert(static_cast<int>(core::OverBudget::kWarn) + 1 == v1::OVER_BUDGET_WARN);

}  // namespace

v1::BlockerKind ToProto(core::BlockerKind kind) {
  switch (kind) {
    case core::BlockerKind::kLevel:
      return v1::BLOCKER_KIND_LEVEL;
    case core::BlockerKind::kPressure:
      return v1::BLOCKER_KIND_PRESSURE;
    case core::BlockerKind::kSwapLimit:
      return v1::BLOCKER_KIND_SWAP_LIMIT;
    case core::BlockerKind::kMemory:
      return v1::BLOCKER_KIND_MEMORY;
    case core::BlockerKind::kStale:
      return v1::BLOCKER_KIND_STALE;
    case core::BlockerKind::kWaking:
      return v1::BLOCKER_KIND_WAKING;
    case core::BlockerKind::kSwapping:
      return v1::BLOCKER_KIND_SWAPPING;
    case core::BlockerKind::kSettling:
      return v1::BLOCKER_KIND_SETTLING;
    case core::BlockerKind::kRecovering:
      return v1::BLOCKER_KIND_RECOVERING;
    case core::BlockerKind::kBusy:
      return v1::BLOCKER_KIND_BUSY;
    case core::BlockerKind::kGroup:
      return v1::BLOCKER_KIND_GROUP;
    case core::BlockerKind::kDependency:
      return v1::BLOCKER_KIND_DEPENDENCY;
    case core::BlockerKind::kDependencyNever:
      return v1::BLOCKER_KIND_DEPENDENCY_NEVER;
    case core::BlockerKind::kHeld:
      return v1::BLOCKER_KIND_HELD;
    case core::BlockerKind::kNotBefore:
      return v1::BLOCKER_KIND_NOT_BEFORE;
    case core::BlockerKind::kDraining:
      return v1::BLOCKER_KIND_DRAINING;
    case core::BlockerKind::kQueueHeld:
      return v1::BLOCKER_KIND_QUEUE_HELD;
    case core::BlockerKind::kReturning:
      return v1::BLOCKER_KIND_RETURNING;
    case core::BlockerKind::kOrder:
      return v1::BLOCKER_KIND_ORDER;
  }
  return v1::BLOCKER_KIND_UNSPECIFIED;
}

absl::Status Invalid(const char* field, const std::string& text) {
  return WithReason(absl::InvalidArgumentError(absl::StrCat(field, ": ", text)), kInvalidField,
                    field);
}

absl::Status CheckWord(const char* field, const std::string& word) {
  if (word.size() > kMaxWord) {
    return Invalid(field, absl::StrCat(word.size(), " bytes, the limit is ", kMaxWord));
  }
  const bool control = std::any_of(word.begin(), word.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  if (control) return Invalid(field, "holds a control character");
  return absl::OkStatus();
}

std::int64_t Nanoseconds(absl::Time time) { return absl::ToUnixNanos(time); }

v1::Pressure ToProto(core::Pressure pressure) {
  switch (pressure) {
    case core::Pressure::kNormal:
      return v1::PRESSURE_NORMAL;
    case core::Pressure::kWarn:
      return v1::PRESSURE_WARN;
    case core::Pressure::kCritical:
      return v1::PRESSURE_CRITICAL;
  }
  return v1::PRESSURE_UNSPECIFIED;
}

// The numbers of states, reasons and kinds are the same on both sides, or one above.
v1::JobState ToProto(core::JobState state) { return static_cast<v1::JobState>(state); }
static_assert(static_cast<int>(core::JobState::kPending) == v1::JOB_STATE_PENDING);
static_assert(static_cast<int>(core::JobState::kUnknown) == v1::JOB_STATE_UNKNOWN);
v1::Reason ToProto(core::Reason reason) { return static_cast<v1::Reason>(reason); }
static_assert(static_cast<int>(core::Reason::kSwapBudget) == v1::REASON_SWAP_BUDGET);
static_assert(static_cast<int>(core::Reason::kLost) == v1::REASON_LOST);
static_assert(static_cast<int>(core::Reason::kSuspendAsked) == v1::REASON_SUSPENDED);
v1::JobKind ToProto(core::JobKind kind) {
  return static_cast<v1::JobKind>(static_cast<int>(kind) + 1);
}
static_assert(static_cast<int>(core::JobKind::kSession) + 1 == v1::JOB_KIND_SESSION);

void FillBlocker(const core::Blocker& blocker, v1::Blocker& out) {
  out.set_kind(ToProto(blocker.kind));
  out.set_read(blocker.read);
  out.set_needed(blocker.needed);
  out.set_text(ToUtf8(blocker.text));
  if (blocker.ends_in) out.set_ends_in_ns(absl::ToInt64Nanoseconds(*blocker.ends_in));
}

void FillPolicy(const core::Policy& policy, v1::Policy& out) {
  out.set_wait_free_percent(policy.wait_free.value);
  out.set_swap_budget_bytes(policy.swap_budget.count());
  if (policy.swap_limit) out.set_swap_limit_bytes(policy.swap_limit->count());
  out.set_kill_free_percent(policy.kill_free.value);
  if (policy.memory) out.set_memory_bytes(policy.memory->count());
  out.set_priority(policy.priority);
  if (policy.start_timeout) {
    out.set_start_timeout_ns(absl::ToInt64Nanoseconds(*policy.start_timeout));
  }
  out.set_grace_ns(absl::ToInt64Nanoseconds(policy.grace));
  out.set_memory_auto(policy.memory_auto);
  if (policy.time_limit) out.set_time_limit_ns(absl::ToInt64Nanoseconds(*policy.time_limit));
  out.set_charge_mode(ToProto(policy.charge_mode));
  out.set_on_over_budget(ToProto(policy.on_over_budget));
  for (const std::string& pattern : policy.busy) out.add_busy_patterns(ToUtf8(pattern));
  if (!policy.busy.empty()) out.set_quiet_for_ns(absl::ToInt64Nanoseconds(policy.quiet_for));
}

void FillHost(const core::HostSample& host, v1::HostSample& out) {
  if (host.level) out.set_level_percent(host.level->value);
  if (host.total) out.set_total_bytes(host.total->count());
  if (host.available) out.set_available_bytes(host.available->count());
  if (host.swap_used) out.set_swap_used_bytes(host.swap_used->count());
  if (host.swap_total) out.set_swap_total_bytes(host.swap_total->count());
  if (host.pressure) out.set_pressure(ToProto(*host.pressure));
  if (host.compressed) out.set_compressed_bytes(host.compressed->count());
  if (host.wired) out.set_wired_bytes(host.wired->count());
  if (host.gpu_wired_limit) out.set_gpu_wired_limit_bytes(host.gpu_wired_limit->count());
  if (host.swapped_in_total) out.set_swapped_in_bytes(host.swapped_in_total->count());
  if (host.swapped_out_total) out.set_swapped_out_bytes(host.swapped_out_total->count());
}

}  // namespace stageload::rpc
