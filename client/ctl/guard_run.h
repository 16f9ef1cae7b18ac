// One guarded command from its place in the queue to its exit code. See DESIGN section 7.
//
// The command is our child in a process group of its own, held until the daemon admits it. Signals,
// the child's changes and the daemon's answers come as events to one loop. When the daemon goes
// away, the next one is told of the same job.
//
// Threading: one thread makes it and calls Run; it makes the threads that feed the loop.
#ifndef STAGELOAD_CLIENT_CTL_GUARD_RUN_H_
#define STAGELOAD_CLIENT_CTL_GUARD_RUN_H_

#include <memory>
#include <optional>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/ctl/connection.h"
#include "client/ctl/event_queue.h"
#include "client/ctl/foreground_command.h"
#include "client/ctl/guard_call.h"
#include "client/ctl/guard_trace.h"
#include "client/ctl/next_daemon.h"
#include "client/ctl/progress.h"

namespace stageload::ctl {

class GuardRun {
 public:
  // `child` was forked before anything that has a thread; `request` has all but its pid; `trace`
  // may be null.
  GuardRun(HeldChild child, v1::GuardRequest request, std::unique_ptr<GuardTrace> trace);
  GuardRun(const GuardRun&) = delete;
  GuardRun& operator=(const GuardRun&) = delete;

  // The exit code. The command has ended, or was never started.
  int Run(const ConnectOptions& connect);

 private:
  // Each phase is a loop over events.
  std::optional<int> AwaitRoom();  // an exit code when it does not come to run
  void AwaitCommand();
  void AwaitVerdict();

  // Calls of the daemon; their answers are events.
  void AskForRoom();
  void Resume();
  template <typename Request>
  void Call(const Request& request);
  bool IsOld(const GuardEvent& event) const;
  void OnLost(const absl::Status& status);
  void OnFound(Connection connection);

  std::optional<int> TellNoRoom();
  std::optional<int> OnCallEndedWaiting(const absl::Status& status);
  void OnAnswer(v1::Job job);
  void OnCallEnded(const absl::Status& status);
  absl::Time VerdictBy() const;
  void Report();
  int ExitCode() const;

  v1::GuardRequest request_;
  const std::unique_ptr<GuardTrace> trace_;
  EventQueue<GuardEvent> events_;
  ForegroundCommand command_;
  Progress progress_;

  ConnectOptions connect_;
  Connection connection_;             // to the daemon that answered last
  absl::Time asked_ = absl::Now();    // for room, first
  int calls_ = 0;                     // the last is the one that counts
  bool resumed_ = false;              // the last call was of a job that an earlier daemon took
  std::unique_ptr<GuardCall> call_;   // null while there is no daemon
  std::unique_ptr<NextDaemon> next_;  // while one is looked for
  std::optional<absl::Time> lost_;    // when the last one went away

  v1::Job job_;             // as it was last told
  bool told_stop_ = false;  // why it is being stopped has been said
  bool told_suspended_ = false;
  bool reported_ = false;  // how it ended, and somebody heard it
  int start_errno_ = 0;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_GUARD_RUN_H_
