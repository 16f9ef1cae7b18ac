// Finds, spawns and waits for stageloadd.
#include "client/lib/autostart.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/error_reason.h"
#include "base/own_program.h"
#include "base/text.h"
#include "client/lib/command_path.h"
#include "client/lib/connection.h"
#include "client/lib/environment.h"
#include "client/lib/lock_holder.h"

namespace stageload::client {
namespace {

// How long the winner of a start may take from its lock to its pid in the lock file.
constexpr absl::Duration kLoserWaits = absl::Milliseconds(500);

// What the daemon says while it starts. An unlinked file and not a pipe: a daemon that lives on and
// writes to stderr later must not be killed or blocked by our having gone.
absl::StatusOr<UniqueFd> StderrFile() {
  const char* folder = std::getenv("TMPDIR");
  std::string path = absl::StrCat(folder != nullptr && *folder != '\0' ? folder : "/tmp",
                                  "/stageloadd-start-XXXXXX");
  UniqueFd fd(mkstemp(path.data()));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("make the file ", path));
  (void)unlink(path.c_str());
  (void)fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
  return fd;
}

// Its last words on one line.
std::string Contents(int fd) {
  std::string text(4096, '\0');
  const ssize_t length = pread(fd, text.data(), text.size(), 0);
  text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  absl::StripAsciiWhitespace(&text);
  return absl::StrReplaceAll(text, {{"\n", "; "}});
}

// The pieces of posix_spawn, freed together.
struct SpawnPlan {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

// A daemon has no terminal, no open files of the caller (or a pipe that the caller's reader waits
// on would never end), no blocked and no ignored signals, and keeps no folder busy.
void Detach(SpawnPlan& plan, int stderr_fd) {
  posix_spawn_file_actions_addopen(&plan.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&plan.actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&plan.actions, stderr_fd, 2);
  short flags = POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
#ifdef __APPLE__
  flags = static_cast<short>(flags | POSIX_SPAWN_CLOEXEC_DEFAULT);
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"  // renamed in macOS 26
  posix_spawn_file_actions_addchdir_np(&plan.actions, "/");
#pragma clang diagnostic pop
#else
  posix_spawn_file_actions_addclosefrom_np(&plan.actions, 3);
  posix_spawn_file_actions_addchdir_np(&plan.actions, "/");
#endif
  sigset_t none;
  sigemptyset(&none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&plan.attributes, &none);
  posix_spawnattr_setsigdefault(&plan.attributes, &all);
  posix_spawnattr_setflags(&plan.attributes, flags);
}

absl::StatusOr<pid_t> Spawn(const std::string& daemon, std::vector<std::string> arguments,
                            const std::string& socket, int stderr_fd) {
  arguments.insert(arguments.begin(), daemon);
  // The daemon must listen where we dial, also when that came by --socket.
  std::vector<std::string> environment = OwnEnvironment();
  SetVariable(environment, "STAGELOAD_SOCKET", socket);
  SpawnPlan plan;
  Detach(plan, stderr_fd);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, daemon.c_str(), &plan.actions, &plan.attributes,
                                Pointers(arguments).data(), Pointers(environment).data());
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("start ", daemon));
  return pid;
}

// What a daemon has written into the lock file: a pid, and its socket, which older ones do not
// tell.
struct Holder {
  std::int32_t pid = 0;
  std::string socket;
};

