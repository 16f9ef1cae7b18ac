// Where our options end.
#include "client/ctl/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stageload::ctl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest() {
    app_.add_option("--socket", socket_);
    CLI::App* submit = app_.add_subcommand("submit", "");
    submit->add_option("--memory", memory_);
    submit->add_option("-p,--priority", priority_);
    submit->add_flag("--wait", wait_);
    takers_.push_back(submit);
    app_.add_subcommand("show", "");
  }
  CommandLine Cut(const std::vector<std::string>& arguments) {
    return Split(app_, takers_, arguments);
  }

  std::string socket_, memory_, priority_;
  bool wait_ = false;
  CLI::App app_;
  std::vector<const CLI::App*> takers_;
};

TEST_F(CommandLineTest, EverythingAfterTheDashesIsTheCommand) {
  const CommandLine line = Cut({"submit", "--wait", "--", "--memory", "x", "--"});
  EXPECT_THAT(line.ours, ElementsAre("submit", "--wait"));
  EXPECT_THAT(line.command, ElementsAre("--memory", "x", "--"));
}

TEST_F(CommandLineTest, TheFirstWordThatIsNoOptionBeginsTheCommand) {
  const CommandLine line = Cut({"submit", "--memory", "4G", "python", "train.py", "--wait"});
  EXPECT_THAT(line.ours, ElementsAre("submit", "--memory", "4G"));
  EXPECT_THAT(line.command, ElementsAre("python", "train.py", "--wait"));
}

TEST_F(CommandLineTest, AValueInTheSameWordDoesNotTakeTheNextOne) {
  EXPECT_THAT(Cut({"submit", "--memory=4G", "a"}).command, ElementsAre("a"));
  EXPECT_THAT(Cut({"submit", "-p5", "a"}).command, ElementsAre("a"));
  EXPECT_THAT(Cut({"submit", "-p", "-5", "a"}).command, ElementsAre("a"));
}

TEST_F(CommandLineTest, OptionsOfTheProgramMayStandOnBothSidesOfTheCommandsName) {
  EXPECT_THAT(Cut({"--socket", "submit", "submit", "a"}).command, ElementsAre("a"));
  EXPECT_THAT(Cut({"submit", "--socket", "s", "a"}).command, ElementsAre("a"));
}

TEST_F(CommandLineTest, TheDashesOfTheCommandStayWithIt) {
  EXPECT_THAT(Cut({"submit", "git", "log", "--", "file"}).command,
              ElementsAre("git", "log", "--", "file"));
}

TEST_F(CommandLineTest, ACommandThatTakesNoneGetsAllWords) {
  const CommandLine line = Cut({"show", "3", "--", "4"});
  EXPECT_THAT(line.ours, ElementsAre("show", "3", "--", "4"));
  EXPECT_THAT(line.command, IsEmpty());
}

TEST_F(CommandLineTest, WithoutACommandThereIsNone) {
  EXPECT_THAT(Cut({"submit"}).command, IsEmpty());
  EXPECT_THAT(Cut({"submit", "--"}).command, IsEmpty());
  EXPECT_THAT(Cut({"submit", "--memory"}).command, IsEmpty());
  EXPECT_THAT(Cut({}).ours, IsEmpty());
}

}  // namespace
}  // namespace stageload::ctl
