// What may come next on a command line, for a small tree of commands and for the program's own.
#include "client/ctl/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/client/ctl/program.h"

namespace stageload::ctl {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using Words = std::vector<std::string>;

class CompletionTest : public testing::Test {
 protected:
  CompletionTest() {
    root_.add_option("--socket", text_, "where")->type_name("PATH");
    CLI::App* submit = root_.add_subcommand("submit", "queue it");
    submit->add_option("--charge", text_, "what counts")->type_name("system|own");
    submit->add_option("--memory", text_, "how much")->type_name("SIZE|auto");
    submit->add_option("--after", ids_, "then")->type_name("ID[,ID...]")->allow_extra_args(false);
    submit->add_option("--env", ids_, "more")->type_name("NAME=VALUE")->allow_extra_args(false);
    submit->add_option("--group", text_, "of them")->type_name("NAME");
    submit->add_option("-o,--output", text_, "to")->type_name("FILE");
    submit->add_option("--cwd", text_, "in")->type_name("DIR");
    CLI::Option* wait = submit->add_flag("-w,--wait", flag_, "for the end");
    submit->add_flag("--hold", flag_, "not yet")->excludes(wait);
    submit->add_option("--secret", text_, "not for people")->group("");
    takers_.push_back(submit);
    CLI::App* cancel = root_.add_subcommand("cancel", "end them");
    cancel->add_option("ids", ids_, "the jobs")->type_name("ID");
    CLI::App* show = root_.add_subcommand("show", "one");
    show->add_option("id", text_, "the job")->type_name("ID");
    root_.add_subcommand("profile", "what was needed")
        ->add_option("name", text_)
        ->type_name("NAME");
    root_.add_subcommand("hidden", "for programs")->group("");
    CLI::App* daemon = root_.add_subcommand("daemon", "the program behind it");
    daemon->add_subcommand("start", "start it");
    daemon->add_subcommand("stop", "end it");
  }

  Completion After(const Words& words) {
    return Complete(root_, takers_, words,
                    {[this](const std::string& name) {
                       asked_.push_back(name);
                       return std::vector<Candidate>{{"12", "train"}, {"1", "sleep"}, {"7", "x"}};
                     },
                     [] {
                       return std::vector<Candidate>{{"gpu", "2 jobs"}};
                     },
                     [] {
                       return std::vector<Candidate>{{"sdxl", "4 runs"}};
                     }});
  }
  Words WordsAfter(const Words& words) {
    const Completion completion = After(words);
    EXPECT_EQ(completion.then, Completion::Then::kWords);
    Words out;
    for (const Candidate& each : completion.candidates) out.push_back(each.word);
    return out;
  }

