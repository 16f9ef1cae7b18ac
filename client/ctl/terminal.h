// Who has the terminal. A guarded command runs in a process group of its own, so it must be made
// the terminal's foreground group, or it could neither read nor be stopped by Ctrl-C.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_TERMINAL_H_
#define STAGELOAD_CLIENT_CTL_TERMINAL_H_

#include <sys/types.h>
#include <termios.h>

#include <optional>

#include "client/ctl/unique_fd.h"

namespace stageload::ctl {

class Terminal {
 public:
  // The controlling terminal, if there is one.
  Terminal();

  // Whether our own group is the one in the foreground.
  bool Ours() const;
  // Whether stdin and stdout are both it: in `guard -- cmd | less` the pager keeps it.
  bool Interactive() const;

  void Give(pid_t group);
  // No-op unless it was given away.
  void TakeBack();
  // As TakeBack, with the modes as they were: a command that was killed, or stopped where it could
  // do nothing about it, cannot have put them back. The next Give has those that the command had.
  void TakeBackWithModes();

  bool given() const { return given_; }

 private:
  UniqueFd fd_;
  bool given_ = false;
  void (*before_)(int) = nullptr;  // what SIGTTOU did before it was given away
  std::optional<termios> modes_;
  std::optional<termios> theirs_;  // from TakeBackWithModes to Give
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TERMINAL_H_
