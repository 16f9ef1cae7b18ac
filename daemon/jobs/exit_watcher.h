// Tells when a process ends, whether it is our child or not; and waits along for what a descriptor
// has to tell of another kind.
//
// Threading: Watch() from any thread; callbacks come from the thread in Handle(), which is one.
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

  // Calls `on_urgent` from Handle() whenever poll(2) would begin to say POLLPRI of `descriptor`,
  // which stays the caller's. For what would else need a thread of its own to wait.
  absl::Status WatchUrgent(int descriptor, std::function<void()> on_urgent);

  // Has input when there is something for Handle(). It is the watcher's.
  int descriptor() const;
  // Calls back for all that has happened since; does not wait.
  void Handle();

 private:
  class Impl;
  explicit ExitWatcher(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_EXIT_WATCHER_H_
