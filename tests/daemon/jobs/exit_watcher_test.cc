// Every watched process's end is told once, children are reaped, and others are left alone.
#include "daemon/jobs/exit_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "daemon/jobs/spawn.h"
#include "tests/daemon/jobs/fixture.h"
#include "tests/exits_thread.h"

namespace stageload::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

pid_t StartChild(const std::string& script, int output = -1) {
  SpawnRequest request;
  request.path = "/bin/sh";
  request.argv = {"sh", "-c", script};
  request.environment = {"PATH=/usr/bin:/bin"};
  if (output >= 0) request.descriptors = {{output, 1}};
  pid_t pid = 0;
  EXPECT_EQ(Spawn(request, &pid), 0);
  return pid;
}

// Of a child of ours.
bool IsZombie(pid_t pid) {
  siginfo_t about{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &about, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         about.si_pid == pid;
}

class ExitWatcherTest : public ::testing::Test {
 protected:
  ExitWatcherTest() {
    watcher_ = *ExitWatcher::Create([this](const core::ProcessIdentity& identity) {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_.push_back(identity);
      changed_.notify_all();
    });
    thread_.emplace(*watcher_);
  }
  std::vector<core::ProcessIdentity> WaitFor(std::size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return ended_.size() >= count; });
    return ended_;
  }

  std::unique_ptr<ExitWatcher> watcher_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<core::ProcessIdentity> ended_;
  std::optional<ExitsThread> thread_;
};

TEST_F(ExitWatcherTest, TellsTheEndOfAChildAndReapsIt) {
  const pid_t child = StartChild("sleep 600");
  const core::ProcessIdentity identity = *IdentityOf(child);
  ASSERT_TRUE(watcher_->Watch(identity, Exists).ok());
  ::kill(-child, SIGKILL);
  EXPECT_THAT(WaitFor(1), ElementsAre(identity));
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(ExitWatcherTest, TellsTheEndOfAProcessThatIsNoChild) {
  absl::StatusOr<DescriptorPair> pipe = MakePipe();
  const absl::StatusOr<Descriptor> end = AboveStandard(std::move(pipe->second));
  const pid_t child = StartChild("sleep 600 & echo $!; wait", end->get());
  char text[32] = {};
  ASSERT_GT(::read(pipe->first.get(), text, sizeof(text) - 1), 0);
  const core::ProcessIdentity grandchild = *IdentityOf(std::stoi(text));
  ASSERT_TRUE(watcher_->Watch(grandchild, Exists).ok());
  ::kill(grandchild.pid, SIGKILL);
  EXPECT_THAT(WaitFor(1), ElementsAre(grandchild));
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);  // not watched, so it is left to us
}

TEST_F(ExitWatcherTest, AChildThatEndedBeforeIsToldAllTheSame) {
  const pid_t child = StartChild("exit 0");
  const core::ProcessIdentity identity = *IdentityOf(child);
  ASSERT_TRUE(Eventually([&] { return IsZombie(child); }));
  ASSERT_TRUE(watcher_->Watch(identity, Exists).ok());
  EXPECT_THAT(WaitFor(1), ElementsAre(identity));
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), -1);
}

TEST_F(ExitWatcherTest, AnEndedChildThatCountsAsGoneIsReapedAndNotFound) {
  const pid_t child = StartChild("exit 0");
  const core::ProcessIdentity identity = *IdentityOf(child);
  ASSERT_TRUE(Eventually([&] { return IsZombie(child); }));
  const absl::Status status =
      watcher_->Watch(identity, [](const core::ProcessIdentity&) { return false; });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), -1);
}

TEST_F(ExitWatcherTest, AProcessThatIsGoneOrAnotherIsNotFound) {
  const pid_t child = StartChild("sleep 600");
  core::ProcessIdentity identity = *IdentityOf(child);
  identity.start -= 1;
  EXPECT_EQ(watcher_->Watch(identity, Exists).code(), absl::StatusCode::kNotFound);
  ::kill(-child, SIGKILL);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(watcher_->Watch(identity, Exists).code(), absl::StatusCode::kNotFound);
}

TEST_F(ExitWatcherTest, AProcessThatIsWatchedTwiceIsToldOnce) {
  const pid_t first = StartChild("sleep 600");
  const pid_t second = StartChild("sleep 600");
  const std::vector<core::ProcessIdentity> identities = {*IdentityOf(first), *IdentityOf(second)};
  ASSERT_TRUE(watcher_->Watch(identities[0], Exists).ok());
  ASSERT_TRUE(watcher_->Watch(identities[0], Exists).ok());
  ASSERT_TRUE(watcher_->Watch(identities[1], Exists).ok());
  ::kill(-first, SIGKILL);
  WaitFor(1);
  ::kill(-second, SIGKILL);
  EXPECT_THAT(WaitFor(2), ElementsAre(identities[0], identities[1]));
}

TEST_F(ExitWatcherTest, ManyEndsAtOnceAreAllTold) {
  std::vector<core::ProcessIdentity> identities;
  for (int i = 0; i < 100; ++i) {
    identities.push_back(*IdentityOf(StartChild("sleep 600")));
    ASSERT_TRUE(watcher_->Watch(identities.back(), Exists).ok());
  }
  for (const core::ProcessIdentity& identity : identities) ::kill(-identity.pid, SIGKILL);
  EXPECT_THAT(WaitFor(100), UnorderedElementsAreArray(identities));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

}  // namespace
}  // namespace stageload::jobs
