// What is wrong with a command line, in words that name the word and, where one is close, the right
// one. CLI11 says what is missing before it says what it does not know, and says neither shortly.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_USAGE_H_
#define STAGELOAD_CLIENT_CTL_USAGE_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "client/ctl/invocation.h"

namespace stageload::ctl {

struct Slip {
  const CLI::App* command;  // whose help explains it
  std::string what;
};

// The first of our words (command_line.h) that the tree of commands has no place for, an option
// that is given twice or has no value, or that there is no command. None when help is asked for.
std::optional<Slip> FindSlip(const CLI::App& root, const std::vector<std::string>& words);

// What CLI11 has found that FindSlip does not look for: what is required, and what does not go
// together.
std::string WhatIsWrong(const CLI::App& command, const std::vector<Example>& examples,
                        const CLI::ParseError& error);

// Those of `command` that its help shows.
std::vector<const CLI::App*> ShownCommands(const CLI::App& command);

// The command that `words` name, from `root` down; a slip at the first that names none.
std::optional<Slip> FindCommand(const CLI::App& root, const std::vector<std::string>& words,
                                const CLI::App*& found);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_USAGE_H_
