// stageloadctl: builds the command line and runs the one command that was named. Called as
// `stageload` it is the same program.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/library_log.h"
#include "base/standard_streams.h"
#include "base/version.h"
#include "client/ctl/command_line.h"
#include "client/ctl/connection.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"

namespace stageload::ctl {

namespace {

constexpr char kFooter[] =
    "Exit codes: the command's own; 128+n if signal n ended it; 3 stopped by a budget or low\n"
    "memory; 4 no room before the start timeout; 127/126 the command is missing/cannot be\n"
    "executed; 2 wrong usage; 69 no daemon; 1 everything else.\n"
    "Sizes: 8G, 512M, 1.5GiB (binary; a bare number is bytes). Durations: 500ms, 90s, 30m, 2h, 1d\n"
    "(a bare number is seconds).";

std::string BaseName(const char* path) {
  const std::string name(path == nullptr ? "stageloadctl" : path);
  const std::size_t slash = name.rfind('/');
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

void AddCommands(CLI::App& app, Invocation& invocation) {
  AddGuard(app, invocation);
  AddSubmit(app, invocation);
  AddRun(app, invocation);
  AddQueue(app, invocation);
  AddShow(app, invocation);
  AddLogs(app, invocation);
  AddWait(app, invocation);
  AddCancel(app, invocation);
  AddHold(app, invocation);
  AddRelease(app, invocation);
  AddSuspend(app, invocation);
  AddResume(app, invocation);
  AddRetry(app, invocation);
  AddUpdate(app, invocation);
  AddClear(app, invocation);
  AddStatus(app, invocation);
  AddWatch(app, invocation);
  AddTop(app, invocation);
  AddHistory(app, invocation);
  AddProfile(app, invocation);
  AddSimulate(app, invocation);
  AddRecord(app, invocation);
  AddMark(app, invocation);
  AddSummary(app, invocation);
  AddPlot(app, invocation);
  AddDaemon(app, invocation);
  AddConfig(app, invocation);
  AddDoctor(app, invocation);
  AddVersion(app, invocation);
  AddCompletion(app, invocation);
  AddManPage(app, invocation);
}

void AddGlobalOptions(CLI::App& app, Invocation& invocation, bool& no_autostart) {
  app.add_option("--socket", invocation.connect.socket,
                 "the daemon's socket (STAGELOAD_SOCKET, or in STAGELOAD_HOME)")
      ->type_name("PATH");
  app.add_flag("--no-autostart", no_autostart,
               "do not start a daemon when none answers (also STAGELOAD_NO_AUTOSTART=1)");
  app.set_version_flag("--version", absl::StrCat(invocation.program, " ", kVersion),
                       "print this program's version; `version` says more");
}

// The deepest command that was named: its --help explains the error.
const CLI::App& Named(CLI::App& app) {
  const std::vector<CLI::App*> named = app.get_subcommands();
  return named.empty() ? app : Named(*named.front());
}

int Run(int argc, char** argv) {
  Invocation invocation;
  invocation.program = BaseName(argc > 0 ? argv[0] : nullptr);
  CLI::App app("Queues and guards commands that need much memory.", invocation.program);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(kFooter);
  bool no_autostart = false;
  AddGlobalOptions(app, invocation, no_autostart);
  AddCommands(app, invocation);

  CommandLine line = Split(app, invocation.takers,
                           std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  invocation.command = std::move(line.command);
  try {
    // CLI11 takes the words from the back.
    app.parse(std::vector<std::string>(line.ours.rbegin(), line.ours.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    // CLI11 says that a command is missing before it says that it does not know the one given.
    const std::vector<std::string> unknown = app.remaining();
    if (app.get_subcommands().empty() && !unknown.empty()) {
      return UsageError(invocation, app,
                        absl::StrCat("no such command or option: ", unknown.front()));
    }
    return UsageError(invocation, Named(app), error.what());
  }
  invocation.connect.on_answer = TellSkew;
  invocation.connect.autostart = !no_autostart && !client::AutostartForbidden();
  return invocation.action();
}

}  // namespace
}  // namespace stageload::ctl

int main(int argc, char** argv) {
  stageload::OpenStandardStreams();
  stageload::SilenceLibraryLog();
  try {
    const int code = stageload::ctl::Run(argc, argv);
    std::fflush(stdout);
    // Nothing is left to do, and taking a gRPC library down costs milliseconds.
    std::_Exit(code);
  } catch (const std::exception& error) {
    stageload::ctl::Note(error.what());
    return stageload::ctl::kExitOther;
  }
}