  CLI::App root_{"", "program"};
  std::vector<const CLI::App*> takers_;
  Words asked_;
  std::string text_;
  Words ids_;
  bool flag_ = false;
};

TEST_F(CompletionTest, ACommandIsOneOfThoseThatHelpShows) {
  EXPECT_THAT(WordsAfter({""}), ElementsAre("submit", "cancel", "show", "profile", "daemon"));
  EXPECT_THAT(WordsAfter({"s"}), ElementsAre("submit", "show"));
  EXPECT_THAT(WordsAfter({"daemon", "st"}), ElementsAre("start", "stop"));
  EXPECT_THAT(WordsAfter({"--socket", "/x", "can"}), ElementsAre("cancel"));
  EXPECT_EQ(After({"can"}).candidates.at(0).what, "end them");
  EXPECT_THAT(WordsAfter({"nonsense", ""}), Not(Contains("nonsense")));
}

TEST_F(CompletionTest, AnOptionIsOfferedUntilItIsGivenOrExcluded) {
  EXPECT_THAT(WordsAfter({"submit", "--c"}), ElementsAre("--charge", "--cwd"));
  EXPECT_THAT(WordsAfter({"submit", "-"}), Contains("-w"));
  EXPECT_THAT(WordsAfter({"submit", "-"}), Contains("--socket"));
  EXPECT_THAT(WordsAfter({"submit", "-"}), Not(Contains("--secret")));
  EXPECT_THAT(WordsAfter({"submit", "--charge", "own", "--c"}), ElementsAre("--cwd"));
  EXPECT_THAT(WordsAfter({"submit", "--charge=own", "--c"}), ElementsAre("--cwd"));
  EXPECT_THAT(WordsAfter({"submit", "--env", "A=1", "--env"}), ElementsAre("--env"));
  EXPECT_THAT(WordsAfter({"submit", "-w", "--ho"}), IsEmpty());
}

TEST_F(CompletionTest, AChoiceIsOfferedAndWhatStandsForSomethingIsNot) {
  EXPECT_THAT(WordsAfter({"submit", "--charge", ""}), ElementsAre("system", "own"));
  EXPECT_THAT(WordsAfter({"submit", "--charge=s"}), ElementsAre("--charge=system"));
  EXPECT_THAT(WordsAfter({"submit", "--memory", ""}), ElementsAre("auto"));
  EXPECT_THAT(WordsAfter({"submit", "--env", ""}), IsEmpty());
}

TEST_F(CompletionTest, JobsAreThoseOfTheCommandAndEachOnce) {
  EXPECT_THAT(WordsAfter({"show", ""}), ElementsAre("12", "1", "7"));
  EXPECT_THAT(WordsAfter({"cancel", "12", "1"}), ElementsAre("1"));
  EXPECT_THAT(WordsAfter({"cancel", "1", "7", ""}), ElementsAre("12"));
  EXPECT_THAT(WordsAfter({"submit", "--after", "1"}), ElementsAre("12", "1"));
  EXPECT_THAT(WordsAfter({"submit", "--after=7,1"}), ElementsAre("--after=7,12", "--after=7,1"));
  EXPECT_THAT(WordsAfter({"submit", "--after", "7,12,"}), ElementsAre("7,12,1"));
  EXPECT_THAT(asked_, ElementsAre("show", "cancel", "cancel", "--after", "--after", "--after"));
  EXPECT_THAT(WordsAfter({"show", "12", ""}), IsEmpty());
}

TEST_F(CompletionTest, NobodyIsAskedForWhatIsNotCompleted) {
  (void)After({"show", "-"});
  (void)After({"sho"});
  (void)After({"submit", "--charge", ""});
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(CompletionTest, NamesComeOfGroupsAndProfiles) {
  EXPECT_THAT(WordsAfter({"submit", "--group", ""}), ElementsAre("gpu"));
  EXPECT_THAT(WordsAfter({"profile", "s"}), ElementsAre("sdxl"));
}

TEST_F(CompletionTest, FilesAndFoldersAreLeftToTheShell) {
  EXPECT_EQ(After({"submit", "-o", "x"}).then, Completion::Then::kFiles);
  EXPECT_EQ(After({"submit", "--output=x"}).then, Completion::Then::kFiles);
  EXPECT_EQ(After({"--socket", ""}).then, Completion::Then::kFiles);
  EXPECT_EQ(After({"submit", "--cwd", "x"}).then, Completion::Then::kFolders);
}

TEST_F(CompletionTest, AUsersCommandBeginsWhereTheProgramReadsOne) {
  const auto begins_at = [&](const Words& words) {
    const Completion completion = After(words);
    EXPECT_EQ(completion.then, Completion::Then::kCommand);
    return completion.command_at;
  };
  EXPECT_EQ(begins_at({"submit", ""}), 1u);
  EXPECT_EQ(begins_at({"submit", "--", ""}), 2u);
  EXPECT_EQ(begins_at({"submit", "--memory", "4G", "py"}), 3u);
  EXPECT_EQ(begins_at({"submit", "--memory=4G", "-w", "python", "--lr", ""}), 3u);
  EXPECT_EQ(begins_at({"submit", "--", "--odd", ""}), 2u);
}

// The program's own tree, as its help has it: another way through CLI11 than the one of completion.
struct Help {
  Words commands;
  std::set<std::string> options;
};

Help HelpOf(Words command) {
  command.push_back("--help");
  const Result result = RunProgram("/nonexistent", command);
  EXPECT_EQ(result.code, 0) << result.err;
  Help help;
  bool of_commands = false;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(result.out, '\n'))) {
    if (!line.starts_with("  ")) {
      of_commands = line.ends_with(":") && !line.starts_with("Positionals") &&
                    !line.starts_with("Example") && line.find(' ') == std::string::npos;
    }
    if (line.size() < 3 || !line.starts_with("  ") || line[2] == ' ') continue;
    const std::string first = line.substr(2, line.find(' ', 2) - 2);
    if (of_commands && first.front() != '-') help.commands.push_back(first);
    if (first.front() != '-') continue;
    for (const std::string& name : std::vector<std::string>(absl::StrSplit(first, ','))) {
      help.options.insert(name);
    }
  }
  return help;
}

