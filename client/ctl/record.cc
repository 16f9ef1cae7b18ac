// stageloadctl record: a command, or a process that runs already, with all its descendants, sampled
// from outside into a trace.
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/foreground_command.h"
#include "client/ctl/held_child.h"
#include "client/ctl/invocation.h"
#include "client/ctl/options.h"
#include "client/ctl/record_run.h"
#include "client/ctl/recording.h"

namespace stageload::ctl {
namespace {

// telemetry_service.proto
constexpr absl::Duration kShortestInterval = absl::Milliseconds(20);
constexpr absl::Duration kLongestInterval = absl::Hours(1);

constexpr char kNotes[] =
    "The command keeps this terminal, folder and streams; its exit code is ours. With --pid it "
    "ends\n"
    "when the process and its descendants are gone, or on Ctrl-C. `stageloadctl mark` and the C++\n"
    "library put stages and notes into it; `summary` and `plot` read it (docs/traces.md).";

struct Options {
  std::string path;
  bool force = false;
  std::optional<std::string> interval;
  std::optional<std::string> pid;
  bool quiet = false;
};

absl::StatusOr<absl::Duration> ReadInterval(const std::optional<std::string>& given) {
  if (!given) return Recording::kInterval;
  const std::string& text = *given;
  const absl::StatusOr<absl::Duration> interval = DurationOption("--interval", text);
  if (interval.ok() && (*interval < kShortestInterval || *interval > kLongestInterval)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--interval ", text, ": not from 20ms to 1h, as in --interval 100ms"));
  }
  return interval;
}

absl::StatusOr<pid_t> ReadPid(const std::string& text) {
  std::int32_t pid = 0;
  if (absl::SimpleAtoi(text, &pid) && pid > 0) return static_cast<pid_t>(pid);
  return absl::InvalidArgumentError(
      absl::StrCat("--pid \"", text, "\": not a process's number, as in --pid 4711"));
}

int RecordCommand(const Invocation& invocation, RecordOptions options) {
  int code = kExitOther;
  std::optional<HeldChild> child = HoldCommand(invocation.command, code);
  if (!child) return code;
  return RecordRun(std::move(options), *std::move(child), invocation.command)
      .Run(invocation.connect);
}

int RecordProcess(const Invocation& invocation, RecordOptions options, pid_t pid) {
  std::signal(SIGPIPE, SIG_IGN);
  return RecordRun(std::move(options), pid).Run(invocation.connect);
}

int Record(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const bool has_command = !invocation.command.empty() && !invocation.command.front().empty();
  if (has_command == options.pid.has_value()) {
    return UsageError(invocation, command,
                      has_command ? "--pid and a command: only one of them can be recorded"
                                  : absl::StrCat("what is to be recorded? Name a command, as in `",
                                                 invocation.program,
                                                 " record -o run.jsonl -- python train.py`, "
                                                 "or a process, as in `--pid 4711`"));
  }
  if (has_command && options.path == "-") {
    return UsageError(invocation, command, absl::StrCat("-o -: ", kStdoutIsTheCommands));
  }
  const absl::StatusOr<absl::Duration> interval = ReadInterval(options.interval);
  if (!interval.ok()) {
    return UsageError(invocation, command, std::string(interval.status().message()));
  }
  RecordOptions record{
      options.path,
      options.force ? TraceWriter::Existing::kOverwrite : TraceWriter::Existing::kRefuse, *interval,
      options.quiet};
  if (has_command) return RecordCommand(invocation, std::move(record));
  const absl::StatusOr<pid_t> pid = ReadPid(*options.pid);
  if (!pid.ok()) return UsageError(invocation, command, std::string(pid.status().message()));
  return RecordProcess(invocation, std::move(record), *pid);
}

}  // namespace

void AddRecord(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("record", "write down what a command or a process takes, as a trace");
  const auto options = std::make_shared<Options>();
  command->add_option("-o,--output", options->path, "where to, JSON lines; with --pid, - is stdout")
      ->required()
      ->type_name("FILE");
  command->add_flag("--force", options->force, "write over a file that is there");
  command->add_option("--interval", options->interval, "from one sample to the next (500ms)")
      ->type_name("DUR");
  command->add_option("--pid", options->pid, "of a process that runs already")->type_name("P");
  command->add_flag("-q,--quiet", options->quiet, "no line on stderr in the end");
  TakesCommand(*command, invocation, kNotes);
  AddExample(*command, invocation, {"stageloadctl record -o run.jsonl -- python3 generate.py"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Record(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
