// A guarded command at a real terminal.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/e2e/at_terminal.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

class GuardTerminal : public DaemonTest {
 protected:
  std::vector<std::string> Guarding(const std::string& script) const {
    return {kCtlProgram, "guard", "--grace", "1s", "--wait-free", "0", "--", "sh", "-c", script};
  }
  // Runs, ten times a second awake, until `go` is there.
  std::string UntilGo(int code) const {
    return absl::StrCat("echo ready; while [ ! -e ", PathOf("go"), " ]; do sleep 0.1; done; exit ",
                        code);
  }
  // What of the test still runs beside its daemon.
  bool OnlyTheDaemonRuns() {
    return Eventually([&] { return ProcessesOf(folder()).size() == 1; });
  }
};

TEST_F(GuardTerminal, CtrlCEndsACommandAsItWouldWithoutAGuard) {
  StartDaemon();
  AtTerminal guard(Guarding(UntilGo(7)), Environment());
  ASSERT_TRUE(guard.Shows("ready"));
  guard.Type(kCtrlC);
  EXPECT_EQ(guard.Wait(), 128 + SIGINT);
  EXPECT_TRUE(Reaches(1, "FAILED"));
  EXPECT_TRUE(OnlyTheDaemonRuns());
}

TEST_F(GuardTerminal, CtrlCOnACommandThatIgnoresItKillsItAfterTheGraceTime) {
  StartDaemon();
  AtTerminal guard(Guarding(absl::StrCat("trap '' INT TERM; ", UntilGo(7))), Environment());
  ASSERT_TRUE(guard.Shows("ready"));
  const absl::Time typed = absl::Now();
  guard.Type(kCtrlC);
  EXPECT_EQ(guard.Wait(), 128 + SIGINT);
  EXPECT_GE(absl::Now() - typed, absl::Seconds(1)) << "it had no time to end by itself";
  EXPECT_TRUE(Reaches(1, "FAILED"));
  EXPECT_EQ(Show(1).value("signal", 0), SIGKILL) << Show(1).dump(2);
  EXPECT_TRUE(OnlyTheDaemonRuns());
}

#ifdef __linux__
// As in a container whose first process waits for nobody. macOS has no such processes.
TEST_F(GuardTerminal, AnOrphanThatNobodyReapsDoesNotHoldItUp) {
  StartDaemon();
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);  // orphans become ours
  AtTerminal guard(Guarding(absl::StrCat("trap '' INT TERM; sleep 600 & ", UntilGo(7))),
                   Environment());
  ASSERT_TRUE(guard.Shows("ready"));
  guard.Type(kCtrlC);
  EXPECT_EQ(guard.Wait(), 128 + SIGINT);
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0), 0);
  EXPECT_TRUE(Reaches(1, "FAILED"));
}
#endif

// A prompt, or a training that saves first: what Ctrl-C means is theirs to say.
TEST_F(GuardTerminal, ACommandThatHandlesCtrlCIsLeftToIt) {
  StartDaemon();
  AtTerminal guard(Guarding(absl::StrCat("trap 'echo handled' INT; trap '' TERM; ", UntilGo(7))),
                   Environment());
  ASSERT_TRUE(guard.Shows("ready"));
  guard.Type(kCtrlC);
  ASSERT_TRUE(guard.Shows("handled"));
  absl::SleepFor(absl::Seconds(1.5));  // past the grace time
  EXPECT_EQ(StateOf(1), "RUNNING");
  Touch(PathOf("go"));
  EXPECT_EQ(guard.Wait(), 7) << guard.shown();
  EXPECT_TRUE(OnlyTheDaemonRuns());
}

TEST_F(GuardTerminal, CtrlCWhileItWaitsForRoomExitsWith130) {
  StartDaemon();
  AtTerminal guard({kCtlProgram, "guard", "--wait-free", "100", "--", "touch", PathOf("ran")},
                   Environment());
  ASSERT_TRUE(guard.Shows("LEVEL"));
  guard.Type(kCtrlC);
  EXPECT_EQ(guard.Wait(), 128 + SIGINT);
  EXPECT_TRUE(Reaches(1, "CANCELLED"));
  EXPECT_TRUE(ReadFile(PathOf("ran")).empty());
}

// ---- In a script ----

