// The whole tree of commands: for the program, and for tests that walk it.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_COMMANDS_H_
#define STAGELOAD_CLIENT_CTL_COMMANDS_H_

#include <CLI/CLI.hpp>

#include "client/ctl/invocation.h"

namespace stageload::ctl {

// Adds every command and what holds for all of them. `app` and `invocation` outlive the actions.
void AddCommands(CLI::App& app, Invocation& invocation, bool& no_autostart);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_COMMANDS_H_
