// Groups of real processes.
#include "client/ctl/process_group.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/client/ctl/program.h"

namespace stageload::ctl {
namespace {

constexpr unsigned kAtMostSeconds = 60;

// A child that runs `work` and then waits for its end, in `group` or one of its own.
template <typename Work>
pid_t Start(pid_t group, Work work) {
  const pid_t pid = fork();
  if (pid == 0) {
    (void)setpgid(0, group);
    work();
    sleep(kAtMostSeconds);
    _exit(0);
  }
  (void)setpgid(pid, group);
  return pid;
}

// Until it has ended; it stays a zombie.
void AwaitEnd(pid_t pid) {
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
}

void Reap(pid_t pid) {
  (void)kill(pid, SIGKILL);
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST(ProcessGroup, RunsUntilOnlyAZombieIsLeftOfIt) {
  const pid_t pid = Start(0, [] {});
  ProcessGroup group(pid);
  EXPECT_TRUE(group.Runs());
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  AwaitEnd(pid);
  EXPECT_EQ(kill(-pid, 0), 0) << "a zombie is no member for kill(2) here";
  EXPECT_FALSE(group.Runs());
  Reap(pid);
  EXPECT_FALSE(group.Runs());
}

TEST(ProcessGroup, RunsWhileAMemberRunsWhoseLeaderIsAZombie) {
  const pid_t leader = Start(0, [] {});
  const pid_t member = Start(leader, [] {});
  ASSERT_EQ(kill(leader, SIGKILL), 0);
  AwaitEnd(leader);
  ProcessGroup group(leader);
  EXPECT_TRUE(group.Runs());
  EXPECT_TRUE(group.Runs());
  ASSERT_EQ(kill(member, SIGKILL), 0);
  AwaitEnd(member);
  EXPECT_FALSE(group.Runs());
  Reap(leader);
  Reap(member);
}

#ifdef __linux__
TEST(ProcessGroup, RunsWhileAThreadRunsAfterTheFirstHasEnded) {
  const pid_t pid = Start(0, [] {
    pthread_t thread;
    const auto wait = [](void*) -> void* {
      sleep(kAtMostSeconds);
      return nullptr;
    };
    if (pthread_create(&thread, nullptr, wait, nullptr) != 0) _exit(1);
    // Not pthread_exit, which unwinds the stack of the test.
    (void)syscall(SYS_exit, 0);
  });
  const auto is_zombie = [&] {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string stat(std::istreambuf_iterator<char>(file), {});
    return stat.find(") Z ") != std::string::npos;
  };
  ASSERT_TRUE(Eventually(is_zombie));
  EXPECT_TRUE(ProcessGroup(pid).Runs());
  Reap(pid);
}
#endif

}  // namespace
}  // namespace stageload::ctl
