// A guarded command at a real terminal.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

// A program whose controlling terminal is a pseudo terminal of ours.
class AtTerminal {
 public:
  AtTerminal(std::vector<std::string> argv, std::vector<std::string> environment) {
    terminal_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal_ < 0 || grantpt(terminal_) != 0 || unlockpt(terminal_) != 0) {
      ADD_FAILURE() << "no pseudo terminal";
      return;
    }
    const std::string side = ptsname(terminal_);
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> out;
      for (std::string& text : texts) out.push_back(text.data());
      out.push_back(nullptr);
      return out;
    };
    const std::vector<char*> words = pointers(argv);
    const std::vector<char*> variables = pointers(environment);
    pid_ = fork();
    if (pid_ != 0) return;
    setsid();
    const int fd =
        open(side.c_str(), O_RDWR);  // the first that a session's leader opens is its own
    ioctl(fd, TIOCSCTTY, 0);
    for (int i = 0; i < 3; ++i) dup2(fd, i);
    if (fd > 2) close(fd);
    execve(words[0], words.data(), variables.data());
    _exit(126);
  }
  AtTerminal(const AtTerminal&) = delete;
  AtTerminal& operator=(const AtTerminal&) = delete;
  ~AtTerminal() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(terminal_);
  }

  void Type(char key) { EXPECT_EQ(write(terminal_, &key, 1), 1); }
  // True once it has shown `text`, of which nothing is shown twice.
  bool Shows(const std::string& text) {
    return Eventually([&] {
      Read();
      return absl::StrContains(shown_, text);
    });
  }
  // The exit code, or 128+n.
  int Wait() {
    int status = 0;
    const bool ended = Eventually([&] {
      Read();
      return waitpid(pid_, &status, WNOHANG) == pid_;
    });
    if (!ended) {
      ADD_FAILURE() << "it does not end: " << shown_;
      return -1;
    }
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  const std::string& shown() const { return shown_; }

 private:
  void Read() {
    pollfd ready{terminal_, POLLIN, 0};
    char bytes[4096];
    while (poll(&ready, 1, 0) > 0 && (ready.revents & POLLIN) != 0) {
      const ssize_t got = read(terminal_, bytes, sizeof bytes);
      if (got <= 0) return;
      shown_.append(bytes, static_cast<std::size_t>(got));
    }
  }

  int terminal_ = -1;
  pid_t pid_ = -1;
  std::string shown_;
};

constexpr char kCtrlC = 3;

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

// As in a container whose first process waits for nobody.
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
