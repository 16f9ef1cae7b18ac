// /bin/cat waits for an end of file and has no handler for anything.
#include "client/ctl/interrupt_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "client/ctl/environment.h"

namespace stageload::ctl {
namespace {

constexpr const char* kProgram = "/bin/cat";

}  // namespace

InterruptWatch::InterruptWatch(pid_t group, std::function<void()> on_interrupt)
    : group_(group), on_interrupt_(std::move(on_interrupt)) {
  int ends[2];
  if (pipe(ends) != 0) return;  // out of descriptors: Ctrl-C is the command's alone
  read_.Reset(ends[0]);
  write_.Reset(ends[1]);
  for (const int end : ends) (void)fcntl(end, F_SETFD, FD_CLOEXEC);
  // Now: once the command runs, Ctrl-C may come at any time.
  if (Start()) thread_ = std::thread([this] { Watch(); });
}

InterruptWatch::~InterruptWatch() { (void)End(); }

bool InterruptWatch::End() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    if (pid_ > 0) (void)kill(pid_, SIGKILL);
  }
  if (thread_.joinable()) thread_.join();
  return heard_;
}

void InterruptWatch::Watch() {
  do {
    siginfo_t info{};
    // Left a zombie until pid_ is taken back, so that the pid is its own when it is killed.
    while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR) {
    }
    int status = 0;
    {
      const std::lock_guard lock(mutex_);
      (void)waitpid(std::exchange(pid_, -1), &status, 0);
      const bool interrupted = WIFSIGNALED(status) && WTERMSIG(status) == SIGINT;
      heard_ = heard_ || interrupted;
      if (stop_ || !interrupted) return;
    }
    on_interrupt_();
  } while (Start());
}

// False when it cannot be, as once the group is gone.
bool InterruptWatch::Start() {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, read_.get(), 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  sigset_t none;
  sigemptyset(&none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, group_);
  posix_spawnattr_setflags(
      &attributes,
      static_cast<short>(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  std::vector<std::string> arguments = {kProgram};
  std::vector<std::string> environment;
  bool started = false;
  {
    const std::lock_guard lock(mutex_);
    started = !stop_ && posix_spawn(&pid_, kProgram, &actions, &attributes,
                                    Pointers(arguments).data(), Pointers(environment).data()) == 0;
    if (!started) pid_ = -1;
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return started;
}

}  // namespace stageload::ctl
