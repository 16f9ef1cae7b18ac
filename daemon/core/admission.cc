#include "daemon/core/admission.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_reason.h"
#include "base/text.h"

namespace stageload::core {
namespace {

constexpr std::size_t kNamedClients = 5;  // in a blocker's text

const char* PressureName(Pressure pressure) {
  switch (pressure) {
    case Pressure::kNormal:
      return "normal";
    case Pressure::kWarn:
      return "warn";
    case Pressure::kCritical:
      return "critical";
  }
  return "?";
}

// "job 7", "jobs 3 and 7", "jobs 1, 2, 3, 4, 5 and 12 more".
std::string NameJobs(const std::vector<JobId>& ids) {
  if (ids.size() == 1) return absl::StrCat("job ", Value(ids[0]));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(ids.size(), kNamedClients); ++i) {
    names.push_back(absl::StrCat(Value(ids[i])));
  }
  std::string last = absl::StrCat(ids.size() - names.size(), " more");
  if (ids.size() <= kNamedClients) {
    last = names.back();
    names.pop_back();
  }
  return absl::StrCat("jobs ", absl::StrJoin(names, ", "), " and ", last);
}

// The sum of `part` over the active clients, and who has a part in it.
template <typename Part>
std::pair<Bytes, std::vector<JobId>> SumOf(const Room& room, Part part) {
  Bytes sum;
  std::vector<JobId> ids;
  for (const Reservation& active : room.active) {
    const Bytes bytes = part(active);
    if (bytes <= Bytes(0)) continue;
    sum += bytes;
    ids.push_back(active.id);
  }
  return {sum, ids};
}

Blocker Unreadable(const std::string& what) {
  return {BlockerKind::kStale, 0, 0, absl::StrCat(what, " could not be read in the newest sample")};
}

void CheckFresh(const Room& room, std::vector<Blocker>& blockers) {
  const double needed = absl::ToDoubleSeconds(room.max_age);
  if (!room.age) {
    blockers.push_back({BlockerKind::kStale, 0, needed, "the machine has not been read yet"});
  } else if (*room.age > room.max_age) {
    blockers.push_back({BlockerKind::kStale, absl::ToDoubleSeconds(*room.age), needed,
                        absl::StrCat("the newest sample is ", FormatSpan(*room.age),
                                     " old, needs one of at most ", FormatSpan(room.max_age))});
  }
}

void CheckLevel(const Policy& policy, const Room& room, std::vector<Blocker>& blockers) {
  if (!room.host.level) {
    blockers.push_back(Unreadable("the memory level"));
  } else if (*room.host.level < policy.wait_free) {
    blockers.push_back({BlockerKind::kLevel, room.host.level->value, policy.wait_free.value,
                        absl::StrCat(FormatPercent(*room.host.level), " available, needs ",
                                     FormatPercent(policy.wait_free))});
  }
}

void CheckPressure(const Config& config, const Room& room, std::vector<Blocker>& blockers) {
  if (!room.host.pressure || *room.host.pressure < config.max_pressure) return;
  blockers.push_back({BlockerKind::kPressure, static_cast<double>(*room.host.pressure),
                      static_cast<double>(config.max_pressure) - 1,
                      absl::StrCat("memory pressure is ", PressureName(*room.host.pressure),
                                   ", needs less than ", PressureName(config.max_pressure))});
}

void CheckSwapLimit(const Policy& policy, const Room& room, std::vector<Blocker>& blockers) {
  if (!policy.swap_limit) return;
  if (!room.host.swap_used) {
    blockers.push_back(Unreadable("swap used"));
    return;
  }
  const auto [unspent, ids] = SumOf(room, [](const Reservation& r) { return r.unspent_swap; });
  const Bytes sum = *room.host.swap_used + unspent + policy.swap_budget;
  if (sum <= *policy.swap_limit) return;
  std::string text = absl::StrCat(FormatBytes(*room.host.swap_used), " of swap used");
  if (!ids.empty()) {
    absl::StrAppend(&text, " + ", FormatBytes(unspent), " unspent budget of ", NameJobs(ids));
  }
  absl::StrAppend(&text, " + ", FormatBytes(policy.swap_budget), " budget = ", FormatBytes(sum),
                  ", limit is ", FormatBytes(*policy.swap_limit));
  blockers.push_back(
      {BlockerKind::kSwapLimit, sum.AsDouble(), policy.swap_limit->AsDouble(), std::move(text)});
}

void CheckMemory(const Policy& policy, const Config& config, const Room& room,
                 std::vector<Blocker>& blockers) {
  if (!policy.memory) return;
  if (!room.host.available || !room.host.total) {
    blockers.push_back(Unreadable("available memory"));
    return;
  }
  const auto [outstanding, ids] = SumOf(room, [](const Reservation& r) { return r.Outstanding(); });
  const Bytes reserve = ReserveOf(config, *room.host.total);
  const Bytes free = *room.host.available - outstanding - reserve;
  if (free >= *policy.memory) return;
  std::string text = absl::StrCat("needs ", FormatBytes(*policy.memory), ", ",
                                  FormatBytes(std::max(free, Bytes(0))), " free after ");
  if (!ids.empty()) {
    absl::StrAppend(&text, FormatBytes(outstanding), " reserved by ", NameJobs(ids), " and ");
  }
  absl::StrAppend(&text, FormatBytes(reserve), " kept free");
  blockers.push_back(
      {BlockerKind::kMemory, free.AsDouble(), policy.memory->AsDouble(), std::move(text)});
}

void CheckPool(const Policy& policy, const Config& config, const Room& room,
               std::vector<Blocker>& blockers) {
  if (!policy.memory || !config.memory_pool) return;
  const auto [declared, ids] =
      SumOf(room, [](const Reservation& r) { return r.declared.value_or(Bytes(0)); });
  const Bytes left = *config.memory_pool - declared;
  if (left >= *policy.memory) return;
  blockers.push_back({BlockerKind::kMemory, left.AsDouble(), policy.memory->AsDouble(),
                      absl::StrCat("needs ", FormatBytes(*policy.memory), ", ",
                                   FormatBytes(std::max(left, Bytes(0))), " left in the pool of ",
                                   FormatBytes(*config.memory_pool), " after ",
                                   FormatBytes(declared), " declared by ", NameJobs(ids))});
}

absl::Status NeverFits(const char* field, const std::string& text) {
  return WithReason(absl::InvalidArgumentError(absl::StrCat(field, ": ", text)), kNeverFits, field);
}

}  // namespace