// Absent when the process is gone: then it is of a daemon that was killed.
std::optional<Holder> HolderOf(const std::string& lock) {
  const UniqueFd fd(open(lock.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char text[1024];
  const ssize_t length = fd.valid() ? read(fd.get(), text, sizeof text) : 0;
  if (length <= 0) return std::nullopt;
  const std::vector<std::string> lines =
      absl::StrSplit(std::string(text, static_cast<std::size_t>(length)), '\n');
  Holder holder;
  if (!absl::SimpleAtoi(lines[0], &holder.pid) || holder.pid <= 0) return std::nullopt;
  if (lines.size() > 1) holder.socket = lines[1];
  if (kill(holder.pid, 0) != 0 && errno != EPERM) return std::nullopt;
  return holder;
}

}  // namespace

bool HolderLives(const std::string& lock) { return HolderOf(lock).has_value(); }

namespace {

// One daemon that was spawned and is waited for.
class Start {
 public:
  Start(const Paths& paths, std::string daemon, pid_t pid, const UniqueFd& words)
      : paths_(paths), daemon_(std::move(daemon)), pid_(pid), words_(words) {}

  absl::StatusOr<UniqueFd> Await(absl::Duration timeout) {
    const absl::Time begin = absl::Now();
    while (absl::Now() - begin < timeout) {
      absl::StatusOr<UniqueFd> fd = Dial(paths_.socket);
      if (fd.ok() || !absl::IsNotFound(fd.status())) return fd;
      if (Ended() && absl::Now() - *ended_ > kLoserWaits && !HolderOf(paths_.lock)) {
        return Failure(absl::StrCat("ended at its start with ", How()));
      }
      const timespec pause{0, 5'000'000};
      nanosleep(&pause, nullptr);
    }
    return Failure(
        absl::StrCat("does not answer at ", paths_.socket, " after ", FormatSpan(timeout)));
  }

 private:
  bool Ended() {
    if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = absl::Now();
    return ended_.has_value();
  }

  std::string How() const {
    return WIFEXITED(status_) ? absl::StrCat("code ", WEXITSTATUS(status_))
                              : absl::StrCat("signal ", WTERMSIG(status_));
  }

  absl::Status Failure(const std::string& what) const {
    const std::string words = Contents(words_.get());
    return absl::UnavailableError(
        absl::StrCat("no daemon: ", daemon_, " ", what, words.empty() ? "" : ": ", words));
  }

  const Paths& paths_;
  std::string daemon_;
  pid_t pid_;
  const UniqueFd& words_;
  int status_ = 0;
  std::optional<absl::Time> ended_;
};

}  // namespace

absl::StatusOr<std::string> FindDaemon(const Environment& environment) {
  if (const auto named = environment("STAGELOAD_DAEMON")) {
    // The daemon is started in another folder, as by a service.
    std::error_code error;
    const auto absolute = std::filesystem::absolute(*named, error);
    return error ? *named : absolute.lexically_normal().string();
  }
  const std::string own = OwnProgram();
  const std::size_t slash = own.rfind('/');
  if (slash != std::string::npos) {
    const std::string beside = own.substr(0, slash + 1) + "stageloadd";
    // An upgrade may take the folder of this version away, and the daemon lives on.
    if (access(beside.c_str(), X_OK) == 0) return StablePath(beside);
  }
  absl::StatusOr<std::string> in_path = FindCommand("stageloadd", environment("PATH").value_or(""));
  if (in_path.ok()) return in_path;
  return absl::UnavailableError(
      "no daemon, and no stageloadd to start: neither beside this program nor in PATH (set "
      "STAGELOAD_DAEMON to its path)");
}

absl::Status CheckNotElsewhere(const Paths& paths) {
  const std::optional<Holder> holder = HolderOf(paths.lock);
  if (!holder || holder->socket.empty() || holder->socket == paths.socket) return absl::OkStatus();
  // Its pid may be another process's by now; who takes connections there is a daemon.
  if (!Dial(holder->socket).ok()) return absl::OkStatus();
  return WithReason(absl::FailedPreconditionError(
                        absl::StrCat("the daemon of this home (pid ", holder->pid, ") listens at ",
                                     holder->socket, " and not at ", paths.socket,
                                     ": another XDG_RUNTIME_DIR or STAGELOAD_SOCKET is set here, "
                                     "as in cron or after su; set it "
                                     "alike, or STAGELOAD_SOCKET=",
                                     holder->socket)),
                    kOtherSocket);
}

absl::StatusOr<UniqueFd> StartDaemon(const Paths& paths, std::vector<std::string> arguments,
                                     absl::Duration timeout) {
  absl::StatusOr<std::string> daemon = FindDaemon(ProcessEnvironment());
  if (!daemon.ok()) return daemon.status();
  absl::StatusOr<UniqueFd> words = StderrFile();
  if (!words.ok()) return words.status();
  const absl::StatusOr<pid_t> pid =
      Spawn(*daemon, std::move(arguments), paths.socket, words->get());
  if (!pid.ok()) {
    return absl::UnavailableError(absl::StrCat("no daemon: ", pid.status().message()));
  }
  return Start(paths, *daemon, *pid, *words).Await(timeout);
}

}  // namespace stageload::client