// What would come next is not started, as it would not be if no stageloadctl stood before the
// command.
TEST_F(GuardTerminal, CtrlCEndsTheScriptThatItIsIn) {
  StartDaemon();
  const std::string ctl = kCtlProgram;
  const std::string guard = absl::StrCat(ctl, " guard --wait-free 0 -- ");
  const std::string sleeps = "sh -c 'echo ready; exec sleep 60'";
  for (const std::string& command : std::vector<std::string>{
           absl::StrCat(guard, sleeps),
           absl::StrCat(guard, sleeps, " | cat"),  // the terminal is not given away
           absl::StrCat(guard, "sh -c 'trap \"\" INT; echo ready; sleep 60'"),
           absl::StrCat(guard, guard, sleeps),
           absl::StrCat(ctl, " guard --wait-free 100 -- echo ran 2>&1 | sed 's/LEVEL/ready/'"),
           absl::StrCat(ctl, " run --wait-free 0 -- ", sleeps),
           absl::StrCat(ctl, " record -o ", PathOf("run.jsonl"), " --force -- ", sleeps)}) {
    SCOPED_TRACE(command);
    AtTerminal script(
        {"/bin/bash", "-c", absl::StrCat("for i in 1 2; do ", command, "; done; echo went on")},
        Environment());
    ASSERT_TRUE(script.Shows("ready")) << script.shown();
    script.Type(kCtrlC);
    EXPECT_EQ(script.Wait(), 128 + SIGINT) << script.shown();
    EXPECT_FALSE(absl::StrContains(script.shown(), "went on")) << script.shown();
    EXPECT_EQ(std::vector<std::string>(absl::StrSplit(script.shown(), "ready")).size(), 2U)
        << script.shown();
  }
  EXPECT_TRUE(OnlyTheDaemonRuns());
}

// Only the terminal's SIGINT is for the whole of it.
TEST_F(GuardTerminal, ASigintForTheCommandAloneLeavesTheScriptGoingOn) {
  StartDaemon();
  AtTerminal script({"/bin/bash", "-c",
                     absl::StrCat(kCtlProgram, " guard --wait-free 0 -- sh -c 'kill -INT $$'; ",
                                  "echo went on after $?")},
                    Environment());
  EXPECT_EQ(script.Wait(), 0) << script.shown();
  EXPECT_TRUE(absl::StrContains(script.shown(), "went on after 130")) << script.shown();
}

// ---- A command that is stopped and that no shell continues ----

TEST_F(GuardTerminal, ACommandThatIsStoppedForGoodLeavesTheKeysToTheGuard) {
  StartDaemon();
  AtTerminal guard(
      Guarding("stty raw -echo; kill -STOP $$; sleep 0.5; stty -a; echo went on; sleep 60"),
      Environment());
  ASSERT_TRUE(guard.Shows("was stopped (SIGSTOP)")) << guard.shown();
  EXPECT_TRUE(guard.AtRest());
  ASSERT_EQ(kill(static_cast<pid_t>(Show(1).value("pid", 0)), SIGCONT), 0);
  ASSERT_TRUE(guard.Shows("went on")) << guard.shown();
  EXPECT_TRUE(absl::StrContains(guard.shown(), "-echo ")) << "its modes are not back";
  EXPECT_FALSE(guard.AtRest());
}

TEST_F(GuardTerminal, CtrlCEndsACommandThatIsSuspendedAndTheLineSaysHowItMayGoOn) {
  StartDaemon();
  AtTerminal guard(Guarding(UntilGo(7)), Environment());
  ASSERT_TRUE(guard.Shows("ready"));
  ASSERT_EQ(Ctl({"suspend", "1"}).exit_code, 0);
  ASSERT_TRUE(guard.Shows("`stageloadctl resume 1` lets it go on")) << guard.shown();
  ASSERT_EQ(Ctl({"resume", "1"}).exit_code, 0);
  ASSERT_TRUE(Reaches(1, "RUNNING"));
  ASSERT_EQ(Ctl({"suspend", "1"}).exit_code, 0);
  ASSERT_TRUE(Reaches(1, "SUSPENDED"));
  guard.Type(kCtrlC);
  EXPECT_EQ(guard.Wait(), 128 + SIGINT) << guard.shown();
  EXPECT_FALSE(absl::StrContains(guard.shown(), "SIGSTOP")) << guard.shown();
  EXPECT_TRUE(OnlyTheDaemonRuns());
}

// ---- What the command finds ----

