// Reads ranges with the parsers of the options themselves.
#include "client/ctl/simulate_sweep.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/closest_word.h"
#include "base/text.h"

namespace stageload::ctl {
namespace {

constexpr int kMaxSteps = 1000;

struct Option {
  const char* name;
  const char* example;
  // One of the two.
  void (*set_size)(core::Policy&, Bytes);
  void (*set_percent)(core::Policy&, Percent);
};
constexpr Option kOptions[] = {
    {"swap-budget", "swap-budget=2G:12G:2G",
     [](core::Policy& policy, Bytes size) { policy.swap_budget = size; }, nullptr},
    {"swap-limit", "swap-limit=8G:32G:4G",
     [](core::Policy& policy, Bytes size) {
       const bool by_default = policy.swap_budget == core::DefaultSwapBudget(policy.swap_limit);
       policy.swap_limit = size;
       if (by_default) policy.swap_budget = core::DefaultSwapBudget(size);
     },
     nullptr},
    {"wait-free", "wait-free=20:60:10", nullptr,
     [](core::Policy& policy, Percent level) { policy.wait_free = level; }},
    {"kill-free", "kill-free=5:25:5", nullptr,
     [](core::Policy& policy, Percent level) { policy.kill_free = level; }},
};

absl::Status Wrong(const std::string& text, const std::string& why, const char* example) {
  return absl::InvalidArgumentError(
      absl::StrCat("--sweep \"", text, "\": ", why, "; as in --sweep ", example));
}

// A range as it was typed.
struct Range {
  std::string from;
  std::string to;
  std::string step;
};

// In whole units of the option, so that no rounding adds up and the last value is met exactly.
struct Units {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t step = 0;
};

// Why there is no walking from one end to the other; empty when there is.
std::string Objection(const Units& units, const Range& range) {
  if (units.step == 0) return absl::StrCat("the step is ", range.step);
  if (units.from > units.to) return absl::StrCat(range.from, " is above ", range.to);
  const std::int64_t steps = (units.to - units.from) / units.step + 1;
  if (steps <= kMaxSteps) return "";
  return absl::StrCat(steps, " values, and the limit is ", kMaxSteps);
}

// All three by `parse`, in units by `count`.
template <typename Parse, typename Count>
absl::StatusOr<Units> Read(const Range& range, Parse parse, Count count) {
  const auto from = parse(range.from);
  const auto to = parse(range.to);
  const auto step = parse(range.step);
  for (const auto* value : {&from, &to, &step}) {
    if (!value->ok()) return value->status();
  }
  return Units{count(*from), count(*to), count(*step)};
}

constexpr double kPercentUnits = 1e6;

absl::StatusOr<Units> ReadRange(const Option& option, const Range& range) {
  if (option.set_size != nullptr) {
    return Read(range, ParseBytes, [](Bytes size) { return size.count(); });
  }
  return Read(range, ParsePercent, [](Percent percent) {
    return static_cast<std::int64_t>(std::llround(percent.value * kPercentUnits));
  });
}

SweepStep StepAt(const Option& option, std::int64_t units, const core::Policy& base) {
  SweepStep step{"", base};
  if (option.set_size != nullptr) {
    option.set_size(step.policy, Bytes(units));
    step.value = FormatBytes(Bytes(units));
  } else {
    const Percent percent{static_cast<double>(units) / kPercentUnits};
    option.set_percent(step.policy, percent);
    step.value = FormatPercent(percent);
  }
  return step;
}

const Option* Find(const std::string& name) {
  for (const Option& option : kOptions) {
    if (name == option.name) return &option;
  }
  return nullptr;
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const Option& option : kOptions) names.emplace_back(option.name);
  return names;
}

}  // namespace

absl::StatusOr<Sweep> ParseSweep(const std::string& text, const core::Policy& base) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const Option* option = Find(name);
  if (option == nullptr) {
    return Wrong(text,
                 absl::StrCat("cannot sweep \"", name,
                              "\", only swap-budget, swap-limit, wait-free and kill-free",
                              DidYouMean(name, Names())),
                 kOptions[0].example);
  }
  const std::vector<std::string> parts =
      absl::StrSplit(equals == std::string::npos ? "" : text.substr(equals + 1), ':');
  if (parts.size() != 3) return Wrong(text, "not NAME=FROM:TO:STEP", option->example);
  const Range range{parts[0], parts[1], parts[2]};
  const absl::StatusOr<Units> units = ReadRange(*option, range);
  if (!units.ok()) return Wrong(text, std::string(units.status().message()), option->example);
  const std::string objection = Objection(*units, range);
  if (!objection.empty()) return Wrong(text, objection, option->example);
  Sweep sweep{name, {}};
  const std::int64_t last = (units->to - units->from) / units->step;
  for (std::int64_t i = 0; i <= last; ++i) {
    sweep.steps.push_back(StepAt(*option, units->from + i * units->step, base));
  }
  return sweep;
}

}  // namespace stageload::ctl
