// tcsetpgrp, from the background and from the foreground.
#include "client/ctl/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

namespace stageload::ctl {
namespace {

// A background group that sets the terminal's group or modes gets SIGTTOU, unless that is blocked
// (POSIX, tcsetpgrp).
class BlockTtou {
 public:
  BlockTtou() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  BlockTtou(const BlockTtou&) = delete;
  BlockTtou& operator=(const BlockTtou&) = delete;
  ~BlockTtou() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

Terminal::Terminal() : fd_(open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)) {
  termios modes{};
  if (fd_.valid() && tcgetattr(fd_.get(), &modes) == 0) modes_ = modes;
}

bool Terminal::Ours() const { return fd_.valid() && tcgetpgrp(fd_.get()) == getpgrp(); }

bool Terminal::Interactive() const {
  return fd_.valid() && isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
}

void Terminal::Give(pid_t group) {
  if (!fd_.valid()) return;
  const BlockTtou block;
  given_ = tcsetpgrp(fd_.get(), group) == 0;
}

void Terminal::TakeBack() {
  if (!std::exchange(given_, false)) return;
  const BlockTtou block;
  (void)tcsetpgrp(fd_.get(), getpgrp());
}

void Terminal::TakeBackWithModes() {
  if (!given_) return;
  TakeBack();
  const BlockTtou block;
  if (modes_) (void)tcsetattr(fd_.get(), TCSADRAIN, &*modes_);
}

}  // namespace stageload::ctl
