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

}  // namespace
}  // namespace stageload::e2e
