#include "client/ctl/home_holder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text.h"
#include "client/ctl/daemon_control.h"
#include "client/ctl/doctor_machine.h"
#include "client/ctl/print.h"
#include "client/ctl/unique_fd.h"

namespace stageload::ctl {
namespace {

constexpr absl::Duration kStopTimeout = absl::Seconds(30);
constexpr absl::Duration kPause = absl::Milliseconds(10);
// From its lock to its socket, when it starts, and from its socket's end to its lock's.
constexpr absl::Duration kSettles = absl::Seconds(2);
// Of one that answers, should that be the one whose socket the service seems to have.
constexpr absl::Duration kAsideAnswers = absl::Seconds(3);

absl::Status CannotEnd(const HomeHolder& holder) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the daemon (pid ", holder.pid,
      ") is stopped (SIGSTOP, or a debugger) and can neither answer nor end; let it go on with "
      "`kill -CONT ",
      holder.pid, "` first"));
}

}  // namespace

UniqueFd OpenLock(const std::string& lock) {
  return UniqueFd(::open(lock.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

int PidIn(const UniqueFd& lock) {
  char text[32] = {};
  int pid = 0;
  if (!lock.valid() || ::pread(lock.get(), text, sizeof text - 1, 0) <= 0) return 0;
  const std::string line = std::string(text).substr(0, std::string(text).find('\n'));
  return absl::SimpleAtoi(line, &pid) && pid > 0 ? pid : 0;
}

std::optional<HomeHolder> HolderOf(const std::string& lock) {
  const UniqueFd fd = OpenLock(lock);
  HomeHolder holder;
  holder.pid = PidIn(fd);
  struct stat file {};
  if (holder.pid == 0 || ::fstat(fd.get(), &file) != 0) return std::nullopt;
  if (!HasOpen(holder.pid, file.st_dev, file.st_ino)) return std::nullopt;
  holder.stopped = StateOf(holder.pid) == 'T';
  return holder;
}

AtHome LookAtHome(const ConnectOptions& connect, const std::string& lock,
                  const Supervised* service) {
  AtHome home;
  const auto of_service = [&](const HomeHolder& holder) {
    return service != nullptr && (holder.pid == service->pid || !service->twice.empty());
  };
  const absl::Time begin = absl::Now();
  for (;;) {
    home.silent = HolderOf(lock);
    if (home.IsStopped()) {
      home.running = CannotEnd(*home.silent);
      break;
    }
    const bool waits = home.silent && service != nullptr && service->loaded && service->pid != 0 &&
                       !of_service(*home.silent);
    home.running = Running(connect, waits ? kAsideAnswers : client::kAnswerWithin);
    home.silent = HolderOf(lock);
    if (!home.running.ok() || *home.running || !home.silent) break;
    if (absl::Now() - begin > kSettles) break;
    absl::SleepFor(kPause);
  }
  if (home.Answers()) home.silent = std::nullopt;
  if (home.silent && !of_service(*home.silent)) home.aside = home.silent;
  return home;
}

absl::Status EndAside(const HomeHolder& aside, const std::string& lock, const std::string& socket) {
  if (aside.stopped) return CannotEnd(aside);
  if (::kill(aside.pid, SIGTERM) != 0 && errno != ESRCH) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("end the daemon (pid ", aside.pid, ") that has ", lock));
  }
  if (auto status = AwaitLockFree(lock, aside.pid); !status.ok()) return status;
  (void)Out(absl::StrCat("ended: stageloadd, pid ", aside.pid, ", which had ", lock,
                         " and did not answer at ", socket, "; jobs run on\n"));
  return absl::OkStatus();
}

// A daemon holds its lock until its last write is done. Another may take it before we look.
absl::Status AwaitLockFree(const std::string& lock, int pid) {
  const absl::Time begin = absl::Now();
  while (absl::Now() - begin < kStopTimeout) {
    const UniqueFd fd = OpenLock(lock);
    if (!fd.valid() && errno == ENOENT) return absl::OkStatus();
    if (fd.valid() && ::flock(fd.get(), LOCK_SH | LOCK_NB) == 0) return absl::OkStatus();
    const int holder = PidIn(fd);
    if (holder != 0 && holder != pid) return absl::OkStatus();
    absl::SleepFor(kPause);
  }
  if (StateOf(pid) == 'T') return CannotEnd({pid, true});
  return absl::DeadlineExceededError(absl::StrCat(
      "the daemon (pid ", pid, ") was told to end and still holds ", lock, " after ",
      FormatSpan(kStopTimeout), "; `kill -9 ", pid, "` ends it at once (jobs run on)"));
}

}  // namespace stageload::ctl
