// stageloadctl: builds the command line and runs the one command that was named. Called as
// `stageload` it is the same program.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/child_exits.h"
#include "base/file_limit.h"
#include "base/file_size_limit.h"
#include "base/library_log.h"
#include "base/standard_streams.h"
#include "base/usage.h"
#include "client/ctl/command_line.h"
#include "client/ctl/commands.h"
#include "client/ctl/connection.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/other_words.h"
#include "client/ctl/own_end.h"
#include "client/ctl/print.h"

namespace stageload::ctl {

namespace {

// A connection by gRPC, its threads' and a command's own; with room to spare.
constexpr rlim_t kNeededFiles = 64;

std::string BaseName(const char* path) {
  const std::string name(path == nullptr ? "stageloadctl" : path);
  const std::size_t slash = name.rfind('/');
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

// The deepest command that was named: its --help explains the error.
const CLI::App& Named(CLI::App& app) {
  const std::vector<CLI::App*> named = app.get_subcommands();
  return named.empty() ? app : Named(*named.front());
}

// The first that its help has.
std::string ExampleOf(const CLI::App& command, const Invocation& invocation) {
  for (const Example& example : invocation.examples) {
    if (example.command == &command) return example.line;
  }
  return "";
}

// What --help or --version asks for.
int Show(const CLI::App& app, const CLI::ParseError& asked) {
  std::ostringstream text;
  app.exit(asked, text, text);
  return Out(text.str()) ? kExitOk : kExitOther;
}

int Run(int argc, char** argv) {
  Invocation invocation;
  invocation.program = BaseName(argc > 0 ? argv[0] : nullptr);
  CLI::App app("Queues and guards commands that need much memory.", invocation.program);
  bool no_autostart = false;
  AddCommands(app, invocation, no_autostart);

  CommandLine line = Split(app, invocation.takers,
                           std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  invocation.command = std::move(line.command);
  if (const std::optional<Slip> slip = FindSlip(app, line.ours, WordsOfOtherTools())) {
    return UsageError(invocation, *slip->command, slip->what);
  }
  try {
    // CLI11 takes the words from the back.
    app.parse(std::vector<std::string>(line.ours.rbegin(), line.ours.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return Show(app, error);
    const CLI::App& named = Named(app);
    return UsageError(invocation, named, WhatIsWrong(named, error, ExampleOf(named, invocation)));
  }
  invocation.connect.on_answer = TellSkew;
  invocation.connect.on_silence = TellSilence;
  invocation.connect.autostart = !no_autostart && !client::AutostartForbidden();
  if (absl::Status status = NeedFiles(invocation.program, kNeededFiles); !status.ok()) {
    return Fail(status);
  }
  return invocation.action();
}

}  // namespace
}  // namespace stageload::ctl

int main(int argc, char** argv) {
  stageload::OpenStandardStreams();
  stageload::HearOfChildren();
  stageload::TakeFileTooLargeAsError();
  stageload::SilenceLibraryLog();
  try {
    int code = stageload::ctl::Run(argc, argv);
    if (!stageload::ctl::CloseOut() && code == stageload::ctl::kExitOk) {
      code = stageload::ctl::kExitOther;
    }
    stageload::ctl::EndWith(code);
  } catch (const std::exception& error) {
    stageload::ctl::Note(error.what());
    return stageload::ctl::kExitOther;
  }
}
