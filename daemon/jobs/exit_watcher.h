// Tells when a process ends, whether it is our child or not; and lends its thread to whom a
// descriptor tells something else.
//
// Threading: Watch() and Stop() from any thread; the callback comes from the thread in Run().
#ifndef STAGELOAD_DAEMON_JOBS_EXIT_WATCHER_H_
#define STAGELOAD_DAEMON_JOBS_EXIT_WATCHER_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "daemon/core/process.h"
#include "daemon/jobs/signal.h"

namespace stageload::jobs {

class ExitWatcher {
 public:
  // Called once for each watched process, after it ended and, if it was our child, was reaped.
  using OnExit = std::function<void(const core::ProcessIdentity&)>;

  // ResourceExhausted or Internal when the kernel gives no descriptor.
  static absl::StatusOr<std::unique_ptr<ExitWatcher>> Create(OnExit on_exit);
  ~ExitWatcher();

  // Attaches to the pid, then verifies the identity. NotFound when it is gone already: there will
  // be no callback then (and if it was our child it has been reaped).
  absl::Status Watch(const core::ProcessIdentity& identity, const StillThere& still_there);

  // Calls `on_urgent` from Run() whenever poll(2) would begin to say POLLPRI of `descriptor`, which
  // stays the caller's. For what would else need a thread of its own to wait.
  absl::Status WatchUrgent(int descriptor, std::function<void()> on_urgent);

  void Run();   // until Stop()
  void Stop();  // Run() returns soon; no callback after that

 private:
  class Impl;
  explicit ExitWatcher(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_EXIT_WATCHER_H_