Words ProgramCompletes(const Words& words) {
  Words arguments = {"complete-words", "--"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  const Result result = RunProgram("/nonexistent", arguments);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  Words out;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(result.out, '\n'))) {
    if (line != "words" && !line.empty()) out.push_back(line.substr(0, line.find('\t')));
  }
  return out;
}

int CheckAllBelow(const Words& command) {
  const Help help = HelpOf(command);
  Words words = command;
  words.push_back("-");
  const Words offered = ProgramCompletes(words);
  for (const std::string& option : help.options) {
    EXPECT_THAT(offered, Contains(option)) << testing::PrintToString(command);
  }
  int checked = static_cast<int>(help.options.size());
  words.back() = "";
  if (!help.commands.empty()) {
    EXPECT_THAT(ProgramCompletes(words), testing::UnorderedElementsAreArray(help.commands));
  }
  for (const std::string& name : help.commands) {
    words.back() = name;
    checked += CheckAllBelow(words);
  }
  return checked;
}

TEST(CompletionOfTheProgram, HasEachCommandAndEachOptionOfItsHelp) {
  EXPECT_GT(CheckAllBelow({}), 150);  // else help is not read here as it is written
}

TEST(CompletionOfTheProgram, HasCommandsBehindHelp) {
  EXPECT_THAT(ProgramCompletes({"help", ""}),
              testing::UnorderedElementsAreArray(HelpOf({}).commands));
  EXPECT_THAT(ProgramCompletes({"help", "sub"}), ElementsAre("submit"));
  EXPECT_THAT(ProgramCompletes({"help", "daemon", "inst"}), ElementsAre("install"));
  EXPECT_THAT(ProgramCompletes({"help", "submit", ""}), IsEmpty());
  EXPECT_THAT(ProgramCompletes({"help", "nonsense", ""}), IsEmpty());
}

TEST(CompletionOfTheProgram, HasTheWordsOfWhatIsChosenFrom) {
  EXPECT_THAT(ProgramCompletes({"history", "--kind", "lease_"}),
              ElementsAre("lease_waiting", "lease_granted", "lease_denied", "lease_released"));
  EXPECT_THAT(ProgramCompletes({"history", "--kind=ended,adm"}),
              ElementsAre("--kind=ended,admitted"));
  EXPECT_THAT(ProgramCompletes({"simulate", "--on-over-budget", ""}),
              ElementsAre("stop", "suspend", "warn"));
  EXPECT_THAT(ProgramCompletes({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
}

TEST(CompletionOfTheProgram, SaysNothingAndStartsNothingWithoutADaemon) {
  EXPECT_THAT(ProgramCompletes({"logs", ""}), IsEmpty());
  EXPECT_THAT(ProgramCompletes({"submit", "--group", ""}), IsEmpty());
}

TEST(CompletionOfTheProgram, PrintsAScriptForEachShellAndNamesTheOthersWhenItHasNone) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Result result = RunProgram("/nonexistent", {"completion", shell});
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.out, testing::HasSubstr("complete-words")) << shell;
  }
  const Result other = RunProgram("/nonexistent", {"completion", "tcsh"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, testing::HasSubstr("\"tcsh\": write bash, zsh or fish\n"));
  EXPECT_THAT(RunProgram("/nonexistent", {"completion", "bsh"}).err,
              testing::HasSubstr("; did you mean bash?\n"));
}

}  // namespace
}  // namespace stageload::ctl
