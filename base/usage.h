// What is wrong with a command line of one of our programs, in words that name the word and, where
// one is close, the right one. CLI11 says what is missing before it says what it does not know, and
// says neither shortly.
//
// Threading: pure functions.
#ifndef STAGELOAD_BASE_USAGE_H_
#define STAGELOAD_BASE_USAGE_H_

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace stageload {

struct Slip {
  const CLI::App* command;  // whose help explains it
  std::string what;
};

// Words of other programs for commands, each with what is to be said instead: {"ls", "queue"}.
using OtherWords = std::map<std::string, std::string>;

// The first of `words` (without the program's name and a command line of the user's) that the tree
// of commands has no place for, an option that is given twice or has no value, or that there is no
// command. Where help is asked for, only what there is not.
std::optional<Slip> FindSlip(const CLI::App& root, const std::vector<std::string>& words,
                             const OtherWords& other_words = {});

// What CLI11 has found that FindSlip does not look for: what is required, and what does not go
// together. `example` is a line that has what is required; it may be empty.
std::string WhatIsWrong(const CLI::App& command, const CLI::ParseError& error,
                        const std::string& example = "");

// Those of `command` that its help shows.
std::vector<const CLI::App*> ShownCommands(const CLI::App& command);

// The command that `words` name, from `root` down; a slip at the first that names none.
std::optional<Slip> FindCommand(const CLI::App& root, const std::vector<std::string>& words,
                                const CLI::App*& found, const OtherWords& other_words = {});

}  // namespace stageload

#endif  // STAGELOAD_BASE_USAGE_H_