TEST_F(GuardTerminal, TheTerminalIsTheCommandsOwnWithItsColoursAndProgressBars) {
  StartDaemon();
  AtTerminal guard(Guarding("test -t 0 && test -t 1 && test -t 2 && "
                            "printf '\\033[31mred\\033[0m\\r[=> ]\\r[==>]\\n'"),
                   Environment());
  EXPECT_EQ(guard.Wait(), 0) << guard.shown();
  EXPECT_EQ(guard.shown(), "\033[31mred\033[0m\r[=> ]\r[==>]\r\n");
}

TEST_F(GuardTerminal, TheWindowsNewSizeReachesTheCommand) {
  StartDaemon();
  AtTerminal guard(Guarding("trap 'stty size' WINCH; " + UntilGo(0)), Environment());
  ASSERT_TRUE(guard.Shows("ready"));
  guard.Resize(33, 101);
  EXPECT_TRUE(guard.Shows("33 101")) << guard.shown();
  Touch(PathOf("go"));
  EXPECT_EQ(guard.Wait(), 0);
}

TEST_F(GuardTerminal, AProgramOfTheWholeScreenRunsInItAndGetsItsKeys) {
  StartDaemon();
  AtTerminal guard({kCtlProgram, "guard", "--wait-free", "0", "--", kCtlProgram, "top"},
                   Environment({"TERM=xterm-256color"}));
  guard.Resize(24, 80);
  ASSERT_TRUE(guard.Shows("\033[?1049h")) << "it has not gone to the second screen";
  ASSERT_TRUE(guard.Shows("swap")) << guard.shown();
  EXPECT_FALSE(guard.AtRest());
  guard.Type('q');
  EXPECT_EQ(guard.Wait(), 0) << guard.shown();
  EXPECT_TRUE(absl::StrContains(guard.shown(), "\033[?1049l"));
  EXPECT_TRUE(guard.AtRest());
}

TEST_F(GuardTerminal, ACommandThatIsKilledLeavesTheTerminalAsItWas) {
  StartDaemon();
  AtTerminal guard(Guarding("stty raw -echo; kill -9 $$"), Environment());
  EXPECT_EQ(guard.Wait(), 128 + SIGKILL);
  EXPECT_TRUE(guard.AtRest());
}

TEST_F(GuardTerminal, AWindowThatIsClosedEndsTheCommand) {
  StartDaemon();
  AtTerminal guard(Guarding(UntilGo(7)), Environment());
  ASSERT_TRUE(guard.Shows("ready"));
  guard.HangUp();
  EXPECT_EQ(guard.Wait(), 128 + SIGHUP);
  EXPECT_TRUE(Reaches(1, "FAILED"));
  EXPECT_TRUE(OnlyTheDaemonRuns());
}

// ---- While it waits ----

TEST_F(GuardTerminal, ADumbTerminalGetsLinesAndNoEscapes) {
  StartDaemon();
  AtTerminal guard({kCtlProgram, "guard", "--wait-free", "100", "--", "true"},
                   Environment({"TERM=dumb"}));
  ASSERT_TRUE(guard.Shows("LEVEL")) << guard.shown();
  guard.HangUp();
  guard.Wait();
  EXPECT_FALSE(absl::StrContains(guard.shown(), "\033")) << guard.shown();
}

TEST_F(GuardTerminal, WhatItWaitsForIsOneLineKeptUpToDateThatFitsTheWindow) {
  StartDaemon();
  AtTerminal guard({kCtlProgram, "guard", "--wait-free", "100", "--", "true"}, Environment());
  guard.Resize(24, 60);
  ASSERT_TRUE(guard.Shows("LEVEL")) << guard.shown();
  ASSERT_EQ(Ctl({"hold", "1"}).exit_code, 0);
  ASSERT_TRUE(guard.Shows("HELD")) << guard.shown();
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(guard.shown(), "\r\033[K"))) {
    EXPECT_LT(absl::StrReplaceAll(line, {{"…", "."}}).size(), 60U) << line;
    EXPECT_FALSE(absl::StrContains(line, "\n")) << line;
  }
  guard.Type(kCtrlC);
  EXPECT_EQ(guard.Wait(), 128 + SIGINT);
  EXPECT_TRUE(guard.shown().ends_with("\r\033[K")) << "the line is left there: " << guard.shown();
}

}  // namespace
}  // namespace stageload::e2e
