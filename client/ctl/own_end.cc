#include "client/ctl/own_end.h"

#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "client/ctl/exit_code.h"

namespace stageload::ctl {

int ExitOfOwnSignal(int signal) {
  return signal == SIGINT ? kDieOfInterrupt : ExitOfSignal(signal);
}

void EndWith(int code) {
  // Nothing is left to do, and taking a gRPC library down costs milliseconds.
  if (code != kDieOfInterrupt && code != kDieOfInterruptWithGroup) std::_Exit(code);
  (void)std::signal(SIGINT, SIG_DFL);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  (void)pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
  (void)kill(code == kDieOfInterruptWithGroup ? 0 : getpid(), SIGINT);
  std::_Exit(ExitOfSignal(SIGINT));  // not reached: a signal to oneself comes before kill returns
}

}  // namespace stageload::ctl
