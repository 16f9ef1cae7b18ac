// Tables and JSON of simulate.
#include "client/ctl/simulate_print.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"

namespace stageload::ctl {
namespace {

using Action = Decision::Action;

// As it stands in the trace: 103.455.
std::string Time(double t) { return Json(t).dump(); }

// A whole number without a point, as the kernel gives it and traces have it.
Json Number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return Json(static_cast<std::int64_t>(value));
  }
  return Json(value);
}

Json LevelJson(const std::optional<Percent>& level) {
  return level ? Number(level->value) : Json();
}
Json SizeJson(const std::optional<Bytes>& size) { return size ? Json(size->count()) : Json(); }

Json ToJson(const Decision& decision) {
  return Json{{"t", decision.t},
              {"action", Name(decision.action)},
              {"reason", decision.reason},
              {"level", LevelJson(decision.level)},
              {"swap_used", SizeJson(decision.swap_used)},
              {"charge", decision.charge.count()}};
}

// As the API spells it.
const char* Name(core::OverBudget over_budget) {
  switch (over_budget) {
    case core::OverBudget::kStop:
      return "STOP";
    case core::OverBudget::kSuspend:
      return "SUSPEND";
    case core::OverBudget::kWarn:
      return "WARN";
  }
  return "?";
}

Json ToJson(const core::Policy& policy) {
  Json json{{"wait_free_percent", Number(policy.wait_free.value)},
            {"swap_budget_bytes", policy.swap_budget.count()}};
  if (policy.swap_limit) json["swap_limit_bytes"] = policy.swap_limit->count();
  json["kill_free_percent"] = Number(policy.kill_free.value);
  json["on_over_budget"] = Name(policy.on_over_budget);
  return json;
}

std::string Level(const std::optional<Percent>& level) {
  return level ? FormatPercent(*level) : "-";
}
std::string Size(const std::optional<Bytes>& size) { return size ? FormatBytes(*size) : "-"; }

Colour ColourOf(Action action) {
  switch (action) {
    case Action::kAdmit:
      return Colour::kGreen;
    case Action::kWarn:
    case Action::kSuspend:
      return Colour::kYellow;
    case Action::kStop:
      return Colour::kRed;
  }
  return Colour::kNone;
}

const Decision* Find(const Replay& replay, Action action) {
  const auto found =
      std::find_if(replay.decisions.begin(), replay.decisions.end(),
                   [&](const Decision& decision) { return decision.action == action; });
  return found == replay.decisions.end() ? nullptr : &*found;
}

// "swap-budget" is "SWAP BUDGET".
std::string Title(const std::string& option) {
  return absl::StrReplaceAll(absl::AsciiStrToUpper(option), {{"-", " "}});
}

std::string TimeOrDash(const Decision* decision) {
  return decision == nullptr ? "-" : Time(decision->t);
}

}  // namespace

Json ToJson(const SimulatedRun& run) {
  Json json{{"trace", run.trace->path}, {"policy", ToJson(run.policy)}};
  json["decisions"] = Json::array();
  for (const Decision& decision : run.replay.decisions) {
    json["decisions"].push_back(ToJson(decision));
  }
  json["overshoot_bytes"] = run.replay.overshoot.count();
  json["notes"] = run.trace->notes;
  for (const std::string& note : run.replay.notes) json["notes"].push_back(note);
  return json;
}

Table DecisionTable(const Replay& replay) {
  Table table({{.title = "T", .right = true},
               {.title = "ACTION"},
               {.title = "REASON"},
               {.title = "LEVEL", .right = true},
               {.title = "SWAP USED", .right = true},
               {.title = "CHARGE", .right = true}});
  for (const Decision& decision : replay.decisions) {
    table.Add({Time(decision.t),
               {Name(decision.action), ColourOf(decision.action)},
               decision.reason,
               Level(decision.level),
               Size(decision.swap_used),
               FormatBytes(decision.charge)});
  }
  return table;
}

std::string Conclusion(const SimulatedRun& run) {
  if (run.replay.decisions.empty()) return "Never admitted.";
  const std::string budget = FormatBytes(run.policy.swap_budget);
  const char* subject = "Not stopped. Swap";
  if (Find(run.replay, Action::kSuspend) != nullptr) subject = "Suspended, not stopped. Swap";
  if (Find(run.replay, Action::kStop) != nullptr) subject = "Stopped. From then on swap";
  if (run.replay.overshoot == Bytes(0)) {
    return absl::StrCat(subject, " stayed within the budget of ", budget, ".");
  }
  return absl::StrCat(subject, " went ", FormatBytes(run.replay.overshoot), " past the budget of ",
                      budget, ".");
}

Table RunTable(const std::vector<SimulatedRun>& runs, const std::string& option) {
  const auto any = [&](auto condition) { return std::any_of(runs.begin(), runs.end(), condition); };
  const bool several = any([&](const SimulatedRun& run) { return run.trace != runs[0].trace; });
  const bool suspended =
      any([](const SimulatedRun& run) { return Find(run.replay, Action::kSuspend) != nullptr; });

  std::vector<Column> columns;
  if (several) columns.push_back({.title = "TRACE"});
  if (!option.empty()) columns.push_back({.title = Title(option), .right = true});
  columns.push_back({.title = "ADMITTED", .right = true});
  columns.push_back({.title = "WARNED", .right = true});
  if (suspended) columns.push_back({.title = "SUSPENDED", .right = true});
  columns.push_back({.title = "STOPPED", .right = true});
  columns.push_back({.title = "REASON"});
  for (const char* title : {"LEVEL", "SWAP USED", "CHARGE", "OVERSHOOT"}) {
    columns.push_back({.title = title, .right = true});
  }

  Table table(std::move(columns));
  for (const SimulatedRun& run : runs) {
    const Decision* admit = Find(run.replay, Action::kAdmit);
    const Decision* suspend = Find(run.replay, Action::kSuspend);
    const Decision* stop = Find(run.replay, Action::kStop);
    const Decision* gravest = stop == nullptr ? suspend : stop;
    std::vector<Cell> row;
    if (several) row.emplace_back(run.trace->path);
    if (!option.empty()) row.emplace_back(run.swept);
    row.emplace_back(admit == nullptr ? "never" : Time(admit->t));
    row.emplace_back(TimeOrDash(Find(run.replay, Action::kWarn)));
    if (suspended) row.emplace_back(TimeOrDash(suspend));
    row.emplace_back(TimeOrDash(stop), stop == nullptr ? Colour::kNone : Colour::kRed);
    row.emplace_back(gravest == nullptr ? "-" : gravest->reason);
    row.emplace_back(gravest == nullptr ? "-" : Level(gravest->level));
    row.emplace_back(gravest == nullptr ? "-" : Size(gravest->swap_used));
    row.emplace_back(gravest == nullptr ? "-" : FormatBytes(gravest->charge));
    row.emplace_back(FormatBytes(run.replay.overshoot));
    table.Add(std::move(row));
  }
  return table;
}

}  // namespace stageload::ctl
