// Signals as calls on an ordinary thread. Handlers and not a blocked mask: what this process starts
// then inherits the mask it was started with, and exec puts the handlers away.
//
// Threading: one SignalEvents at a time; made and destroyed by one thread.
#ifndef STAGELOAD_CLIENT_CTL_SIGNALS_H_
#define STAGELOAD_CLIENT_CTL_SIGNALS_H_

#include <signal.h>

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/unique_fd.h"

namespace stageload::ctl {

class SignalEvents {
 public:
  // Calls `on_signal` with the number, on a thread of its own, for each signal of `signals` that
  // was not ignored when this was made: nohup and `&` in a script mean it.
  SignalEvents(const std::vector<int>& signals, std::function<void(int)> on_signal);
  SignalEvents(const SignalEvents&) = delete;
  SignalEvents& operator=(const SignalEvents&) = delete;
  ~SignalEvents();

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
  UniqueFd read_;
  UniqueFd write_;
  std::thread thread_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_SIGNALS_H_
