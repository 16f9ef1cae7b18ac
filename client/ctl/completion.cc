// Walks the tree along the words.
#include "client/ctl/completion.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/command_tree.h"
#include "base/usage.h"
#include "client/ctl/event_kinds.h"
#include "client/ctl/json.h"
#include "client/ctl/outcome.h"
#include "stageload/v1/job.pb.h"

namespace stageload::ctl {
namespace {

using Then = Completion::Then;

// Where the words before the last have led to.
struct Place {
  const CLI::App* command = nullptr;
  const CLI::Option* awaits = nullptr;  // the option whose value comes next
  bool only_positionals = false;        // after "--"
  std::optional<std::size_t> users_command;
  std::set<const CLI::Option*> given;
  std::vector<std::string> positionals;
};

bool IsIn(const std::vector<const CLI::App*>& apps, const CLI::App* app) {
  return std::find(apps.begin(), apps.end(), app) != apps.end();
}

// The option that `word` names, here or above: "--name", "--name=x", "-n", "-nx".
const CLI::Option* Named(const CLI::App& command, const std::string& word) {
  return FindOption(command,
                    word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2));
}

bool HoldsItsValue(const std::string& word) {
  return word.starts_with("--") ? absl::StrContains(word, "=") : word.size() > 2;
}

Place Follow(const CLI::App& root, const std::vector<const CLI::App*>& takers,
             const std::vector<std::string>& words) {
  Place place;
  place.command = &root;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    const bool takes = IsIn(takers, place.command);
    if (place.awaits != nullptr) {
      place.awaits = nullptr;
    } else if (!place.only_positionals && word == "--") {
      if (takes) place.users_command = i + 1;
      place.only_positionals = true;
    } else if (!place.only_positionals && IsOption(word)) {
      const CLI::Option* option = Named(*place.command, word);
      if (option == nullptr) continue;
      place.given.insert(option);
      if (TakesValue(*option) && !HoldsItsValue(word)) place.awaits = option;
    } else if (const CLI::App* named = SubcommandOf(*place.command, word); named != nullptr) {
      place.command = named;
    } else if (takes) {
      place.users_command = i;
    } else {
      place.positionals.push_back(word);
    }
    if (place.users_command) break;
  }
  return place;
}

// Hidden ones are for tests and for other programs.
bool IsShown(const CLI::Option& option) { return !option.get_group().empty(); }

// Not one that was given and may be given once, nor one that goes with nothing that was given.
bool MayStillBeGiven(const CLI::Option& option, const Place& place) {
  if (place.given.contains(&option)) return option.get_items_expected_max() > 1;
  return std::none_of(place.given.begin(), place.given.end(), [&](const CLI::Option* given) {
    const auto& excluded = given->get_excludes();
    return std::any_of(excluded.begin(), excluded.end(),
                       [&](const CLI::Option* each) { return each == &option; });
  });
}

void AddOptions(const Place& place, const std::string& begin, Completion& completion) {
  std::set<std::string> names;  // each command has a --help of its own
  for (const CLI::App* app = place.command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options({})) {
      if (!IsShown(*option) || !MayStillBeGiven(*option, place)) continue;
      std::vector<std::string> spellings;
      for (const std::string& name : option->get_lnames()) spellings.push_back("--" + name);
      for (const std::string& name : option->get_snames()) spellings.push_back("-" + name);
      for (const std::string& name : spellings) {
        if (absl::StartsWith(name, begin) && names.insert(name).second) {
          completion.candidates.push_back({name, option->get_description()});
        }
      }
    }
  }
}

std::vector<std::string> States() {
  std::vector<std::string> states;
  for (const v1::JobState state : JobStates()) states.push_back(absl::AsciiStrToLower(Word(state)));
  return states;
}

// The choices in what help says of the value, as in "stop|suspend|warn", "SIZE|auto" and the
// "{a,b}" of CLI11's own sets: what is in capitals stands for something.
std::vector<std::string> Choices(const std::string& type) {
  std::vector<std::string> choices;
  const bool is_set = absl::StrContains(type, "{");
  if (!is_set && !absl::StrContains(type, "|")) return choices;
  const std::string list =
      is_set ? type.substr(type.find('{') + 1, type.find('}') - type.find('{') - 1) : type;
  for (const std::string& word :
       std::vector<std::string>(absl::StrSplit(list, is_set ? ',' : '|'))) {
    if (word == absl::AsciiStrToLower(word)) choices.push_back(word);
  }
  return choices;
}

std::vector<Candidate> Plain(const std::vector<std::string>& words) {
  std::vector<Candidate> candidates;
  for (const std::string& word : words) candidates.push_back({word, ""});
  return candidates;
}

bool IsCalled(const CLI::Option& option, const char* name) {
  return option.get_positional() ? option.get_name() == name : option.check_lname(name);
}

