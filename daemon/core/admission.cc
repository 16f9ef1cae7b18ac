#include "daemon/core/admission.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/differing_sizes.h"
#include "base/error_reason.h"
#include "base/text.h"
#include "daemon/core/fault.h"

namespace stageload::core {
namespace {

constexpr std::size_t kNamedClients = 5;  // in a blocker's text

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

// Who of the active clients has a part in a sum.
template <typename Part>
std::vector<JobId> WhoHas(const Room& room, Part part) {
  std::vector<JobId> ids;
  for (const Reservation& active : room.active) {
    if (part(active) > Bytes(0)) ids.push_back(active.id);
  }
  return ids;
}

// "needs 15 GiB, 14 GiB"; where both print alike, also by how much it falls short.
std::string NeedsAndHas(Bytes needed, Bytes has) {
  const std::string needs = FormatBytes(needed);
  const std::string have = FormatBytes(std::max(has, Bytes(0)));
  if (needs != have) return absl::StrCat("needs ", needs, ", ", have);
  return absl::StrCat("needs ", needs, ", ", FormatBytes(needed - has), " less than that");
}

// Of more memory than the machine has: that memory, and what there is of it.
SizeTexts MoreThanTheMachine(Bytes memory, Bytes total, Bytes reserve) {
  const Bytes left = total - reserve;
  const SizeTexts differing = FormatDiffering(memory, left);
  std::string has = absl::StrCat("the machine has ", FormatBytes(total), ", of which ",
                                 FormatBytes(reserve), " is kept free (reserve)");
  if (FormatBytes(memory) == FormatBytes(left)) {
    absl::StrAppend(&has, " and ", differing.second, " is left");
  }
  return {differing.first, std::move(has)};
}

// Collects blockers, or only notes that there is one.
class Findings {
 public:
  explicit Findings(std::vector<Blocker>* blockers) : blockers_(blockers) {}

  // `describe` makes the words, and is called only when somebody wants them.
  template <typename Describe>
  void Add(BlockerKind kind, double read, double needed, Describe describe,
           std::optional<absl::Duration> ends_in = std::nullopt) {
    any_ = true;
    if (blockers_ != nullptr) blockers_->push_back({kind, read, needed, describe(), ends_in});
  }
  void AddUnreadable(const char* what) {
    Add(BlockerKind::kStale, 0, 0,
        [&] { return absl::StrCat(what, " could not be read in the newest sample"); });
  }
  bool any() const { return any_; }
  // Nobody reads on once one is found.
  bool done() const { return any_ && blockers_ == nullptr; }

