// stageloadctl simulate: what a policy would have done over recorded runs. The rules are the
// daemon's own code, so this is the one command that links stageload::core; it asks no daemon.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/json.h"
#include "client/ctl/options.h"
#include "client/ctl/print.h"
#include "client/ctl/replay.h"
#include "client/ctl/simulate_print.h"
#include "client/ctl/simulate_sweep.h"
#include "client/ctl/trace_name.h"

namespace stageload::ctl {
namespace {

constexpr char kNotes[] =
    "Each sample of a recording is shown to the rules as if its process were the only guarded\n"
    "command. It counts as started at the first sample at which it is admitted, and its swap "
    "budget\n"
    "counts from there. Nothing that is decided changes the recording: after a stop it goes on as\n"
    "it went. Exits with 1 when a trace cannot be read; the others are shown all the same.";

struct Options {
  std::vector<std::string> traces;
  AdmissionOptions admission;
  std::string sweep;
  bool json = false;
};

absl::StatusOr<core::Policy> ReadPolicy(const Options& options) {
  const absl::StatusOr<v1::Policy> given = ToPolicy(options.admission);
  if (!given.ok()) return given.status();
  core::Policy policy;
  if (given->has_wait_free_percent()) policy.wait_free = Percent{given->wait_free_percent()};
  if (given->has_swap_limit_bytes()) policy.swap_limit = Bytes(given->swap_limit_bytes());
  policy.swap_budget = given->has_swap_budget_bytes() ? Bytes(given->swap_budget_bytes())
                                                      : core::DefaultSwapBudget(policy.swap_limit);
  if (given->has_kill_free_percent()) policy.kill_free = Percent{given->kill_free_percent()};
  if (given->on_over_budget() == v1::OVER_BUDGET_SUSPEND) {
    policy.on_over_budget = core::OverBudget::kSuspend;
  } else if (given->on_over_budget() == v1::OVER_BUDGET_WARN) {
    policy.on_over_budget = core::OverBudget::kWarn;
  }
  return policy;
}

// The policy in one step, where nothing is swept.
absl::StatusOr<Sweep> ReadSweep(const CLI::App& command, const Options& options) {
  const absl::StatusOr<core::Policy> policy = ReadPolicy(options);
  if (!policy.ok()) return policy.status();
  if (options.sweep.empty()) return Sweep{"", {{"", *policy}}};
  absl::StatusOr<Sweep> sweep = ParseSweep(options.sweep, *policy);
  if (sweep.ok() && command.count("--" + sweep->option) > 0) {
    return absl::InvalidArgumentError(absl::StrCat("--", sweep->option, " and --sweep ",
                                                   options.sweep,
                                                   " both set it; leave one of them out"));
  }
  return sweep;
}

// Those that can be read; says of the others why not.
std::vector<Trace> ReadTraces(const std::vector<std::string>& paths) {
  std::vector<Trace> traces;
  for (const std::string& path : paths) {
    absl::StatusOr<Trace> trace = ReadTrace(TracePath(path));
    if (trace.ok()) {
      traces.push_back(*std::move(trace));
    } else {
      Note(std::string(trace.status().message()));
    }
  }
  return traces;
}

absl::StatusOr<std::vector<SimulatedRun>> Replays(const std::vector<Trace>& traces,
                                                  const Sweep& sweep) {
  std::vector<SimulatedRun> runs;
  for (const Trace& trace : traces) {
    for (const SweepStep& step : sweep.steps) {
      SimulatedRun run{&trace, step.value, step.policy, {}};
      absl::StatusOr<Replay> replay = ReplayTrace(trace, step.policy);
      if (replay.ok()) {
        run.replay = *std::move(replay);
      } else if (sweep.option.empty()) {
        return replay.status();
      } else {
        run.replay.notes.push_back(absl::StrCat("refused: ", replay.status().message()));
      }
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

std::string JsonText(const std::vector<SimulatedRun>& runs) {
  Json document{{"traces", Json::array()}};
  for (const SimulatedRun& run : runs) document["traces"].push_back(ToJson(run));
  return Document(document);
}

std::string Text(const std::vector<SimulatedRun>& runs, const std::string& option) {
  const bool one = runs.size() == 1 && option.empty();
  const Table table = one ? DecisionTable(runs.front().replay) : RunTable(runs, option);
  std::string text;
  if (!one || !runs.front().replay.decisions.empty()) {
    text = table.Text(TerminalWidth(STDOUT_FILENO), UseColour(STDOUT_FILENO));
  }
  if (one) absl::StrAppend(&text, Conclusion(runs.front()), "\n");
  return text;
}

void NoteAll(const std::vector<Trace>& traces, const std::vector<SimulatedRun>& runs,
             const std::string& option) {
  for (const Trace& trace : traces) {
    for (const std::string& note : trace.notes) Note(absl::StrCat(trace.path, ": ", note));
  }
  for (const SimulatedRun& run : runs) {
    const std::string at = option.empty() ? "" : absl::StrCat(" (", option, " ", run.swept, ")");
    for (const std::string& note : run.replay.notes) {
      Note(absl::StrCat(run.trace->path, at, ": ", note));
    }
  }
}

int Simulate(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<Sweep> sweep = ReadSweep(command, options);
  if (!sweep.ok()) return UsageError(invocation, command, std::string(sweep.status().message()));
  const std::vector<Trace> traces = ReadTraces(options.traces);
  const absl::StatusOr<std::vector<SimulatedRun>> runs = Replays(traces, *sweep);
  if (!runs.ok()) return UsageError(invocation, command, std::string(runs.status().message()));
  if (runs->empty()) return kExitOther;
  if (!Out(options.json ? JsonText(*runs) : Text(*runs, sweep->option))) return kExitOther;
  if (!options.json) NoteAll(traces, *runs, sweep->option);
  return traces.size() == options.traces.size() ? kExitOk : kExitOther;
}

void AddPolicyOptions(CLI::App& command, Options& options) {
  const auto add = [&](const char* name, std::optional<std::string>& value, const char* type,
                       const char* help) {
    command.add_option(name, value, help)->type_name(type)->group("Policy");
  };
  add("--wait-free", options.admission.wait_free, "PCT",
      "admit only while at least this much memory is available (40)");
  add("--swap-budget", options.admission.swap_budget, "SIZE",
      "stop it once the swap put down to it is over this (8G)");
  add("--swap-limit", options.admission.swap_limit, "SIZE",
      "stop it while the whole machine's swap is over this (none)");
  add("--kill-free", options.admission.kill_free, "PCT",
      "stop it while less memory than this is available (10)");
  add("--on-over-budget", options.admission.on_over_budget, "stop|suspend|warn",
      "what to do once it is over its swap budget (stop)");
}

}  // namespace

void AddSimulate(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("simulate", "what a policy would have done over recorded traces");
  const auto options = std::make_shared<Options>();
  command->add_option("traces", options->traces, "the recordings, JSON lines; - is stdin")
      ->required()
      ->type_name("TRACE");
  AddPolicyOptions(*command, *options);
  command
      ->add_option(
          "--sweep", options->sweep,
          "a line for each value of swap-budget, swap-limit, wait-free or kill-free, as in "
          "swap-budget=2G:12G:2G")
      ->type_name("NAME=FROM:TO:STEP");
  command->add_flag("--json", options->json,
                    "one document: {\"traces\": [{\"trace\": ..., \"decisions\": [...], "
                    "\"overshoot_bytes\": ...}]}");
  command->footer(absl::StrCat(kNotes, "\n\n", command->get_footer()));
  AddExample(*command, invocation,
             {"stageloadctl simulate run.jsonl --sweep swap-budget=4G:12G:4G"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Simulate(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
