// One guarded command from its place in the queue to its exit code. See DESIGN section 7.
//
// The command is our child in a process group of its own, held until the daemon admits it. Signals,
// the child's changes and the daemon's answers come as events to one loop.
//
// Threading: one thread makes it and calls Run; it makes the threads that feed the loop.
#ifndef STAGELOAD_CLIENT_CTL_GUARD_RUN_H_
#define STAGELOAD_CLIENT_CTL_GUARD_RUN_H_

#include <optional>

#include "absl/time/time.h"
#include "client/ctl/connection.h"
#include "client/ctl/event_queue.h"
#include "client/ctl/guard_call.h"
#include "client/ctl/held_child.h"
#include "client/ctl/progress.h"
#include "client/ctl/terminal.h"

namespace stageload::ctl {

class GuardRun {
 public:
  // `child` was forked before anything that has a thread; `request` has all but its pid.
  GuardRun(HeldChild child, v1::GuardRequest request);
  GuardRun(const GuardRun&) = delete;
  GuardRun& operator=(const GuardRun&) = delete;

  // The exit code. The command has ended, or was never started.
  int Run(const ConnectOptions& connect);

 private:
  // Feeds the queue with the child's stops and its end; returns when it has ended.
  void WatchChild();

  // Each phase is a loop over events.
  std::optional<int> AwaitRoom();  // an exit code when it does not come to run
  void AwaitCommand();
  void AwaitVerdict();

  void LetGo();
  std::optional<int> TellNoRoom();
  void OnAnswer(v1::Job job);
  void OnCallEnded(const absl::Status& status);
  void OnChild(int wait_status);
  void OnChildStopped(int signal);
  void OnSignal(int number);
  void Escalate();
  bool CommandEnded() const;
  absl::Duration NextTimeout() const;
  void Report();
  int ExitCode() const;

  HeldChild child_;
  v1::GuardRequest request_;
  EventQueue events_;
  Progress progress_;
  Terminal terminal_;
  const Connection* connection_ = nullptr;

  v1::Job job_;             // as it was last told
  bool told_stop_ = false;  // why it is being stopped has been said
  bool told_suspended_ = false;
  bool call_ended_ = false;
  std::optional<int> child_status_;  // of waitpid, once it has ended
  int start_errno_ = 0;
  int interrupted_ = 0;  // the first signal that asked us to end
  int next_signal_ = 0;  // for the command's group, at `escalate_at_`
  absl::Time escalate_at_ = absl::InfiniteFuture();
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_GUARD_RUN_H_
