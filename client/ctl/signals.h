// Signals as calls on an ordinary thread.
//
// Threading: one SignalEvents at a time; made and destroyed by one thread.
#ifndef STAGELOAD_CLIENT_CTL_SIGNALS_H_
#define STAGELOAD_CLIENT_CTL_SIGNALS_H_

#include <functional>
#include <thread>
#include <vector>

#include "base/signal_pipe.h"

namespace stageload::ctl {

class SignalEvents {
 public:
  // Calls `on_signal` with the number, on a thread of its own, for each signal of `signals` that
  // was not ignored when this was made.
  SignalEvents(const std::vector<int>& signals, std::function<void(int)> on_signal);
  ~SignalEvents();
  SignalEvents(const SignalEvents&) = delete;
  SignalEvents& operator=(const SignalEvents&) = delete;

 private:
  SignalPipe pipe_;
  std::thread thread_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_SIGNALS_H_
