// Puts the terminal back as it was when a signal ends this process in the middle of a full screen,
// by a crash or from outside: what a shell gets afterwards must not be a black screen without a
// cursor that echoes nothing.
//
// Threading: made and destroyed by one thread, one at a time. What runs in the handlers uses
// async-signal-safe calls only, on memory that was filled before.
#ifndef STAGELOAD_CLIENT_CTL_TOP_RESTORE_H_
#define STAGELOAD_CLIENT_CTL_TOP_RESTORE_H_

#include <signal.h>
#include <termios.h>

#include <string>
#include <utility>
#include <vector>

#include "client/ctl/unique_fd.h"

namespace stageload::ctl {

class CrashRestore {
 public:
  // From now on each signal that would end the process (SIGSEGV, SIGUSR1, ...) first writes `leave`
  // to `fd` and sets `modes` there.
  CrashRestore(int fd, const termios& modes, const std::string& leave);
  CrashRestore(const CrashRestore&) = delete;
  CrashRestore& operator=(const CrashRestore&) = delete;
  ~CrashRestore();

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
  std::vector<char> stack_;  // a stack that overflowed is no place for a handler
};

// Keeps what is written to stderr out of the picture while this lives: it comes to stderr
// afterwards, also after a crash. Does nothing where stderr is no terminal.
class HeldStderr {
 public:
  HeldStderr();
  HeldStderr(const HeldStderr&) = delete;
  HeldStderr& operator=(const HeldStderr&) = delete;
  ~HeldStderr();

 private:
  UniqueFd terminal_;
  UniqueFd words_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TOP_RESTORE_H_
