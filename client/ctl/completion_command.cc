// stageloadctl completion: the scripts by which shells complete our command lines; and, hidden,
// `complete-words`, which they ask.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/closest_word.h"
#include "client/ctl/completion_live.h"
#include "client/ctl/completion_scripts.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

constexpr char kFooter[] =
    "Bash, and zsh after compinit, take it by\n"
    "  eval \"$(stageloadctl completion bash)\"\n"
    "\n"
    "For good: put that line into ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish. What a\n"
    "package has installed needs none of it. Jobs, groups and profiles are asked of the daemon\n"
    "that runs; none is started for it.";

const std::map<std::string, const char*>& Scripts() {
  static const auto* scripts = new std::map<std::string, const char*>{
      {"bash", kBashScript}, {"zsh", kZshScript}, {"fish", kFishScript}};
  return *scripts;
}

// A --socket among the words is meant for this, too.
std::string SocketAmong(const std::vector<std::string>& words) {
  constexpr char kOption[] = "--socket";
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i] == kOption && i + 2 < words.size()) return words[i + 1];
    if (absl::StartsWith(words[i], absl::StrCat(kOption, "="))) {
      return words[i].substr(sizeof(kOption));
    }
  }
  return "";
}

// What is to be done, on a line; then a line for each candidate.
std::string Text(const Completion& completion) {
  std::string text;
  switch (completion.then) {
    case Completion::Then::kFiles:
      return "files\n";
    case Completion::Then::kFolders:
      return "folders\n";
    case Completion::Then::kCommand:
      return absl::StrCat("command ", completion.command_at, "\n");
    case Completion::Then::kWords:
      text = "words\n";
  }
  for (const Candidate& candidate : completion.candidates) {
    // A name that would not come back as it is, such as one with a newline, is none to offer.
    if (Printable(candidate.word) != candidate.word) continue;
    absl::StrAppend(&text, candidate.word, "\t", Printable(candidate.what), "\n");
  }
  return text;
}

int CompleteWords(const CLI::App& app, const Invocation& invocation) {
  ConnectOptions connect = invocation.connect;
  const std::string socket = SocketAmong(invocation.command);
  if (!socket.empty()) connect.socket = socket;
  const Completion completion =
      Complete(app, invocation.takers, invocation.command, ValuesOfDaemon(connect));
  return Out(Text(completion)) ? kExitOk : kExitOther;
}

}  // namespace

void AddCompletion(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand(
      "completion", "a script by which bash, zsh or fish completes these commands at Tab");
  command->footer(kFooter);
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "whose script")->required()->type_name("bash|zsh|fish");
  AddExample(*command, invocation, {"stageloadctl completion fish | source"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] {
      const auto script = Scripts().find(*shell);
      if (script == Scripts().end()) {
        return UsageError(invocation, *command,
                          absl::StrCat("shell: \"", *shell, "\": write bash, zsh or fish",
                                       DidYouMean(*shell, {"bash", "zsh", "fish"})));
      }
      return Out(script->second) ? kExitOk : kExitOther;
    };
  });

  CLI::App* words = app.add_subcommand("complete-words", "for the scripts of completion");
  words->group("");
  TakesCommand(*words, invocation);
  words->callback([&app, &invocation] {
    invocation.action = [&app, &invocation] { return CompleteWords(app, invocation); };
  });
}

}  // namespace stageload::ctl
