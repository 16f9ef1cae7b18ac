// Puts the tree together, in the order in which help has it.
#include "client/ctl/commands.h"

#include "absl/strings/str_cat.h"
#include "base/version.h"

namespace stageload::ctl {
namespace {

constexpr char kFooter[] =
    "Exit codes: the command's own; 128+n if signal n ended it; 3 stopped by a budget or low\n"
    "memory; 4 no room before the start timeout; 127 the command could not be started; 2 wrong\n"
    "usage; 69 no daemon; 1 everything else.\n"
    "Sizes: 8G, 512M, 1.5GiB (binary; a bare number is bytes). Durations: 500ms, 90s, 30m, 2h, 1d\n"
    "(a bare number is seconds).";

void AddEach(CLI::App& app, Invocation& invocation) {
  AddGuard(app, invocation);
  AddSubmit(app, invocation);
  AddRun(app, invocation);
  AddQueue(app, invocation);
  AddShow(app, invocation);
  AddExplain(app, invocation);
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
  AddHelp(app, invocation);
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

}  // namespace

void AddCommands(CLI::App& app, Invocation& invocation, bool& no_autostart) {
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(kFooter);
  AddGlobalOptions(app, invocation, no_autostart);
  AddEach(app, invocation);
}

}  // namespace stageload::ctl
