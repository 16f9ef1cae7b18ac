// The tree of commands as a whole: that each has an example that still works, and what is said of a
// command line that is wrong.
#include "client/ctl/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/usage.h"
#include "client/ctl/command_line.h"
#include "client/ctl/other_words.h"
#include "tests/client/ctl/program.h"

namespace stageload::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Words = std::vector<std::string>;

// The first command of a shell's line, with 1 for what another command would print.
Words FirstCommand(const std::string& line) {
  Words words;
  std::string word;
  bool quoted = false, any = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char letter = line[i];
    if (letter == '\'') {
      quoted = !quoted;
      any = true;
    } else if (!quoted && line.compare(i, 2, "$(") == 0) {
      word += '1';
      i = line.find(')', i);
    } else if (!quoted && (letter == '|' || letter == '&' || letter == '>')) {
      break;
    } else if (!quoted && letter == ' ') {
      if (any || !word.empty()) words.push_back(word);
      word.clear();
      any = false;
    } else {
      word += letter;
    }
  }
  if (any || !word.empty()) words.push_back(word);
  return words;
}

class Tree {
 public:
  Tree() { AddCommands(app, invocation, no_autostart); }

  void ForEach(const std::function<void(const CLI::App&)>& look) { Each(app, look); }

  CLI::App app{"", "stageloadctl"};
  Invocation invocation;
  bool no_autostart = false;

 private:
  static void Each(const CLI::App& command, const std::function<void(const CLI::App&)>& look) {
    for (const CLI::App* each : ShownCommands(command)) {
      look(*each);
      Each(*each, look);
    }
  }
};

TEST(Examples, AreThereForEachCommandAndStandInItsHelp) {
  Tree tree;
  int commands = 0;
  tree.ForEach([&](const CLI::App& command) {
    ++commands;
    bool has_one = false;
    for (const Example& example : tree.invocation.examples) {
      if (example.command != &command) continue;
      has_one = true;
      EXPECT_THAT(command.get_footer(), HasSubstr("\n  " + example.line + "\n"));
      EXPECT_THAT(command.get_footer(), StartsWith("Example"));
    }
    EXPECT_TRUE(has_one) << command.get_name() << " has no example: AddExample";
  });
  EXPECT_GT(commands, 30);
}

TEST(Examples, AreTakenByTheProgramsOwnParser) {
  const std::vector<Example> examples = Tree().invocation.examples;
  for (const Example& example : examples) {
    Words words = FirstCommand(example.line);
    ASSERT_GE(words.size(), 2U) << example.line;
    EXPECT_TRUE(words[0] == "stageloadctl" || words[0] == "stageload") << example.line;
    words.erase(words.begin());
    Tree tree;  // one that has parsed nothing yet
    const CommandLine line = Split(tree.app, tree.invocation.takers, words);
    const auto slip = FindSlip(tree.app, line.ours);
    EXPECT_FALSE(slip) << example.line << ": " << (slip ? slip->what : "");
    EXPECT_NO_THROW(tree.app.parse(Words(line.ours.rbegin(), line.ours.rend()))) << example.line;
    EXPECT_TRUE(tree.invocation.action != nullptr) << example.line;
  }
}

// The values of options are read by the commands themselves. No daemon is there, and none of those
// that control one is run.
TEST(Examples, HaveValuesThatTheCommandsTake) {
  char folder[] = "/tmp/stageload-examples.XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::vector<Example> examples = Tree().invocation.examples;
  for (const Example& example : examples) {
    Words words = FirstCommand(example.line);
    words.erase(words.begin());
    if (words[0] == "daemon" || words[0] == "doctor") continue;
    for (std::string& word : words) {
      if (word == "python3") word = "true";
      if (word == "run.jsonl" || word == "run.html") word = absl::StrCat(folder, "/", word);
    }
    const Result result = RunProgram(folder, words);
    EXPECT_NE(result.code, 2) << example.line << ": " << result.err;
  }
  std::filesystem::remove_all(folder);
}

TEST(Commands, ThatShowATruePeakSayWhatItIs) {
  for (const char* command : {"show", "summary"}) {
    const std::string help = RunProgram("/nonexistent/home", {command, "--help"}).out;
    EXPECT_THAT(help, testing::ContainsRegex("True[ \n]peak:[ \n]the most by which")) << command;
  }
}

// A default in brackets is true only where the config says nothing else.
TEST(Commands, ThatAdmitSayThatTheConfigMayHaveOtherDefaults) {
  for (const char* command : {"guard", "submit", "run"}) {
    EXPECT_THAT(RunProgram("/nonexistent/home", {command, "--help"}).out,
                HasSubstr("in brackets what holds unless the config has another default"))
        << command;
  }
  // Those that an update leaves out are as they were.
  EXPECT_THAT(RunProgram("/nonexistent/home", {"update", "--help"}).out,
              testing::AllOf(HasSubstr("--grace DUR"), Not(HasSubstr("(5s)")),
                             Not(HasSubstr("in brackets"))));
}

