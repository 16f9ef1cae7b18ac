// Cuts argv.
#include "client/ctl/command_line.h"

#include <algorithm>
#include <cstddef>

#include "base/command_tree.h"

namespace stageload::ctl {
namespace {

// Whether the word after `word` is its value: a known option that takes one and does not hold it
// already, as in --name=x and -nx. An unknown option takes none: CLI11 will refuse it.
bool TakesNext(const CLI::App& command, const std::string& word) {
  const bool is_long = word.starts_with("--");
  if (is_long && word.find('=') != std::string::npos) return false;
  if (!is_long && word.size() > 2) return false;
  const CLI::Option* option = FindOption(command, word);
  return option != nullptr && TakesValue(*option);
}

}  // namespace

CommandLine Split(const CLI::App& app, const std::vector<const CLI::App*>& takers,
                  const std::vector<std::string>& arguments) {
  const CLI::App* command = nullptr;
  std::size_t i = 0;
  for (; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (IsOption(word)) {
      if (command != nullptr && word == "--") break;
      if (TakesNext(command == nullptr ? app : *command, word)) ++i;
      continue;
    }
    if (command != nullptr) break;
    const auto named = std::find_if(takers.begin(), takers.end(), [&](const CLI::App* taker) {
      return taker->get_name() == word;
    });
    if (named == takers.end()) return {arguments, {}};
    command = *named;
  }
  const auto cut = arguments.begin() + static_cast<std::ptrdiff_t>(std::min(i, arguments.size()));
  CommandLine line{{arguments.begin(), cut}, {cut, arguments.end()}};
  if (!line.command.empty() && line.command.front() == "--")
    line.command.erase(line.command.begin());
  return line;
}

}  // namespace stageload::ctl