 private:
  std::vector<Blocker>* blockers_;
  bool any_ = false;
};

double Seconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

bool IsFresh(const Room& room, absl::Duration now) {
  if (!room.sampled_at) return false;
  return now - *room.sampled_at <= room.max_age || IsOn(Fault::kStaleSampleAdmitted);
}

void CheckFresh(const Room& room, absl::Duration now, Findings& findings) {
  if (IsFresh(room, now)) return;
  const double needed = Seconds(room.max_age);
  if (!room.sampled_at) {
    findings.Add(BlockerKind::kStale, 0, needed,
                 [] { return "the machine has not been read yet"; });
    return;
  }
  const absl::Duration age = now - *room.sampled_at;
  findings.Add(BlockerKind::kStale, Seconds(age), needed, [&] {
    return absl::StrCat("the newest sample is ", FormatSpan(age), " old, needs one of at most ",
                        FormatSpan(room.max_age));
  });
}

void CheckWaking(const Room& room, absl::Duration now, Findings& findings) {
  if (!room.woke_at || now - *room.woke_at >= kWakingTime) return;
  const absl::Duration awake = now - *room.woke_at;
  findings.Add(
      BlockerKind::kWaking, Seconds(awake), Seconds(kWakingTime),
      [&] {
        return absl::StrCat("the machine woke ", FormatSpan(awake), " ago, needs ",
                            FormatSpan(kWakingTime));
      },
      kWakingTime - awake);
}

void CheckSwapping(const Room& room, Findings& findings) {
  if (room.swap_growth <= kMaxSwapGrowth) return;
  findings.Add(BlockerKind::kSwapping, room.swap_growth.AsDouble(), kMaxSwapGrowth.AsDouble(), [&] {
    return absl::StrCat("swap grew by ", FormatBytes(room.swap_growth), " over the last ",
                        FormatSpan(SwapWindow::kLength), ", at most ", FormatBytes(kMaxSwapGrowth),
                        " may be");
  });
}

void CheckRecovering(const Room& room, absl::Duration now, Findings& findings) {
  if (!room.recovering || now >= room.recovering->until) return;
  const Recovering& recovering = *room.recovering;
  findings.Add(
      BlockerKind::kRecovering, recovering.back.AsDouble(), recovering.held.AsDouble(),
      [&] {
        return absl::StrCat(FormatBytes(recovering.back), " of ", FormatBytes(recovering.held),
                            " came back so far since job ", Value(recovering.id), " ended");
      },
      recovering.until - now);
}

void CheckReturning(const Room& room, absl::Duration now, Findings& findings) {
  const absl::Duration left = room.returning_until - now;
  if (left <= absl::ZeroDuration()) return;
  findings.Add(
      BlockerKind::kReturning, Seconds(left), 0,
      [&] {
        return absl::StrCat(
            "programs that were registered with the daemon before may come back to "
            "take up their leases; they are waited for ",
            FormatSpan(left), " more");
      },
      left);
}

void CheckUnsettled(const Room& room, absl::Duration now, Findings& findings) {
  CheckFresh(room, now, findings);
  CheckWaking(room, now, findings);
  CheckSwapping(room, findings);
  CheckRecovering(room, now, findings);
  CheckReturning(room, now, findings);
}

// What is begun is finished: a running client's lease neither waits for the daemon to be told to go
// on, nor for the client's own start to settle.
void CheckSettling(const Demand& demand, const Config& config, const Room& room, absl::Duration now,
                   Findings& findings) {
  if (!room.settling || demand.part_of == room.settling->id) return;
  const absl::Duration since = now - room.settling->since;
  if (since >= config.settle) return;
  findings.Add(
      BlockerKind::kSettling, Seconds(since), Seconds(config.settle),
      [&] {
        return absl::StrCat("job ", Value(room.settling->id),
                            " declared no memory and started only ", FormatSpan(since),
                            " ago, needs ", FormatSpan(config.settle));
      },
      config.settle - since);
}

void CheckDraining(const Demand& demand, const Room& room, Findings& findings) {
  if (!room.draining || demand.part_of) return;
  findings.Add(BlockerKind::kDraining, 1, 0,
               [] { return "the daemon was told to start nothing more (drain)"; });
}

void CheckLevel(const Demand& demand, const Room& room, Findings& findings) {
  if (!room.host.level) {
    findings.AddUnreadable("the memory level");
  } else if (*room.host.level < demand.wait_free) {
    findings.Add(BlockerKind::kLevel, room.host.level->value, demand.wait_free.value, [&] {
      return absl::StrCat(FormatPercent(*room.host.level), " available, needs ",
                          FormatPercent(demand.wait_free));
    });
  }
}

void CheckPressure(const Config& config, const Room& room, Findings& findings) {
  if (!room.host.pressure || *room.host.pressure < config.max_pressure) return;
  findings.Add(BlockerKind::kPressure, static_cast<double>(*room.host.pressure),
               static_cast<double>(config.max_pressure) - 1, [&] {
                 return absl::StrCat("memory pressure is ", Name(*room.host.pressure),
                                     ", needs less than ", Name(config.max_pressure));
               });
}

void CheckSwapLimit(const Demand& demand, const Room& room, Findings& findings) {
  if (!demand.swap_limit) return;
  if (!room.host.swap_used) return findings.AddUnreadable("swap used");
  const Bytes unspent = room.unspent_swap - demand.unspent_around;
  const Bytes sum = *room.host.swap_used + unspent + demand.swap_budget;
  if (sum <= *demand.swap_limit) return;
  findings.Add(BlockerKind::kSwapLimit, sum.AsDouble(), demand.swap_limit->AsDouble(), [&] {
    std::string text = absl::StrCat(FormatBytes(*room.host.swap_used), " of swap used");
    // A guard's sum leaves out what it is inside of, a lease's counts its own client.
    const bool inside = demand.unspent_around > Bytes(0);
    const auto ids = WhoHas(room, [&](const Reservation& r) {
      return inside && r.id == demand.part_of ? Bytes(0) : r.unspent_swap;
    });
    if (unspent > Bytes(0) && !ids.empty()) {
      absl::StrAppend(&text, " + ", FormatBytes(unspent), " unspent budget of ", NameJobs(ids));
    }
    const SizeTexts sizes = FormatDiffering(sum, *demand.swap_limit);
    absl::StrAppend(&text, " + ", FormatBytes(demand.swap_budget), " budget = ", sizes.first,
                    ", limit is ", sizes.second);
    return text;
  });
}

// The share of other programs' anonymous memory that the compressor can take.
Bytes CreditOf(const Config& config, const Room& room) {
  if (config.anonymous_credit <= 0 || !room.host.pageable_internal) return Bytes(0);
  return std::max(Bytes(0), *room.host.pageable_internal - room.footprint) *
         config.anonymous_credit;
}

void CheckMemory(const Demand& demand, const Config& config, const Room& room, Findings& findings) {
  if (!demand.memory) return;
  if (!room.host.available || !room.host.total) return findings.AddUnreadable("available memory");
  const Bytes outstanding = IsOn(Fault::kReservationsIgnored) ? Bytes(0) : room.outstanding;
  const Bytes reserve = ReserveOf(config, *room.host.total);
  const Bytes credit = CreditOf(config, room);
  const Bytes free = *room.host.available + credit - outstanding - reserve;
  if (free >= *demand.memory) return;
  findings.Add(BlockerKind::kMemory, free.AsDouble(), demand.memory->AsDouble(), [&] {
    if (*demand.memory > *room.host.total - reserve) {
      const SizeTexts more = MoreThanTheMachine(*demand.memory, *room.host.total, reserve);
      return absl::StrCat("needs ", more.first, ", which never fits: ", more.second);
    }
    std::string text = absl::StrCat(NeedsAndHas(*demand.memory, free), " free after ");
    const auto ids = WhoHas(room, [](const Reservation& r) { return r.Outstanding(); });
    if (!ids.empty()) {
      absl::StrAppend(&text, FormatBytes(outstanding), " reserved by ", NameJobs(ids), " and ");
    }
    absl::StrAppend(&text, FormatBytes(reserve), " kept free");
    if (credit > Bytes(0)) {
      absl::StrAppend(&text, ", with ", FormatBytes(credit),
                      " of other programs' memory counted as compressible");
    }
    return text;
  });
}

void CheckPool(const Demand& demand, const Config& config, const Room& room, Findings& findings) {
  if (!demand.memory || !config.memory_pool) return;
  const Bytes left = *config.memory_pool - room.declared;
  if (left >= *demand.memory) return;
  findings.Add(BlockerKind::kMemory, left.AsDouble(), demand.memory->AsDouble(), [&] {
    const auto ids =
        WhoHas(room, [](const Reservation& r) { return r.declared.value_or(Bytes(0)); });
    // The pool was made smaller while this waited.
    if (*demand.memory > *config.memory_pool) {
      const SizeTexts sizes = FormatDiffering(*demand.memory, *config.memory_pool);
      return absl::StrCat("needs ", sizes.first, ", which never fits into the pool of ",
                          sizes.second, " (memory_pool)");
    }
    return absl::StrCat(NeedsAndHas(*demand.memory, left), " left in the pool of ",
                        FormatBytes(*config.memory_pool), " after ", FormatBytes(room.declared),
                        " declared by ", NameJobs(ids));
  });
}

bool Find(const Demand& demand, const Config& config, const Room& room, absl::Duration now,
          std::vector<Blocker>* blockers) {
  Findings findings(blockers);
  CheckUnsettled(room, now, findings);
  CheckDraining(demand, room, findings);
  if (findings.done()) return true;
  if (!room.sampled_at) return findings.any();  // there are no values to compare with
  CheckSettling(demand, config, room, now, findings);
  CheckLevel(demand, room, findings);
  CheckPressure(config, room, findings);
  CheckSwapLimit(demand, room, findings);
  CheckMemory(demand, config, room, findings);
  CheckPool(demand, config, room, findings);
  return findings.any();
}

absl::Status NeverFits(const char* field, const std::string& text) {
  return WithReason(absl::InvalidArgumentError(absl::StrCat(field, ": ", text)), kNeverFits, field);
}

}  // namespace

Demand DemandOf(const Policy& policy) {
  Demand demand;
  demand.wait_free = policy.wait_free;
  demand.swap_budget = policy.swap_budget;
  demand.swap_limit = policy.swap_limit;
  demand.memory = policy.memory;
  return demand;
}

Bytes Reservation::Outstanding() const {
  if (!expected) return Bytes(0);
  return std::max(Bytes(0), *expected - std::max(Bytes(0), footprint.value_or(Bytes(0))));
}

void Room::SumUp() {
  outstanding = declared = unspent_swap = footprint = Bytes(0);
  for (const Reservation& one : active) {
    outstanding += one.Outstanding();
    declared += one.declared.value_or(Bytes(0));
    unspent_swap += std::max(Bytes(0), one.unspent_swap);
    footprint += std::max(Bytes(0), one.footprint.value_or(Bytes(0)));
  }
}

Bytes ReserveOf(const Config& config, Bytes total) {
  return config.reserve.value_or(total * config.reserve_fraction);
}

std::vector<Blocker> FindBlockers(const Demand& demand, const Config& config, const Room& room,
                                  absl::Duration now) {
  std::vector<Blocker> blockers;
  Find(demand, config, room, now, &blockers);
  return blockers;
}

bool MayStart(const Demand& demand, const Config& config, const Room& room, absl::Duration now) {
  return !Find(demand, config, room, now, nullptr);
}

bool IsUnsettled(const Room& room, absl::Duration now) {
  Findings findings(nullptr);
  CheckUnsettled(room, now, findings);
  return findings.any();
}

bool CanEverFit(const Demand& demand, const Config& config, const HostSample& host) {
  if (demand.swap_limit && demand.swap_budget > *demand.swap_limit) return false;
  if (!demand.memory) return true;
  if (config.memory_pool && *demand.memory > *config.memory_pool) return false;
  return !host.total || *demand.memory <= *host.total - ReserveOf(config, *host.total);
}

absl::Status CheckCanEverFit(const Demand& demand, const Config& config, const HostSample& host,
                             const char* memory_field, Bytes besides) {
  if (CanEverFit(demand, config, host)) return absl::OkStatus();
  if (demand.swap_limit && demand.swap_budget > *demand.swap_limit) {
    const SizeTexts sizes = FormatDiffering(demand.swap_budget, *demand.swap_limit);
    return NeverFits(
        "policy.swap_limit_bytes",
        absl::StrCat("a swap budget of ", sizes.first, " never fits under a swap limit of ",
                     sizes.second, "; raise the limit or lower the budget"));
  }
  // In the words for all of it, where that is what is asked for.
  const auto what = [&](const std::string& all) {
    return besides > Bytes(0) ? absl::StrCat(FormatBytes(*demand.memory - besides), " besides ",
                                             FormatBytes(besides), " that is declared already")
                              : all;
  };
  if (config.memory_pool && *demand.memory > *config.memory_pool) {
    const SizeTexts sizes = FormatDiffering(*demand.memory, *config.memory_pool);
    return NeverFits(memory_field, absl::StrCat(what(sizes.first), " never fits into the pool of ",
                                                sizes.second, " (memory_pool)"));
  }
  const SizeTexts more =
      MoreThanTheMachine(*demand.memory, *host.total, ReserveOf(config, *host.total));
  return NeverFits(memory_field, absl::StrCat(what(more.first), " never fits: ", more.second));
}

std::optional<Bytes> MostThatFits(const Config& config, const HostSample& host) {
  std::optional<Bytes> most = config.memory_pool;
  if (!host.total) return most;
  const Bytes physical = std::max(Bytes(0), *host.total - ReserveOf(config, *host.total));
  return std::min(most.value_or(physical), physical);
}

HostSample Plausible(HostSample sample, std::vector<std::string>* dropped) {
  const auto drop = [&](auto& field, const std::string& text) {
    field.reset();
    if (dropped != nullptr) dropped->push_back(text);
  };
  const auto drop_negative = [&](std::optional<Bytes>& field, const char* name) {
    if (field && *field < Bytes(0)) drop(field, absl::StrCat(name, " ", field->count(), " bytes"));
  };
  drop_negative(sample.total, "total");
  drop_negative(sample.available, "available");
  drop_negative(sample.swap_used, "swap used");
  drop_negative(sample.swap_total, "swap total");
  drop_negative(sample.pageable_internal, "pageable");
  if (sample.total && *sample.total == Bytes(0)) drop(sample.total, "total 0 bytes");
  if (sample.level && !(sample.level->value >= 0 && sample.level->value <= 100)) {
    drop(sample.level, absl::StrCat("level ", sample.level->value, " %"));
  }
  if (sample.available && sample.total && *sample.available > *sample.total) {
    const SizeTexts sizes = FormatDiffering(*sample.available, *sample.total);
    drop(sample.available, absl::StrCat("available ", sizes.first, " of ", sizes.second));
  }
  if (sample.swap_used && sample.swap_total && *sample.swap_used > *sample.swap_total) {
    const SizeTexts sizes = FormatDiffering(*sample.swap_used, *sample.swap_total);
    drop(sample.swap_used, absl::StrCat("swap used ", sizes.first, " of ", sizes.second));
  }
  return sample;
}

}  // namespace stageload::core
