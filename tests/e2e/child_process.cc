#include "tests/e2e/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <ostream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

namespace stageload::e2e {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

int Spawn(const ChildProcess::Command& command, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string in = command.output + ".in";
  const std::string out = command.output + ".out";
  const std::string err = command.output + ".err";
  constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
  posix_spawn_file_actions_addopen(&actions, 0, in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), kWrite, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), kWrite, 0600);
  posix_spawn_file_actions_addchdir_np(&actions, command.directory.c_str());

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(
      &attributes,
      static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP));

  std::vector<std::string> argv = command.argv;
  std::vector<std::string> environment = command.environment;
  const int error = posix_spawn(pid, argv[0].c_str(), &actions, &attributes, Pointers(argv).data(),
                                Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

bool Eventually(absl::FunctionRef<bool()> condition, absl::Duration patience) {
  const absl::Time deadline = absl::Now() + patience;
  for (;;) {
    if (condition()) return true;
    if (absl::Now() >= deadline) return false;
    absl::SleepFor(absl::Milliseconds(10));
  }
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) ADD_FAILURE() << "cannot write " << path;
}

std::ostream& operator<<(std::ostream& stream, const Result& result) {
  return stream << "exit code " << result.exit_code << " after " << result.took
                << "\nstdout: " << result.out << "\nstderr: " << result.err;
}

ChildProcess::ChildProcess(const Command& command)
    : name_(absl::StrJoin(command.argv, " ").substr(0, 200)),
      output_(command.output),
      start_(absl::Now()) {
  WriteFile(output_ + ".in", command.input);
  if (const int error = Spawn(command, &pid_); error != 0) {
    ADD_FAILURE() << "cannot start " << name_ << ": " << std::strerror(error);
    pid_ = -1;
    reaped_ = true;
  }
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : name_(std::move(other.name_)),
      output_(std::move(other.output_)),
      pid_(std::exchange(other.pid_, -1)),
      reaped_(std::exchange(other.reaped_, true)),
      status_(other.status_),
      start_(other.start_),
      end_(other.end_) {}

ChildProcess::~ChildProcess() {
  if (!Running()) return;
  Signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool ChildProcess::Running() {
  if (reaped_) return false;
  if (waitpid(pid_, &status_, WNOHANG) != pid_) return true;
  end_ = absl::Now();
  reaped_ = true;
  return false;
}

void ChildProcess::Signal(int signal) const {
  // Not reaped, so the pid is still ours.
  if (!reaped_) kill(pid_, signal);
}

std::string ChildProcess::Out() const { return ReadFile(output_ + ".out"); }
std::string ChildProcess::Err() const { return ReadFile(output_ + ".err"); }

bool ChildProcess::Prints(const std::string& text) {
  const auto printed = [&] {
    return absl::StrContains(Out(), text) || absl::StrContains(Err(), text);
  };
  Eventually([&] { return printed() || !Running(); });
  return printed();
}

Result ChildProcess::Wait(absl::Duration patience) {
  if (!Eventually([this] { return !Running(); }, patience)) {
    ADD_FAILURE() << name_ << " still ran after " << patience << "\nstdout: " << Out()
                  << "\nstderr: " << Err();
    Signal(SIGKILL);
    waitpid(pid_, &status_, 0);
    reaped_ = true;
    return {-1, Out(), Err(), absl::Now() - start_};
  }
  const int code = WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  return {pid_ < 0 ? -1 : code, Out(), Err(), end_ - start_};
}

}  // namespace stageload::e2e
