// `top` on the real daemon: its keys act on real jobs, and it outlives a daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "tests/client/ctl/pseudo_terminal.h"
#include "tests/client/ctl/tmux.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ctl::PseudoTerminal;
using ctl::Tmux;

class Top : public DaemonTest {
 protected:
  std::vector<std::string> AtTerminal(const char* term) const {
    return Environment({std::string("TERM=") + term, "LC_ALL=C.UTF-8", "STAGELOAD_NO_AUTOSTART=1"});
  }
  const Arguments kTop{kCtlProgram, "top", "--interval", "100ms"};
  std::int64_t Running(const std::string& name) {
    const std::int64_t id =
        Submit(Arguments{"--wait-free", "0", "--name", name, "--"} + UntilExists(PathOf("go")));
    EXPECT_TRUE(Reaches(id, "RUNNING"));
    return id;
  }
};

TEST_F(Top, ItsKeysSuspendResumeHoldReleaseAndCancelRealJobs) {
  if (!Tmux::IsThere()) GTEST_SKIP() << "tmux is not installed";
  StartDaemon();
  const std::int64_t job = Running("worker");
  const Tmux tmux(80, 24, AtTerminal("tmux-256color"), kTop);
  ASSERT_TRUE(tmux.Shows("worker")) << tmux.Screen();
  tmux.Type("z");
  EXPECT_TRUE(Reaches(job, "SUSPENDED"));
  EXPECT_TRUE(tmux.Shows("SUSPENDED")) << tmux.Screen();
  tmux.Type("h");
  EXPECT_TRUE(tmux.Shows("cannot hold job 1: ")) << tmux.Screen();
  tmux.Type("c");
  EXPECT_TRUE(Reaches(job, "RUNNING"));
  tmux.Type("x");
  EXPECT_TRUE(tmux.Shows("cancel job 1 (worker)? y/n")) << tmux.Screen();
  tmux.Type("y");
  EXPECT_TRUE(Reaches(job, "CANCELLED"));
  EXPECT_TRUE(tmux.Shows("nothing runs")) << tmux.Screen();
  EXPECT_TRUE(tmux.Shows("ended")) << tmux.Screen();
  tmux.Type("q");
  EXPECT_EQ(tmux.Code(), "0") << tmux.Screen();
}

TEST_F(Top, HoldsAndReleasesARealJobThatWaits) {
  if (!Tmux::IsThere()) GTEST_SKIP() << "tmux is not installed";
  StartDaemon();
  const std::int64_t job = Submit({"--wait-free", "100", "--name", "patient", "--", "true"});
  const Tmux tmux(120, 30, AtTerminal("tmux-256color"), kTop);
  ASSERT_TRUE(tmux.Shows("patient")) << tmux.Screen();
  tmux.Type("h");
  ASSERT_TRUE(Eventually([&] { return BlockerOf(job, "HELD").has_value(); }));
  EXPECT_TRUE(tmux.Shows("HELD")) << tmux.Screen();
  tmux.Type("h");
  ASSERT_TRUE(Eventually([&] { return !BlockerOf(job, "HELD").has_value(); }));
  EXPECT_TRUE(tmux.Shows("LEVEL: ")) << tmux.Screen();
}

TEST_F(Top, SaysThatTheDaemonDoesNotAnswerAndWhatWasAskedOfIt) {
  if (!Tmux::IsThere()) GTEST_SKIP() << "tmux is not installed";
  StartDaemon();
  const std::int64_t job = Running("worker");
  const Tmux tmux(100, 24, AtTerminal("tmux-256color"), kTop);
  ASSERT_TRUE(tmux.Shows("worker")) << tmux.Screen();
  ASSERT_EQ(kill(DaemonPid(), SIGSTOP), 0);
  EXPECT_TRUE(tmux.Shows("the daemon does not answer")) << tmux.Screen();
  tmux.Type("z");
  EXPECT_TRUE(tmux.Shows("asked to suspend job 1: no answer yet")) << tmux.Screen();
  ASSERT_EQ(kill(DaemonPid(), SIGCONT), 0);
  EXPECT_TRUE(Reaches(job, "SUSPENDED"));
  EXPECT_TRUE(tmux.Shows("job 1 is SUSPENDED")) << tmux.Screen();
  EXPECT_TRUE(tmux.ShowsNot("does not answer")) << tmux.Screen();
  EXPECT_TRUE(tmux.ShowsNot("no answer yet")) << tmux.Screen();
}

TEST_F(Top, GoesOnWithTheNextDaemonAndItsJobs) {
  if (!Tmux::IsThere()) GTEST_SKIP() << "tmux is not installed";
  StartDaemon();
  Running("survivor");
  const Tmux tmux(80, 24, AtTerminal("tmux-256color"), kTop);
  ASSERT_TRUE(tmux.Shows("survivor")) << tmux.Screen();
  KillDaemon();
  EXPECT_TRUE(tmux.Shows("daemon went away, waiting")) << tmux.Screen();
  StartDaemon();
  EXPECT_TRUE(tmux.Shows("pid " + std::to_string(DaemonPid()))) << tmux.Screen();
  EXPECT_TRUE(tmux.Shows("survivor")) << tmux.Screen();
  tmux.Type("x");
  tmux.Type("y");
  EXPECT_TRUE(Reaches(1, "CANCELLED"));
}

TEST_F(Top, ACrashLeavesTheTerminalAsItWas) {
  StartDaemon();
  PseudoTerminal terminal(80, 24);
  const std::string before = terminal.Modes();
  terminal.Run(kTop, AtTerminal("xterm-256color"));
  ASSERT_TRUE(terminal.Shows("quit"));
  terminal.Signal(SIGSEGV);
  EXPECT_EQ(terminal.Wait(), 128 + SIGSEGV);
  EXPECT_EQ(terminal.Modes(), before);
  EXPECT_GT(terminal.shown().rfind("\033[?1049l"), terminal.shown().rfind("\033[?1049h"));
}

}  // namespace
}  // namespace stageload::e2e
