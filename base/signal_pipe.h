// Signals as input of a descriptor. Handlers and not a blocked mask: what this process starts then
// inherits the mask it was started with, and exec puts the handlers away.
//
// Threading: one at a time in a process, made, ended and destroyed by one thread; Take() in one.
#ifndef STAGELOAD_BASE_SIGNAL_PIPE_H_
#define STAGELOAD_BASE_SIGNAL_PIPE_H_

#include <signal.h>

#include <optional>
#include <utility>
#include <vector>

namespace stageload {

class SignalPipe {
 public:
  // Of those of `signals` that are not ignored now: nohup and `&` in a script mean it. Without a
  // descriptor left, signals keep what they did before.
  explicit SignalPipe(const std::vector<int>& signals);
  ~SignalPipe();  // End()
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  // Has input while there is a signal to take, and from End() on; -1 when there was none left.
  int descriptor() const { return read_; }
  // The number of the next; blocks for it. Nothing after End().
  std::optional<int> Take();
  // Signals do what they did before.
  void End();

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
  int read_ = -1;
  int write_ = -1;
};

}  // namespace stageload

#endif  // STAGELOAD_BASE_SIGNAL_PIPE_H_
