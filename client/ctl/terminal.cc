// tcsetpgrp, from the background and from the foreground.
#include "client/ctl/terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace stageload::ctl {

Terminal::Terminal() : fd_(open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)) {
  termios modes{};
  if (fd_.valid() && tcgetattr(fd_.get(), &modes) == 0) modes_ = modes;
}

bool Terminal::Ours() const { return fd_.valid() && tcgetpgrp(fd_.get()) == getpgrp(); }

bool Terminal::Interactive() const {
  return fd_.valid() && isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
}

void Terminal::Give(pid_t group) {
  if (!fd_.valid() || given_ || tcsetpgrp(fd_.get(), group) != 0) return;
  given_ = true;
  // We are in the background now. Who takes the terminal back from there, or says something on it
  // after `stty tostop`, is stopped by SIGTTOU unless he ignores it (POSIX, 11.1.4), and a stopped
  // guard sees nothing.
  before_ = std::signal(SIGTTOU, SIG_IGN);
  if (theirs_) (void)tcsetattr(fd_.get(), TCSADRAIN, &*theirs_);
  theirs_.reset();
}

void Terminal::TakeBack() {
  if (!std::exchange(given_, false)) return;
  (void)tcsetpgrp(fd_.get(), getpgrp());
  (void)std::signal(SIGTTOU, before_);
}

void Terminal::TakeBackWithModes() {
  if (!given_) return;
  TakeBack();
  if (!modes_) return;
  termios modes{};
  if (tcgetattr(fd_.get(), &modes) == 0) theirs_ = modes;
  (void)tcsetattr(fd_.get(), TCSADRAIN, &*modes_);
}

}  // namespace stageload::ctl
