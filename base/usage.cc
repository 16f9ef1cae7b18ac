// Walks the tree of commands along the words.
#include "base/usage.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/closest_word.h"
#include "base/command_tree.h"
#include "base/utf8.h"

namespace stageload {
namespace {

std::vector<std::string> NamesOf(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const CLI::App* each : commands) names.push_back(each->get_name());
  return names;
}

// "stageloadctl", "submit", "daemon install".
std::string PathOf(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  if (parent == nullptr || parent->get_parent() == nullptr) return command.get_name();
  return absl::StrCat(PathOf(*parent), " ", command.get_name());
}

// `name` is that of a command one level further down: "daemon install".
std::string DeeperCommand(const CLI::App& command, const std::string& name) {
  for (const CLI::App* each : ShownCommands(command)) {
    if (SubcommandOf(*each, name) != nullptr) return absl::StrCat(each->get_name(), " ", name);
  }
  return "";
}

// "; did you mean queue?", or nothing.
std::string CommandMeant(const CLI::App& above, const std::string& word,
                         const OtherWords& other_words) {
  const auto other = other_words.find(word);
  const bool is_other = above.get_parent() == nullptr && other != other_words.end();
  const std::string meant = is_other ? other->second : DeeperCommand(above, word);
  if (!meant.empty()) return absl::StrCat("; did you mean ", meant, "?");
  return DidYouMean(word, NamesOf(ShownCommands(above)));
}

Slip UnknownCommand(const CLI::App& above, const std::string& word, const OtherWords& other_words) {
  const std::string meant = CommandMeant(above, word, other_words);
  if (above.get_parent() == nullptr) {
    return {&above, absl::StrCat("no such command: ", word, meant)};
  }
  return {&above,
          absl::StrCat(
              "no such command of ", PathOf(above), ": ", word,
              meant.empty()
                  ? absl::StrCat("; there are ", absl::StrJoin(NamesOf(ShownCommands(above)), ", "))
                  : meant)};
}

Slip MissingCommand(const CLI::App& above) {
  return {&above,
          absl::StrCat("name a command: ", absl::StrJoin(NamesOf(ShownCommands(above)), ", "))};
}

// "--memory", "-n", "--pid".
std::vector<std::string> OptionsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options({})) {
      if (option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

Slip UnknownOption(const CLI::App& command, const std::string& name) {
  return {&command, absl::StrCat("no such option of ", PathOf(command), ": ", name,
                                 DidYouMean(name, OptionsOf(command)))};
}

// Then CLI11 looks at nothing else.
bool AsksForText(const std::string& word) {
  return word == "--help" || word == "-h" || word == "--version";
}

// A file's name may be any bytes.
bool IsPath(const CLI::Option& option) {
  static const std::set<std::string> paths{"COMMAND", "DIR", "FILE", "PATH", "TRACE"};
  return paths.contains(option.get_type_name());
}

// The words as CLI11 reads them.
class Walk {
 public:
  Walk(const CLI::App& root, const std::vector<std::string>& words, const OtherWords& other_words)
      : command_(&root),
        words_(words),
        other_words_(other_words),
        asks_for_text_(std::any_of(words.begin(), words.end(), AsksForText)) {}

  std::optional<Slip> FindSlip() {
    for (; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_];
      std::optional<Slip> slip;
      if (IsOption(word) && !only_words_) {
        slip = word.starts_with("--") ? Long(word) : Short(word);
      } else {
        slip = Plain(word);
      }
      if (slip) return slip;
    }
    if (command_->get_require_subcommand_min() > 0) return Misused(MissingCommand(*command_));
    return std::nullopt;
  }

 private:
  // How the words go together is told by the help that is asked for.
  std::optional<Slip> Misused(Slip slip) const {
    if (asks_for_text_) return std::nullopt;
    return slip;
  }

  std::optional<Slip> Long(const std::string& word) {
    if (word == "--") {
      only_words_ = true;
      return std::nullopt;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const CLI::Option* option = FindOption(*command_, name);
    if (option == nullptr) return UnknownOption(*command_, name);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);
    if (!TakesValue(*option) && value && *value != "true" && *value != "false") {
      return Misused({command_, absl::StrCat(name, " takes no value: ", word)});
    }
    return Given(*option, name, value);
  }

  // "-f", "-n20" and "-ft": flags, and at the end one that may have its value behind it.
  std::optional<Slip> Short(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const std::string name = absl::StrCat("-", word.substr(i, 1));
      const CLI::Option* option = FindOption(*command_, name);
      if (option == nullptr) return UnknownOption(*command_, i == 1 ? word : name);
      const bool takes = TakesValue(*option);
      const std::string rest = word.substr(i + 1);
      auto slip = Given(*option, name, rest.empty() ? std::nullopt : std::optional(rest));
      if (slip) return slip;
      if (takes) break;
    }
    return std::nullopt;
  }

  // Takes its value, too.
  std::optional<Slip> Given(const CLI::Option& option, const std::string& name,
                            const std::optional<std::string>& value) {
    if (!TakesValue(option)) return std::nullopt;
    const bool once = option.get_items_expected_max() == 1;
    if (once && ++given_[&option] > 1) {
      return Misused({command_, absl::StrCat(name, ": given twice; it is taken once")});
    }
    if (value) return CheckText(option, name, *value);
    if (++at_ < words_.size()) return CheckText(option, name, words_[at_]);
    return Misused(
        {command_, absl::StrCat(name, ": its value is missing (", option.get_type_name(), ")")});
  }

  std::optional<Slip> CheckText(const CLI::Option& option, const std::string& name,
                                const std::string& value) const {
    if (IsPath(option) || IsUtf8(value)) return std::nullopt;
    return Misused({command_, absl::StrCat(name, ": \"", absl::CHexEscape(value),
                                           "\" is not UTF-8; write it in a terminal whose "
                                           "encoding is UTF-8")});
  }

  std::optional<Slip> Plain(const std::string& word) {
    if (command_->get_require_subcommand_min() > 0) {
      const CLI::App* named = SubcommandOf(*command_, word);
      if (named == nullptr) return UnknownCommand(*command_, word, other_words_);
      command_ = named;
      return std::nullopt;
    }
    int places = 0;
    std::string types;
    for (const CLI::Option* option : command_->get_options({})) {
      if (!option->get_positional()) continue;
      if (auto slip = CheckText(*option, option->get_type_name(), word)) return slip;
      absl::StrAppend(&types, types.empty() ? "" : " ", option->get_type_name());
      if (option->get_items_expected_max() > 1) return std::nullopt;
      ++places;
    }
    if (++positionals_ <= places) return std::nullopt;
    return Misused({command_, places == 0
                                  ? absl::StrCat(PathOf(*command_), " takes no argument: ", word)
                                  : absl::StrCat(PathOf(*command_), " takes one ", types,
                                                 " and no more: ", word)});
  }

  const CLI::App* command_;
  const std::vector<std::string>& words_;
  const OtherWords& other_words_;
  const bool asks_for_text_;
  std::size_t at_ = 0;
  bool only_words_ = false;  // after "--"
  int positionals_ = 0;
  std::map<const CLI::Option*, int> given_;
};

