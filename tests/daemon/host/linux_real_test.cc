// The real machine: this test's own process and children of it.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "daemon/host/host.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stageload::host {
namespace {

using ::testing::HasSubstr;

// A child that does `work`, says so, and then waits for its end.
class Child {
 public:
  template <typename Work>
  explicit Child(Work work) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    EXPECT_GE(pid_, 0);
    if (pid_ == 0) {
      work();
      if (write(ends[1], "x", 1) != 1) _exit(1);
      while (true) pause();
    }
    close(ends[1]);
    char said = 0;
    EXPECT_EQ(read(ends[0], &said, 1), 1);
    close(ends[0]);
  }
  ~Child() { End(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // Ends it, but leaves it a zombie.
  void Kill() {
    kill(pid_, SIGKILL);
    siginfo_t ended;
    waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT);
  }
  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

const Process* In(const std::vector<Process>& table, pid_t pid) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [pid](const Process& p) { return p.identity.pid == pid; });
  return found == table.end() ? nullptr : &*found;
}

TEST(TheRealMachine, HasMemory) {
  const auto sample = NewLinuxHost({})->Sample();
  ASSERT_TRUE(sample.ok()) << sample.status();
  ASSERT_TRUE(sample->total && sample->available && sample->level && sample->swap_used);
  EXPECT_GT(*sample->total, MiB(64));
  EXPECT_GT(*sample->available, Bytes(0));
  EXPECT_LE(*sample->available, *sample->total);
  EXPECT_GT(sample->level->value, 0);
  EXPECT_LE(sample->level->value, 100);
}

TEST(TheRealMachine, ListsThisProcess) {
  const auto host = NewLinuxHost({});
  const auto table = host->Processes();
  ASSERT_TRUE(table.ok()) << table.status();
  const Process* self = In(*table, getpid());
  ASSERT_NE(self, nullptr);
  EXPECT_EQ(self->parent, getppid());
  EXPECT_EQ(self->group, getpgrp());
  EXPECT_EQ(self->session, getsid(0));
  EXPECT_EQ(self->uid, geteuid());
  EXPECT_EQ(host->Find(getpid())->identity, self->identity);
  EXPECT_TRUE(std::is_sorted(table->begin(), table->end(), [](const Process& a, const Process& b) {
    return a.identity.pid < b.identity.pid;
  }));
}

TEST(TheRealMachine, ShowsTheMemoryOfAChild) {
  constexpr std::size_t kSize = 64 << 20;
  const Child child([] {
    void* memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) _exit(1);
    std::memset(memory, 1, kSize);
  });
  const auto host = NewLinuxHost({});
  const auto process = host->Find(child.pid());
  ASSERT_TRUE(process.ok()) << process.status();
  const auto usage = host->Usage(process->identity);
  ASSERT_TRUE(usage.ok()) << usage.status();
  ASSERT_TRUE(usage->footprint.has_value());
  EXPECT_GE(*usage->footprint, MiB(64));
  EXPECT_LT(*usage->footprint, MiB(512));
}

TEST(TheRealMachine, FindsADeadChildNoMore) {
  Child child([] {});
  const auto host = NewLinuxHost({});
  ASSERT_TRUE(host->Processes().ok());
  const core::ProcessIdentity identity = host->Find(child.pid())->identity;
  EXPECT_TRUE(host->Usage(identity).ok());
  EXPECT_TRUE(host->CommandLine(identity).ok());
  child.End();
  EXPECT_EQ(host->Usage(identity).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(host->CommandLine(identity).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(host->Find(identity.pid).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(In(*host->Processes(), identity.pid), nullptr);
}

TEST(TheRealMachine, SeesAWatchedChildBecomeAZombieAtOnce) {
  Child child([] {});
  const auto host = NewLinuxHost({});
  const Process before = *In(*host->Processes(), child.pid());
  EXPECT_NE(before.state, 'Z');
  ASSERT_TRUE(host->Usage(before.identity).ok());
  child.Kill();
  const auto table = host->Processes();
  const Process* after = In(*table, child.pid());
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(after->state, 'Z');
  EXPECT_EQ(after->identity, before.identity);
  EXPECT_EQ(host->Usage(after->identity)->footprint, Bytes(0));
}

TEST(TheRealMachine, SeesTheNewParentOfAnOrphanAtOnce) {
  // The child of a child, whose pid comes through the pipe.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Child middle([&ends] {
    const pid_t orphan = fork();
    if (orphan == 0) {
      alarm(60);
      while (true) pause();
    }
    if (write(ends[1], &orphan, sizeof orphan) != sizeof orphan) _exit(1);
  });
  pid_t orphan = -1;
  ASSERT_EQ(read(ends[0], &orphan, sizeof orphan), static_cast<ssize_t>(sizeof orphan));
  close(ends[0]);
  close(ends[1]);
  const auto host = NewLinuxHost({});
  const auto before = host->Processes();
  EXPECT_EQ(In(*before, orphan)->parent, middle.pid());
  const pid_t gone = middle.pid();
  middle.End();
  const auto after = host->Processes();
  ASSERT_NE(In(*after, orphan), nullptr);
  EXPECT_NE(In(*after, orphan)->parent, gone);
  kill(orphan, SIGKILL);
}

TEST(TheRealMachine, SeesEveryChangeOfAnUnwatchedProcessAfterAWhile) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // should the test end before it
    char go = 0;
    close(ends[1]);
    if (read(ends[0], &go, 1) == 1) setsid();
    while (true) pause();
  }
  close(ends[0]);
  const auto host = NewLinuxHost({});
  EXPECT_NE(In(*host->Processes(), child)->session, child);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  close(ends[1]);
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (getsid(child) != child && absl::Now() < deadline) {
  }
  bool seen = false;
  for (int call = 0; call < 64 && !seen; ++call) {
    const auto table = host->Processes();
    seen = In(*table, child)->session == child;
  }
  EXPECT_TRUE(seen);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(TheRealMachine, TellsTheCommandLineOfThisProcess) {
  const auto host = NewLinuxHost({});
  const auto line = host->CommandLine(host->Find(getpid())->identity);
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(*line, HasSubstr("host_test"));
}

TEST(TheRealMachine, HasClocksThatGoOn) {
  const auto host = NewLinuxHost({});
  const Instant a = host->Clock();
  const Instant b = host->Clock();
  EXPECT_GT(a.awake, absl::ZeroDuration());
  EXPECT_GE(b.awake, a.awake);
  EXPECT_GE(b.continuous, a.continuous);
  EXPECT_GE(b.continuous, b.awake - absl::Seconds(1));
  EXPECT_LT(absl::AbsDuration(absl::Now() - b.wall), absl::Minutes(1));
}

TEST(TheRealMachine, HasOneBootId) {
  const std::string id = NewLinuxHost({})->BootId();
  EXPECT_EQ(id.size(), 36u);
  EXPECT_EQ(id, NewLinuxHost({})->BootId());
}

}  // namespace
}  // namespace stageload::host