// ---- What is said of a wrong line ----

Result Ctl(const Words& words) { return RunProgram("/nonexistent/home", words); }

TEST(Slips, AWordThatIsNoCommandIsNamedWithTheOneThatWasMeant) {
  const Result slip = Ctl({"qeue"});
  EXPECT_EQ(slip.code, 2);
  EXPECT_EQ(slip.out, "");
  EXPECT_EQ(slip.err,
            "stageload: no such command: qeue; did you mean queue?\n"
            "stageload: see stageloadctl --help\n");
  EXPECT_THAT(Ctl({"nonsense", "show"}).err, StartsWith("stageload: no such command: nonsense\n"));
  EXPECT_THAT(Ctl({"install"}).err,
              HasSubstr("no such command: install; did you mean daemon inst"));
  EXPECT_THAT(Ctl({"daemon", "foo"}).err,
              StartsWith("stageload: no such command of daemon: foo; there are start, stop, "));
  EXPECT_THAT(Ctl({"daemon", "strat"}).err, HasSubstr("strat; did you mean start?"));
}

TEST(Slips, AMistakeIsOneAlsoWhereHelpIsAskedFor) {
  const Result slip = Ctl({"submt", "--help"});
  EXPECT_EQ(slip.code, 2);
  EXPECT_THAT(slip.err, HasSubstr("no such command: submt; did you mean submit?\n"));
  EXPECT_THAT(Ctl({"config", "chek", "-h"}).err, HasSubstr("did you mean check?\n"));
  EXPECT_THAT(Ctl({"submit", "--memroy", "1G", "--help"}).err, HasSubstr("did you mean --memory?"));
  EXPECT_THAT(Ctl({"--version", "--foo"}).err, HasSubstr("no such option of stageloadctl: --foo"));
  // How words go together is what the help tells.
  for (const Words& words : std::vector<Words>{{"submit", "--memory", "1G", "--help"},
                                               {"show", "3", "4", "--help"},
                                               {"daemon", "--help"},
                                               {"submit", "--help", "--", "submt"}}) {
    EXPECT_EQ(Ctl(words).code, 0) << words.front();
  }
}

TEST(Slips, ATextThatIsNotUtf8IsNamedBeforeAnythingIsAsked) {
  const std::string name = "caf\xe9";
  for (const Words& words : std::vector<Words>{{"submit", "--name", name, "--", "true"},
                                               {"submit", "--name=" + name, "--", "true"},
                                               {"guard", "--busy", name, "--", "true"},
                                               {"hold", "--reason", name, "--queue"}}) {
    const Result slip = Ctl(words);
    EXPECT_EQ(slip.code, 2);
    EXPECT_THAT(slip.err, HasSubstr(": \"caf\\xe9\" is not UTF-8")) << words[1];
    EXPECT_THAT(slip.err, HasSubstr(words[1].substr(0, 6))) << "the option";
  }
  EXPECT_THAT(Ctl({"mark", name}).err, StartsWith("stageload: NOTE: \"caf\\xe9\" is not UTF-8"));
  // A file's name may be any bytes.
  EXPECT_THAT(Ctl({"summary", "/nonexistent/" + name}).err, Not(HasSubstr("UTF-8")));
}

TEST(Slips, AWordOfAnotherToolLeadsToTheCommandThatDoesIt) {
  EXPECT_THAT(Ctl({"ls"}).err, StartsWith("stageload: no such command: ls; did you mean queue?\n"));
  EXPECT_THAT(Ctl({"sbatch", "--mem", "4G", "x"}).err,
              StartsWith("stageload: no such command: sbatch; did you mean submit?\n"));
  EXPECT_THAT(Ctl({"stop", "3"}).err, HasSubstr("did you mean cancel, or daemon stop?\n"));
  EXPECT_THAT(Ctl({"help", "squeue"}).err, HasSubstr("did you mean queue?\n"));
  EXPECT_THAT(Ctl({"daemon", "ls"}).err, Not(HasSubstr("did you mean")));
  Tree tree;
  std::set<std::string> commands;
  for (const CLI::App* each : ShownCommands(tree.app)) commands.insert(each->get_name());
  for (const auto& [word, meant] : WordsOfOtherTools()) {
    EXPECT_FALSE(commands.contains(word)) << word;
    EXPECT_TRUE(commands.contains(meant.substr(0, meant.find_first_of(" ,")))) << meant;
  }
}

TEST(Slips, WithoutACommandThoseThatThereAreAreNamed) {
  const Result none = Ctl({});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, StartsWith("stageload: name a command: guard, submit, run, queue, show, "));
  const Result daemon = Ctl({"daemon"});
  EXPECT_EQ(daemon.code, 2);
  EXPECT_THAT(daemon.err, StartsWith("stageload: name a command: start, stop, restart, "));
  EXPECT_THAT(daemon.err, HasSubstr("see stageloadctl daemon --help\n"));
}

