#include "base/command_tree.h"

namespace stageload {

bool IsOption(const std::string& word) { return word.size() > 1 && word.front() == '-'; }

const CLI::App* SubcommandOf(const CLI::App& command, const std::string& name) {
  for (const CLI::App* each : command.get_subcommands({})) {
    if (each->get_name() == name) return each;
  }
  return nullptr;
}

const CLI::Option* FindOption(const CLI::App& command, const std::string& name) {
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    if (const CLI::Option* option = app->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

}  // namespace stageload
