// Guards as a person starts them: in a shell, at a terminal, in pipes and in the background.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/e2e/at_terminal.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

class GuardShell : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
    // What is typed is shown, too; so it is in files, and what they print is nowhere else.
    WriteFile(PathOf("guard"),
              absl::StrCat("exec ", kCtlProgram, " guard --wait-free 0 --grace 1s -- \"$@\"\n"));
    // Shows that it lives by what it writes, until `go` is there. To be run by bash: where sh is
    // dash, which starts programs by vfork, Ctrl-Z in between stops the child of that alone, guard
    // or not.
    WriteFile(PathOf("work"),
              absl::StrCat("echo rea''dy; while [ ! -e ", PathOf("go"), " ]; do echo >>",
                           PathOf("beats"), "; sleep 0.05; done; exit 7\n"));
    shell_.emplace(Arguments{"/bin/bash", "--norc", "--noprofile", "-i"},
                   Environment({"PS1=$ ", "PS0="}));
    shell_->Type("cd " + folder() + "; set -o pipefail; PS1='at''rest '\n");
    ASSERT_TRUE(shell_->Shows("atrest"));
    shell_->Forget();
  }
  AtTerminal& shell() { return *shell_; }
  // A line of the shell.
  void Type(const std::string& line) { shell_->Type(line + "\n"); }
  bool Shows(const std::string& text) { return shell_->Shows(text); }
  // The exit code of the line before, or of the job that was in the foreground.
  bool CodeIs(int code) {
    shell_->Forget();
    Type("echo co''de=$?.");
    return shell_->Shows(absl::StrCat("code=", code, "."));
  }

  std::size_t Beats() const { return ReadFile(PathOf("beats")).size(); }
  bool Lives() {
    const std::size_t before = Beats();
    return Eventually([&] { return Beats() > before; });
  }
  bool StandsStill() const {
    const std::size_t before = Beats();
    absl::SleepFor(absl::Milliseconds(300));
    return Beats() == before;
  }

 private:
  std::optional<AtTerminal> shell_;
};

TEST_F(GuardShell, CtrlZStopsTheCommandAndFgGoesOnWithIt) {
  Type("sh guard bash work");
  ASSERT_TRUE(Shows("ready"));
  ASSERT_TRUE(Lives());
  shell().Type(kCtrlZ);
  ASSERT_TRUE(Shows("Stopped")) << shell().shown();
  EXPECT_TRUE(StandsStill());
  EXPECT_EQ(StateOf(1), "RUNNING");
  shell().Forget();
  Type("fg");
  ASSERT_TRUE(Lives());
  shell().Type(kCtrlZ);
  ASSERT_TRUE(Shows("Stopped")) << "only once: " << shell().shown();
  EXPECT_TRUE(StandsStill());
  Type("bg");
  ASSERT_TRUE(Lives()) << "not in the background";
  Touch(PathOf("go"));
  EXPECT_TRUE(Reaches(1, "FAILED"));
  Type("wait %1");
  EXPECT_TRUE(CodeIs(7)) << shell().shown();
}

TEST_F(GuardShell, CtrlCAfterFgEndsTheCommand) {
  Type("sh guard bash work");
  ASSERT_TRUE(Shows("ready"));
  shell().Type(kCtrlZ);
  ASSERT_TRUE(Shows("Stopped")) << shell().shown();
  Type("fg");
  ASSERT_TRUE(Lives());
  shell().Type(kCtrlC);
  EXPECT_TRUE(CodeIs(128 + SIGINT)) << shell().shown();
  EXPECT_TRUE(Reaches(1, "FAILED"));
}

TEST_F(GuardShell, CtrlZWhileItWaitsForRoomStopsTheWaitAndFgGoesOnWithIt) {
  Type(absl::StrCat(kCtlProgram, " guard --wait-free 100 -- bash work"));
  ASSERT_TRUE(Shows("LEVEL"));
  shell().Type(kCtrlZ);
  ASSERT_TRUE(Shows("Stopped")) << shell().shown();
  EXPECT_EQ(StateOf(1), "PENDING");
  shell().Forget();
  Type("fg");
  ASSERT_EQ(Ctl({"update", "1", "--wait-free", "0"}).exit_code, 0);
  ASSERT_TRUE(Shows("ready")) << shell().shown();
  Touch(PathOf("go"));
  EXPECT_TRUE(CodeIs(7)) << shell().shown();
}

TEST_F(GuardShell, InTheBackgroundItRunsAndStopsWhenItReadsTheTerminal) {
  WriteFile(PathOf("ask"), "echo rea''dy; read line; echo got:$line; exit 5\n");
  Type("sh guard bash ask &");
  ASSERT_TRUE(Shows("ready"));
  // The shell says so before a prompt.
  ASSERT_TRUE(Eventually([&] {
    shell().Forget();
    Type("jobs");
    absl::SleepFor(absl::Milliseconds(100));
    return Shows("sh guard") && absl::StrContains(shell().shown(), "Stopped");
  })) << shell().shown();
  Type("fg");
  ASSERT_TRUE(Shows("sh guard bash ask"));
  Type("hello");
  ASSERT_TRUE(Shows("got:hello")) << shell().shown();
  EXPECT_TRUE(CodeIs(5));
}

