// Finding one's way in the tree of commands, for whoever reads words as CLI11 does.
//
// Threading: pure functions.
#ifndef STAGELOAD_BASE_COMMAND_TREE_H_
#define STAGELOAD_BASE_COMMAND_TREE_H_

#include <CLI/CLI.hpp>
#include <string>

namespace stageload {

// "-n", "--name" and "--", but not "-".
bool IsOption(const std::string& word);

// Directly below; null when there is none.
const CLI::App* SubcommandOf(const CLI::App& command, const std::string& name);

// Of `command` or of one above it: "--name" or "-n". Null when there is none.
const CLI::Option* FindOption(const CLI::App& command, const std::string& name);
// No flag.
bool TakesValue(const CLI::Option& option);

}  // namespace stageload

#endif  // STAGELOAD_BASE_COMMAND_TREE_H_
