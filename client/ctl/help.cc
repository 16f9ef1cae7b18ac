// stageloadctl help: the same as --help, for who has the habit of writing it so.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/usage.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/other_words.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

int Help(const Invocation& invocation, const CLI::App& root,
         const std::vector<std::string>& words) {
  const CLI::App* command = nullptr;
  if (const auto slip = FindCommand(root, words, command, WordsOfOtherTools())) {
    return UsageError(invocation, *slip->command, slip->what);
  }
  std::string name = root.get_name();
  for (const std::string& word : words) absl::StrAppend(&name, " ", word);
  // App::help would show that of the command that was parsed, which is this one.
  const std::string text =
      command->get_formatter()->make_help(command, name, CLI::AppFormatMode::Normal);
  return Out(text) ? kExitOk : kExitOther;
}

}  // namespace

void AddHelp(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("help", "what --help says of a command");
  const auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("command", *words, "the command; none: of all")->type_name("COMMAND");
  AddExample(*command, invocation, {"stageloadctl help daemon install"});
  command->callback([=, &app, &invocation] {
    invocation.action = [=, &app, &invocation] { return Help(invocation, app, *words); };
  });
}

}  // namespace stageload::ctl