Bytes Reservation::Outstanding() const {
  if (!declared) return Bytes(0);
  return std::max(Bytes(0), *declared - std::max(Bytes(0), footprint.value_or(Bytes(0))));
}

Bytes ReserveOf(const Config& config, Bytes total) {
  return config.reserve.value_or(total * config.reserve_fraction);
}

std::vector<Blocker> FindBlockers(const Policy& policy, const Config& config, const Room& room) {
  std::vector<Blocker> blockers;
  CheckFresh(room, blockers);
  if (!room.age) return blockers;  // there are no values to compare with
  CheckLevel(policy, room, blockers);
  CheckPressure(config, room, blockers);
  CheckSwapLimit(policy, room, blockers);
  CheckMemory(policy, config, room, blockers);
  CheckPool(policy, config, room, blockers);
  return blockers;
}

absl::Status CheckCanEverFit(const Policy& policy, const Config& config, const HostSample& host) {
  if (policy.swap_limit && policy.swap_budget > *policy.swap_limit) {
    return NeverFits(
        "policy.swap_limit_bytes",
        absl::StrCat("a swap budget of ", FormatBytes(policy.swap_budget),
                     " never fits under a swap limit of ", FormatBytes(*policy.swap_limit),
                     "; raise the limit or lower the budget"));
  }
  if (!policy.memory) return absl::OkStatus();
  if (config.memory_pool && *policy.memory > *config.memory_pool) {
    return NeverFits("policy.memory_bytes",
                     absl::StrCat(FormatBytes(*policy.memory), " never fits into the pool of ",
                                  FormatBytes(*config.memory_pool), " (memory_pool)"));
  }
  if (!host.total) return absl::OkStatus();
  const Bytes reserve = ReserveOf(config, *host.total);
  if (*policy.memory > *host.total - reserve) {
    return NeverFits("policy.memory_bytes",
                     absl::StrCat(FormatBytes(*policy.memory), " never fits: the machine has ",
                                  FormatBytes(*host.total), ", of which ", FormatBytes(reserve),
                                  " is kept free (reserve)"));
  }
  return absl::OkStatus();
}

HostSample Plausible(HostSample sample) {
  const auto drop_negative = [](std::optional<Bytes>& field) {
    if (field && *field < Bytes(0)) field.reset();
  };
  drop_negative(sample.total);
  drop_negative(sample.available);
  drop_negative(sample.swap_used);
  drop_negative(sample.swap_total);
  if (sample.total && *sample.total == Bytes(0)) sample.total.reset();
  if (sample.level && !(sample.level->value >= 0 && sample.level->value <= 100)) {
    sample.level.reset();
  }
  if (sample.available && sample.total && *sample.available > *sample.total) {
    sample.available.reset();
  }
  return sample;
}

}  // namespace stageload::core