TEST(Slips, AnUnknownOptionIsNamedWithTheOneThatWasMeant) {
  const Result slip = Ctl({"submit", "--memmory", "4G", "--", "true"});
  EXPECT_EQ(slip.code, 2);
  EXPECT_EQ(slip.err,
            "stageload: no such option of submit: --memmory; did you mean --memory?\n"
            "stageload: see stageloadctl submit --help\n");
  EXPECT_THAT(Ctl({"queue", "--fo=3"}).err, HasSubstr("no such option of queue: --fo\n"));
  EXPECT_THAT(Ctl({"logs", "-fx", "3"}).err, HasSubstr("no such option of logs: -x\n"));
  EXPECT_THAT(Ctl({"queue", "--sokcet", "x"}).err, HasSubstr("did you mean --socket?"));
  // Those that help does not show are not offered.
  EXPECT_THAT(Ctl({"doctor", "--platfrom"}).err, Not(HasSubstr("did you mean")));
}

TEST(Slips, AnOptionThatIsGivenTwiceOrHasNoValueIsNamed) {
  const Result twice = Ctl({"submit", "--wait-free", "0", "--wait-free=0", "--", "true"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.err, StartsWith("stageload: --wait-free: given twice; it is taken once\n"));
  EXPECT_THAT(Ctl({"logs", "3", "--tail"}).err,
              StartsWith("stageload: --tail: its value is missing (N)\n"));
  EXPECT_THAT(Ctl({"logs", "3", "-n"}).err, StartsWith("stageload: -n: its value is missing (N)"));
  EXPECT_NE(Ctl({"submit", "--busy", "a", "--busy", "b", "--", "true"}).code, 2);
}

TEST(Slips, AValueOfAnOptionThatTakesNoneIsNamed) {
  EXPECT_THAT(Ctl({"queue", "--json=maybe"}).err,
              StartsWith("stageload: --json takes no value: --json=maybe\n"));
  EXPECT_NE(Ctl({"queue", "--json=true"}).code, 2);
}

TEST(Slips, WhatIsMissingIsNamedWithAnExample) {
  EXPECT_THAT(Ctl({"show"}).err,
              StartsWith("stageload: ID is missing, as in `stageloadctl show 3`\n"));
  EXPECT_THAT(Ctl({"plot", "x.jsonl"}).err, StartsWith("stageload: --output FILE is missing, as "));
}

TEST(Slips, WhatDoesNotGoTogetherIsNamed) {
  EXPECT_THAT(Ctl({"cancel", "--group", "gpu", "1"}).err,
              StartsWith("stageload: ID and --group do not go together\n"));
  EXPECT_THAT(Ctl({"submit", "--array", "2", "--follow", "--", "true"}).err,
              StartsWith("stageload: --array and --follow do not go together\n"));
}

TEST(Slips, AWordTooMuchIsNamed) {
  EXPECT_THAT(Ctl({"show", "3", "4"}).err,
              StartsWith("stageload: show takes one ID and no more: 4\n"));
  EXPECT_THAT(Ctl({"version", "now"}).err,
              StartsWith("stageload: version takes no argument: now\n"));
}

TEST(Slips, WhatTheProgramTakesIsNone) {
  for (const Words& words : std::vector<Words>{{"logs", "-n20", "3"},
                                               {"logs", "-ft", "3"},
                                               {"logs", "-fn", "20", "3"},
                                               {"--socket", "queue", "queue"},
                                               {"queue", "--socket=x"},
                                               {"submit", "--priority", "-3"},
                                               {"wait", "3", "4", "5"},
                                               {"wait", "--", "3"},
                                               {"history", "--kind", "stopping", "3"}}) {
    Tree tree;
    const auto slip = FindSlip(tree.app, words);
    EXPECT_FALSE(slip) << slip->what;
  }
}

// ---- Help ----

TEST(Help, IsShownByTheCommandOfThatNameAsByTheOption) {
  EXPECT_EQ(Ctl({"help"}).out, Ctl({"--help"}).out);
  EXPECT_EQ(Ctl({"help", "submit"}).out, Ctl({"submit", "--help"}).out);
  EXPECT_EQ(Ctl({"help", "daemon", "install"}).out, Ctl({"daemon", "install", "--help"}).out);
  EXPECT_THAT(Ctl({"help", "submit"}).out, HasSubstr("Usage: stageloadctl submit [OPTIONS]"));
  const Result unknown = Ctl({"help", "sumbit"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("no such command: sumbit; did you mean submit?"));
  EXPECT_EQ(Ctl({"help", "show", "me"}).code, 2);
}

}  // namespace
}  // namespace stageload::ctl
