// stageloadctl guard: waits for room, runs a command here, and has it stopped when it goes over its
// budget.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/foreground_command.h"
#include "client/ctl/guard_run.h"
#include "client/ctl/guard_trace.h"
#include "client/ctl/held_child.h"
#include "client/ctl/invocation.h"
#include "client/ctl/options.h"

namespace stageload::ctl {
namespace {

struct Options {
  AdmissionOptions admission;
  std::optional<std::string> poll;
  std::string trace;
};

// stageload 0.1 had it, so its command lines have it.
absl::Status CheckPoll(const std::optional<std::string>& text) {
  if (!text) return absl::OkStatus();
  const absl::StatusOr<absl::Duration> poll = DurationOption("--poll", *text);
  if (!poll.ok()) return poll.status();
  if (*poll > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--poll ", *text, ": must be above 0, as in 5s"));
}

// All but the pid.
absl::StatusOr<v1::GuardRequest> ToGuardRequest(AdmissionOptions options,
                                                const std::vector<std::string>& command) {
  const std::vector<std::string> without = TakeNone(options);
  absl::StatusOr<v1::Policy> policy = ToPolicy(options);
  if (!policy.ok()) return policy.status();
  absl::StatusOr<v1::Terms> terms = ToTerms(options);
  if (!terms.ok()) return terms.status();
  v1::GuardRequest request;
  for (const std::string& word : command) request.add_arguments(word);
  request.set_name(options.name);
  *request.mutable_policy() = *std::move(policy);
  for (const std::string& field : without) request.add_clear_fields(field);
  *request.mutable_terms() = *std::move(terms);
  return request;
}

// Null without --trace.
absl::StatusOr<std::unique_ptr<GuardTrace>> MakeTrace(const std::string& path) {
  if (path.empty()) return std::unique_ptr<GuardTrace>();
  absl::StatusOr<std::unique_ptr<GuardTrace>> trace = GuardTrace::Create(path);
  if (!absl::IsAlreadyExists(trace.status())) return trace;
  return absl::AlreadyExistsError(
      absl::StrCat("--trace: ", std::string(trace.status().message()),
                   "; remove it or choose another name, as in --trace run-$(date +%s).jsonl"));
}

int Guard(const Invocation& invocation, const CLI::App& command, const Options& options) {
  if (invocation.command.empty() || invocation.command.front().empty()) {
    return UsageError(invocation, command,
                      "no command given; write it behind the options, as in `-- python train.py`");
  }
  if (const absl::Status poll = CheckPoll(options.poll); !poll.ok()) {
    return UsageError(invocation, command, std::string(poll.message()));
  }
  if (options.trace == "-") {
    return UsageError(invocation, command, absl::StrCat("--trace -: ", kStdoutIsTheCommands));
  }
  absl::StatusOr<v1::GuardRequest> request = ToGuardRequest(options.admission, invocation.command);
  if (!request.ok()) {
    return UsageError(invocation, command, std::string(request.status().message()));
  }
  absl::StatusOr<std::unique_ptr<GuardTrace>> trace = MakeTrace(options.trace);
  if (!trace.ok()) return Fail(trace.status());
  int code = kExitOther;
  std::optional<HeldChild> child = HoldCommand(invocation.command, code);
  if (!child) return code;
  return GuardRun(*std::move(child), *std::move(request), *std::move(trace))
      .Run(invocation.connect);
}

}  // namespace

void AddGuard(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("guard", "wait for room, run a command here, stop it over its budget");
  const auto options = std::make_shared<Options>();
  AddAdmissionOptions(*command, options->admission, "30m");
  command
      ->add_option("--poll", options->poll,
                   "as in stageload 0.1, and without effect: the daemon reads the machine twice a "
                   "second, and more often when it gets close")
      ->type_name("DUR")
      ->group(kAdmissionHeading);
  command
      ->add_option("--trace", options->trace,
                   "record the run there, as `record` does; a file with something in it is left "
                   "alone")
      ->type_name("FILE");
  TakesCommand(
      *command, invocation,
      "The command keeps this terminal, folder and stdin. SIGTERM, SIGHUP and a SIGINT of kill\n"
      "end the command first; the exit code is the command's then, too. Ctrl-C is the command's\n"
      "own, which is ended only where it ignores it. Time stopped by Ctrl-Z counts as running. If\n"
      "this process is killed, the daemon goes on watching the command.");
  AddExample(*command, invocation,
             {"stageload guard --memory 18G --swap-budget 8G -- python3 generate.py"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Guard(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