std::vector<Candidate> ShownBelow(const CLI::App& command) {
  std::vector<Candidate> candidates;
  for (const CLI::App* each : ShownCommands(command)) {
    candidates.push_back({each->get_name(), each->get_description()});
  }
  return candidates;
}

// The commands below the one that the words of `help` have led to.
std::vector<Candidate> CommandsForHelp(const Place& place) {
  const CLI::App* above = place.command->get_parent();
  for (const std::string& word : place.positionals) {
    if (above == nullptr) return {};
    above = SubcommandOf(*above, word);
  }
  return above == nullptr ? std::vector<Candidate>() : ShownBelow(*above);
}

// The kinds of values go by the names that help has for them.
std::vector<Candidate> ValuesOf(const CLI::Option& option, const Place& place,
                                const LiveValues& live) {
  const std::string type = option.get_type_name();
  if (type == "COMMAND") return CommandsForHelp(place);
  if (type == "ID") return live.jobs(place.command->get_name());
  if (absl::StartsWith(type, "ID[")) return live.jobs("--" + option.get_lnames().front());
  if (absl::StartsWith(type, "STATE")) return Plain(States());
  if (absl::StartsWith(type, "EVENT")) return Plain(EventKinds());
  if (IsCalled(option, "platform")) return Plain({"linux", "macos"});
  if (IsCalled(option, "group")) return live.groups();
  if (IsCalled(option, "profile")) return live.profiles();
  if (option.get_positional() && place.command->get_name() == "profile") return live.profiles();
  return Plain(Choices(type));
}

// `begin` is what there is of the value, `before` what stands before it in the same word.
void AddValues(const CLI::Option& option, const Place& place, std::string before, std::string begin,
               const LiveValues& live, Completion& completion) {
  const std::string type = option.get_type_name();
  if (type == "TRACE" || type == "FILE" || type == "PATH") completion.then = Then::kFiles;
  if (type == "DIR") completion.then = Then::kFolders;
  if (completion.then != Then::kWords) return;
  std::vector<std::string> taken =
      option.get_positional() ? place.positionals : std::vector<std::string>();
  if (absl::StrContains(type, "[,")) {              // a list: its last value is completed
    const std::size_t head = begin.rfind(',') + 1;  // 0 when there is none
    taken = std::vector<std::string>(absl::StrSplit(begin.substr(0, head), ','));
    before += begin.substr(0, head);
    begin = begin.substr(head);
  }
  std::vector<Candidate> values = ValuesOf(option, place, live);
  for (Candidate& value : values) {
    if (!absl::StartsWith(value.word, begin)) continue;
    if (std::find(taken.begin(), taken.end(), value.word) != taken.end()) continue;
    completion.candidates.push_back({before + value.word, std::move(value.what)});
  }
}

void AddSubcommands(const Place& place, const std::string& begin, Completion& completion) {
  for (Candidate& each : ShownBelow(*place.command)) {
    if (absl::StartsWith(each.word, begin)) completion.candidates.push_back(std::move(each));
  }
}

// The positional whose turn it is; none when all have their values.
const CLI::Option* NextPositional(const Place& place) {
  std::size_t before = 0;
  for (const CLI::Option* option : place.command->get_options({})) {
    if (!option->get_positional()) continue;
    before += static_cast<std::size_t>(std::max(1, option->get_items_expected_max()));
    if (place.positionals.size() < before && MayStillBeGiven(*option, place)) return option;
  }
  return nullptr;
}

}  // namespace

Completion Complete(const CLI::App& root, const std::vector<const CLI::App*>& takers,
                    const std::vector<std::string>& words, const LiveValues& live) {
  Completion completion;
  const std::string last = words.empty() ? "" : words.back();
  const Place place = Follow(root, takers, words);
  if (place.users_command) {
    completion.then = Then::kCommand;
    completion.command_at = *place.users_command;
  } else if (place.awaits != nullptr) {
    AddValues(*place.awaits, place, "", last, live, completion);
  } else if (!place.only_positionals && last.starts_with("-")) {
    const std::size_t equals = last.starts_with("--") ? last.find('=') : std::string::npos;
    if (equals == std::string::npos) {
      AddOptions(place, last, completion);
    } else if (const CLI::Option* option = Named(*place.command, last); option != nullptr) {
      AddValues(*option, place, last.substr(0, equals + 1), last.substr(equals + 1), live,
                completion);
    }
  } else if (IsIn(takers, place.command)) {
    completion.then = Then::kCommand;
    completion.command_at = words.empty() ? 0 : words.size() - 1;
  } else if (!place.command->get_subcommands({}).empty()) {
    AddSubcommands(place, last, completion);
  } else if (const CLI::Option* option = NextPositional(place); option != nullptr) {
    AddValues(*option, place, "", last, live, completion);
  }
  return completion;
}

}  // namespace stageload::ctl
