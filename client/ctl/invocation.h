// One call of the program: what main.cc gives to every command and what a command gives back.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_INVOCATION_H_
#define STAGELOAD_CLIENT_CTL_INVOCATION_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/ctl/connection.h"

namespace stageload::ctl {

struct Example {
  const CLI::App* command;
  std::string line;
};

struct Invocation {
  std::string program;  // as it was called: "stageloadctl", "stageload"
  ConnectOptions connect;
  // The commands after whose options a command line of the user's begins...
  std::vector<const CLI::App*> takers;
  // ... and that command line.
  std::vector<std::string> command;
  // A line for each command that one could type, as its help shows it.
  std::vector<Example> examples;
  // Set by the command that was named; returns the exit code.
  std::function<int()> action;
};

// Says on stderr what is wrong and where the help is; returns 2.
int UsageError(const Invocation& invocation, const CLI::App& command, const std::string& what);

// Makes a command line of the user's follow the options of `command`, also in its usage line;
// `notes` go under its help, before what holds for all commands.
void TakesCommand(CLI::App& command, Invocation& invocation, const std::string& notes = "");

// Puts lines that one could type on top of what stands below the help of `command`.
void AddExample(CLI::App& command, Invocation& invocation, const std::vector<std::string>& lines);

// Each adds one command to `app`, in the file of its name. The invocation outlives the action.
void AddSubmit(CLI::App& app, Invocation& invocation);
void AddRun(CLI::App& app, Invocation& invocation);
void AddGuard(CLI::App& app, Invocation& invocation);
void AddQueue(CLI::App& app, Invocation& invocation);
void AddShow(CLI::App& app, Invocation& invocation);
void AddLogs(CLI::App& app, Invocation& invocation);
void AddWait(CLI::App& app, Invocation& invocation);
void AddCancel(CLI::App& app, Invocation& invocation);
void AddHold(CLI::App& app, Invocation& invocation);
void AddRelease(CLI::App& app, Invocation& invocation);
void AddSuspend(CLI::App& app, Invocation& invocation);
void AddResume(CLI::App& app, Invocation& invocation);
void AddRetry(CLI::App& app, Invocation& invocation);
void AddUpdate(CLI::App& app, Invocation& invocation);
void AddProfile(CLI::App& app, Invocation& invocation);
void AddClear(CLI::App& app, Invocation& invocation);
void AddStatus(CLI::App& app, Invocation& invocation);
void AddWatch(CLI::App& app, Invocation& invocation);
void AddTop(CLI::App& app, Invocation& invocation);
void AddHistory(CLI::App& app, Invocation& invocation);
void AddSimulate(CLI::App& app, Invocation& invocation);
void AddRecord(CLI::App& app, Invocation& invocation);
void AddMark(CLI::App& app, Invocation& invocation);
void AddSummary(CLI::App& app, Invocation& invocation);
void AddPlot(CLI::App& app, Invocation& invocation);
void AddVersion(CLI::App& app, Invocation& invocation);
void AddDaemon(CLI::App& app, Invocation& invocation);
void AddConfig(CLI::App& app, Invocation& invocation);
void AddDoctor(CLI::App& app, Invocation& invocation);
void AddCompletion(CLI::App& app, Invocation& invocation);
void AddManPage(CLI::App& app, Invocation& invocation);
void AddHelp(CLI::App& app, Invocation& invocation);
void AddExplain(CLI::App& app, Invocation& invocation);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_INVOCATION_H_