TEST_F(GuardShell, InPipesEachByteGetsThroughAndTheTerminalStaysWithThePager) {
  Type("head -c 3000000 /dev/zero | sh guard cat | wc -c");
  ASSERT_TRUE(Shows("3000000")) << shell().shown();
  EXPECT_TRUE(CodeIs(0));
  Type("printf 'a\\nb\\n' | sh guard sort -r | { read x; echo fir''st:$x; }");
  ASSERT_TRUE(Shows("first:b")) << shell().shown();
  Type("sh guard cat <guard >copy; cmp guard copy && echo sa''me");
  ASSERT_TRUE(Shows("same")) << shell().shown();
  // Who reads from it may leave early, without a word of ours.
  shell().Forget();
  Type("sh guard yes | head -1; echo co''des=${PIPESTATUS[*]}.");
  ASSERT_TRUE(Shows("codes=141 0.")) << shell().shown();
  EXPECT_FALSE(absl::StrContains(shell().shown(), "stageload:")) << shell().shown();
  // A question to the person while stdin is a pipe.
  WriteFile(PathOf("ask"), "read line </dev/tty; echo got:$line\n");
  shell().Forget();
  Type("echo | sh guard bash ask");
  Type("tty");
  ASSERT_TRUE(Shows("got:tty")) << shell().shown();
  EXPECT_TRUE(CodeIs(0));
}

TEST_F(GuardShell, UnderNohupItOutlivesTheTerminal) {
  Type("nohup sh guard bash work >out 2>&1 &");
  ASSERT_TRUE(Lives());
  shell().HangUp();
  (void)shell().Wait();
  ASSERT_TRUE(Lives());
  EXPECT_EQ(StateOf(1), "RUNNING");
  Touch(PathOf("go"));
  EXPECT_TRUE(Reaches(1, "FAILED"));
  EXPECT_EQ(Show(1).value("exit_code", 0), 7);
  EXPECT_EQ(ReadFile(PathOf("out")).find("stageload:"), std::string::npos)
      << ReadFile(PathOf("out"));
}

// As from cron: no terminal at all.
TEST_F(GuardShell, WithoutATerminalItPrintsWholeLinesAndOnlyWhenTheReasonChanges) {
  Type(absl::StrCat("setsid -w ", kCtlProgram,
                    " guard --wait-free 100 -- bash work </dev/null >out 2>err &"));
  ASSERT_TRUE(Eventually([&] { return ReadFile(PathOf("err")).ends_with("\n"); }));
  absl::SleepFor(absl::Seconds(1.5));  // three samples, each with a level of its own
  ASSERT_EQ(Ctl({"hold", "1"}).exit_code, 0);
  ASSERT_TRUE(Eventually([&] { return absl::StrContains(ReadFile(PathOf("err")), "HELD"); }));
  ASSERT_EQ(Ctl({"release", "1"}).exit_code, 0);
  ASSERT_EQ(Ctl({"update", "1", "--wait-free", "0"}).exit_code, 0);
  ASSERT_TRUE(Lives());
  Touch(PathOf("go"));
  EXPECT_TRUE(Reaches(1, "FAILED"));
  const std::string said = ReadFile(PathOf("err"));
  EXPECT_EQ(said.find('\033'), std::string::npos) << said;
  EXPECT_EQ(said.find('\r'), std::string::npos) << said;
  EXPECT_LE(std::count(said.begin(), said.end(), '\n'), 4) << said;
  EXPECT_EQ(ReadFile(PathOf("out")), "ready\n");
}

TEST_F(GuardShell, AShellUnderAGuardHasJobControlOfItsOwn) {
  Type("sh guard bash --norc --noprofile -i");
  Type("PS1='inn''er '");
  ASSERT_TRUE(Shows("inner")) << shell().shown();
  shell().Forget();
  shell().Type(kCtrlC);  // at its prompt, of which it shows another
  ASSERT_TRUE(Shows("inner")) << shell().shown();
  Type("bash work");
  ASSERT_TRUE(Shows("ready"));
  shell().Type(kCtrlZ);
  ASSERT_TRUE(Shows("Stopped")) << shell().shown();
  EXPECT_TRUE(StandsStill());
  shell().Forget();
  Type("fg");
  ASSERT_TRUE(Lives());
  shell().Type(kCtrlC);
  ASSERT_TRUE(CodeIs(128 + SIGINT)) << shell().shown();
  EXPECT_EQ(StateOf(1), "RUNNING") << "the inner shell is there";
  Type("exit 6");
  EXPECT_TRUE(CodeIs(6)) << shell().shown();
}

// `stty tostop`: who writes from the background is stopped.
TEST_F(GuardShell, WhereOnlyTheForegroundMayWriteItStillSeesAndSaysWhatHappens) {
  Type("stty tostop; sh guard bash work");
  ASSERT_TRUE(Shows("ready"));
  ASSERT_EQ(Ctl({"cancel", "1"}).exit_code, 0);
  ASSERT_TRUE(Shows("stopped: ")) << shell().shown();
  EXPECT_TRUE(CodeIs(1)) << shell().shown();
}

}  // namespace
}  // namespace stageload::e2e
