// The load program as a whole: what it takes, how it ends, and what it refuses.
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

extern char** environ;

namespace stageload {
namespace {

using ::testing::HasSubstr;

// A running stageload-load whose stdout and stderr are read through one pipe.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    arguments.insert(arguments.begin(), STAGELOAD_LOAD);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, STAGELOAD_LOAD, &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = ends[0];
  }
  ~Program() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(output_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }

  // Everything printed until `text` comes or the output ends.
  std::string ReadUntil(const std::string& text) {
    const absl::Time deadline = absl::Now() + absl::Seconds(40);
    while (said_.find(text) == std::string::npos && absl::Now() < deadline) {
      pollfd ready{output_, POLLIN, 0};
      if (poll(&ready, 1, 100) <= 0) continue;
      char buffer[512];
      const ssize_t got = read(output_, buffer, sizeof buffer);
      if (got <= 0) break;
      said_.append(buffer, static_cast<std::size_t>(got));
    }
    return said_;
  }
  std::string ReadAll() { return ReadUntil("\x01 never printed"); }

  // As waitpid() gives it; reads the output to its end first.
  int Wait() {
    ReadAll();
    int status = -1;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::string said_;
};

int ExitCode(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
int EndSignal(int status) { return WIFSIGNALED(status) ? WTERMSIG(status) : -1; }

TEST(TheLoad, HoldsWhatItSaysAndExitsZero) {
  Program load({"--hold", "8M", "--for", "10ms"});
  EXPECT_EQ(load.ReadUntil("\n"), "holding 8 MiB\n");
  EXPECT_EQ(ExitCode(load.Wait()), 0);
}

TEST(TheLoad, HoldsNothingOnRequest) {
  Program load({"--hold", "0", "--for", "0"});
  EXPECT_EQ(load.ReadAll(), "holding 0 B\n");
  EXPECT_EQ(ExitCode(load.Wait()), 0);
}

#ifdef __linux__
std::int64_t KilobytesOf(pid_t pid, const std::string& name) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  while (status >> word) {
    std::int64_t value = 0;
    if (word == name && status >> value) return value;
  }
  return 0;
}

TEST(TheLoad, ReallyTouchesItsPages) {
  Program load({"--hold", "64M", "--for", "60s"});
  ASSERT_EQ(load.ReadUntil("\n"), "holding 64 MiB\n");
  EXPECT_GE(KilobytesOf(load.pid(), "RssAnon:") + KilobytesOf(load.pid(), "VmSwap:"), 64 * 1024);
}

TEST(TheLoad, GrowsOverItsRamp) {
  Program load({"--hold", "64M", "--for", "0", "--ramp", "60s"});
  const absl::Time deadline = absl::Now() + absl::Seconds(40);
  while (KilobytesOf(load.pid(), "RssAnon:") < 2048 && absl::Now() < deadline) {
  }
  const std::int64_t kilobytes = KilobytesOf(load.pid(), "RssAnon:");
  EXPECT_GE(kilobytes, 2048);
  EXPECT_LT(kilobytes, 63 * 1024);
}
#endif

#ifdef __linux__
TEST(TheLoad, TakesAndGivesBackInSteps) {
  Program load({"--hold", "8M", "--for", "0", "--then", "64M:0:50ms", "--then", "24M:0", "--then",
                "32M:60s"});
  ASSERT_THAT(load.ReadUntil("holding 32 MiB\n"),
              testing::EndsWith("holding 8 MiB\nholding 64 MiB\nholding 24 MiB\nholding 32 MiB\n"));
  const std::int64_t kilobytes =
      KilobytesOf(load.pid(), "RssAnon:") + KilobytesOf(load.pid(), "VmSwap:");
  EXPECT_GE(kilobytes, 32 * 1024);
  EXPECT_LT(kilobytes, 40 * 1024);
}
#endif

TEST(TheLoad, TakesItsTime) {
  const absl::Time start = absl::Now();
  Program load({"--hold", "4M", "--ramp", "200ms", "--for", "200ms"});
  EXPECT_EQ(ExitCode(load.Wait()), 0);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(400));
}

TEST(TheLoad, EndsAtOnceOnASignal) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Program load({"--hold", "1M", "--for", "1h"});
    ASSERT_EQ(load.ReadUntil("\n"), "holding 1 MiB\n");
    ASSERT_EQ(kill(load.pid(), signal), 0);
    EXPECT_EQ(EndSignal(load.Wait()), signal);
  }
}

TEST(TheLoad, IgnoresSigtermOnRequestButNotSigint) {
  Program load({"--hold", "1M", "--for", "1h", "--ignore-term"});
  ASSERT_EQ(load.ReadUntil("\n"), "holding 1 MiB\n");
  ASSERT_EQ(kill(load.pid(), SIGTERM), 0);
  ASSERT_EQ(kill(load.pid(), SIGINT), 0);
  EXPECT_EQ(EndSignal(load.Wait()), SIGINT);  // SIGTERM, the earlier one, did nothing
}

TEST(TheLoad, RefusesBadInputWithCode2AndSaysWhy) {
  const struct {
    std::vector<std::string> arguments;
    std::string message;
  } kCases[] = {
      {{"--hold", "8X", "--for", "1s"}, "size \"8X\": unknown unit \"X\""},
      {{"--hold=-8M", "--for", "1s"}, "must not be negative"},
      {{"--hold", "8M", "--for=-1s"}, "duration \"-1s\": must not be negative"},
      {{"--hold", "8M", "--for", "1s", "--ramp", "x"}, "duration \"x\""},
      {{"--hold", "8M", "--for", "1s", "--then", "8M"}, "not SIZE:FOR[:RAMP]"},
      {{"--hold", "8M", "--for", "1s", "--then", "8X:1s"}, "unknown unit"},
      {{"--hold", "8M"}, "--for"},
      {{"--for", "1s"}, "--hold"},
      {{"--hold", "8M", "--for", "1s", "extra"}, "extra"},
      {{"--hold", "8M", "--for", "1s", "--bogus"}, "--bogus"},
  };
  for (const auto& [arguments, message] : kCases) {
    Program load(arguments);
    EXPECT_THAT(load.ReadAll(), HasSubstr(message));
    EXPECT_EQ(ExitCode(load.Wait()), 2) << message;
  }
}

TEST(TheLoad, SaysThatThereIsNotSoMuch) {
  Program load({"--hold", "7000P", "--for", "0"});
  EXPECT_THAT(load.ReadAll(), HasSubstr("allocate 6.84 EiB"));
  EXPECT_EQ(ExitCode(load.Wait()), 1);
}

TEST(TheLoad, ShowsItsUse) {
  Program load({"--help"});
  EXPECT_THAT(load.ReadAll(), HasSubstr("--ignore-term"));
  EXPECT_EQ(ExitCode(load.Wait()), 0);
}

}  // namespace
}  // namespace stageload