// "ID", "--group", "-n".
std::string NameOf(const CLI::Option& option) {
  if (option.get_positional()) return option.get_type_name();
  return option.get_lnames().empty() ? "-" + option.get_snames().front()
                                     : "--" + option.get_lnames().front();
}

std::string MissingOf(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options({})) {
    if (!option->get_required() || option->count() > 0) continue;
    return absl::StrCat(NameOf(*option), option->get_positional() ? "" : " ",
                        option->get_positional() ? "" : option->get_type_name(), " is missing");
  }
  return "";
}

std::string ExcludedOf(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options({})) {
    if (option->count() == 0) continue;
    for (const CLI::Option* other : option->get_excludes()) {
      if (other->count() == 0) continue;
      return absl::StrCat(NameOf(*option), " and ", NameOf(*other), " do not go together");
    }
  }
  return "";
}

}  // namespace

std::vector<const CLI::App*> ShownCommands(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); });
}

std::optional<Slip> FindCommand(const CLI::App& root, const std::vector<std::string>& words,
                                const CLI::App*& found, const OtherWords& other_words) {
  found = &root;
  for (const std::string& word : words) {
    const CLI::App* named = SubcommandOf(*found, word);
    if (named == nullptr && found->get_subcommands({}).empty()) {
      return Slip{found, absl::StrCat(PathOf(*found), " has no commands of its own: ", word)};
    }
    if (named == nullptr) return UnknownCommand(*found, word, other_words);
    found = named;
  }
  return std::nullopt;
}

std::optional<Slip> FindSlip(const CLI::App& root, const std::vector<std::string>& words,
                             const OtherWords& other_words) {
  return Walk(root, words, other_words).FindSlip();
}

std::string WhatIsWrong(const CLI::App& command, const CLI::ParseError& error,
                        const std::string& example) {
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const std::string missing = MissingOf(command);
    const std::string as_in = example.empty() ? "" : absl::StrCat(", as in `", example, "`");
    if (!missing.empty()) return missing + as_in;
  }
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
    const std::string excluded = ExcludedOf(command);
    if (!excluded.empty()) return excluded;
  }
  return error.what();
}

}  // namespace stageload
