// Spawns the program with its output in files.
#include "tests/client/ctl/program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "client/ctl/environment.h"

namespace stageload::ctl {
namespace {

std::string Contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

Program::Program(const std::string& home, std::vector<std::string> arguments)
    : Program(home, std::move(arguments), STAGELOADCTL) {}

Program::Program(const std::string& home, std::vector<std::string> arguments,
                 const std::string& program) {
  std::string name = (std::filesystem::temp_directory_path() / "ctl-program-XXXXXX").string();
  folder_ = mkdtemp(name.data());
  out_path_ = folder_ + "/out";
  err_path_ = folder_ + "/err";
  arguments.insert(arguments.begin(), program);
  std::vector<std::string> environment = OwnEnvironment();
  SetVariable(environment, "STAGELOAD_HOME", home);
  SetVariable(environment, "STAGELOAD_SOCKET", "");
  SetVariable(environment, "STAGELOAD_NO_AUTOSTART", "1");
  SetVariable(environment, "CTL", STAGELOADCTL);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  const int create = O_WRONLY | O_CREAT | O_APPEND;
  posix_spawn_file_actions_addopen(&actions, 1, out_path_.c_str(), create, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err_path_.c_str(), create, 0600);
  // As from a terminal, whatever the test was started with; and in a session without one.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  if (posix_spawn(&pid_, program.c_str(), &actions, &attributes, Pointers(arguments).data(),
                  Pointers(environment).data()) != 0) {
    pid_ = -1;
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
}

Program::~Program() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::filesystem::remove_all(folder_);
}

void Program::Signal(int number) const { kill(pid_, number); }

bool Program::Await(const std::string& path, const std::string& text) {
  return Eventually([&] { return Contents(path).find(text) != std::string::npos; });
}

int Program::Wait() {
  int status = 0;
  const bool ended = Eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
  if (!ended) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
  if (!ended) return -999;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string Program::Out() const { return Contents(out_path_); }
std::string Program::Err() const { return Contents(err_path_); }

Result RunProgram(const std::string& home, std::vector<std::string> arguments) {
  Program program(home, std::move(arguments));
  const int code = program.Wait();
  return {code, program.Out(), program.Err()};
}

Result RunShell(const std::string& home, const std::string& script) {
  Program program(home, {"-c", script}, "/bin/sh");
  const int code = program.Wait();
  return {code, program.Out(), program.Err()};
}

}  // namespace stageload::ctl
