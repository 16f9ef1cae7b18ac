#include "client/ctl/tool.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/paths.h"
#include "base/text.h"
#include "client/ctl/environment.h"
#include "client/ctl/unique_fd.h"
#include "client/lib/command_path.h"

namespace stageload::ctl {
namespace {

constexpr std::size_t kMostHeard = 64 * 1024;

// An unlinked file and not a pipe: a service that the tool starts may inherit it.
absl::StatusOr<UniqueFd> OutputFile() {
  std::string path =
      absl::StrCat(ProcessEnvironment()("TMPDIR").value_or("/tmp"), "/stageloadctl-XXXXXX");
  UniqueFd fd(mkstemp(path.data()));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("make the file ", path));
  (void)unlink(path.c_str());
  (void)fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
  return fd;
}

std::string Heard(int fd) {
  std::string text(kMostHeard, '\0');
  const ssize_t length = pread(fd, text.data(), text.size(), 0);
  text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  absl::StripAsciiWhitespace(&text);
  return text;
}

// A session of its own: a tool that would ask at the terminal fails instead of waiting.
absl::StatusOr<pid_t> Spawn(const std::string& program, std::vector<std::string>& argv,
                            int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, output, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::vector<std::string> environment = OwnEnvironment();
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attributes, Pointers(argv).data(),
                                Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("run ", program));
  return pid;
}

// -1 when it has not ended in time.
int AwaitExit(pid_t pid, absl::Duration timeout) {
  const absl::Time begin = absl::Now();
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid) break;
    if (ended < 0 && errno == ECHILD) return -1;  // its pid may be another's by now
    if (absl::Now() - begin > timeout) {
      kill(pid, SIGKILL);
      (void)waitpid(pid, &status, 0);
      return -1;
    }
    const timespec pause{0, 2'000'000};
    nanosleep(&pause, nullptr);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

absl::StatusOr<ToolResult> RunTool(std::vector<std::string> argv, absl::Duration timeout) {
  const absl::StatusOr<std::string> program =
      client::FindCommand(argv.front(), ProcessEnvironment()("PATH").value_or(""));
  if (!program.ok()) return program.status();
  const absl::StatusOr<UniqueFd> output = OutputFile();
  if (!output.ok()) return output.status();
  const absl::StatusOr<pid_t> pid = Spawn(*program, argv, output->get());
  if (!pid.ok()) return pid.status();
  const int code = AwaitExit(*pid, timeout);
  if (code < 0) {
    return absl::DeadlineExceededError(absl::StrCat(
        ShellText(argv), ": not done after ", FormatSpan(timeout), ": ", Heard(output->get())));
  }
  return ToolResult{code, Heard(output->get())};
}

std::string ShellText(const std::vector<std::string>& argv) {
  constexpr char kPlain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,";
  std::string text;
  for (const std::string& word : argv) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += word;
    } else {
      absl::StrAppend(&text, "'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
    }
  }
  return text;
}

std::string ToolFailure(const std::vector<std::string>& argv, const ToolResult& result) {
  return absl::StrCat(ShellText(argv), ": exit code ", result.exit_code,
                      result.output.empty() ? "" : ": ",
                      absl::StrReplaceAll(result.output, {{"\n", "; "}}));
}

}  // namespace stageload::ctl
