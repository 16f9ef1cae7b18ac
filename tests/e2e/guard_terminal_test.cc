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
