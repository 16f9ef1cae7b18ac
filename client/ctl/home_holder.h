// Who has a home: the daemon that holds its lock. It is found without being asked, since it may be
// one that nobody reaches or that does not answer.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_HOME_HOLDER_H_
#define STAGELOAD_CLIENT_CTL_HOME_HOLDER_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ctl/connection.h"
#include "client/ctl/supervisor.h"
#include "client/ctl/unique_fd.h"

namespace stageload::ctl {

// To look at, also where somebody put something else in its place. Not valid where there is none.
UniqueFd OpenLock(const std::string& lock);
// The number in its first line, of who holds it or held it last; 0 of anything else.
int PidIn(const UniqueFd& lock);

struct HomeHolder {
  int pid = 0;
  bool stopped = false;  // by SIGSTOP or a debugger: it can neither answer nor end
};

// The process that the lock file names, where it has that file open, and so is no other that has
// its pid by now. Nothing when there is none, or that cannot be told.
std::optional<HomeHolder> HolderOf(const std::string& lock);

// What there is before a command changes anything.
struct AtHome {
  // Who answers at the socket, as Running(); FailedPrecondition when one cannot, being stopped.
  absl::StatusOr<std::optional<Connection>> running = std::optional<Connection>();
  // Who has the home where none answers.
  std::optional<HomeHolder> silent;
  // Of these one that the service does not end: nobody comes to have the home before it has left.
  std::optional<HomeHolder> aside;

  bool Answers() const { return running.ok() && running->has_value(); }
  bool IsStopped() const { return silent && silent->stopped; }
};
// `service` is what the supervisor says where one serves here, else null. Waits for one that starts
// or ends in this moment.
AtHome LookAtHome(const ConnectOptions& connect, const std::string& lock,
                  const Supervised* service);

// Ends it by SIGTERM, in order, and waits until it has left; jobs run on. Says so on stdout.
// FailedPrecondition, with what to do, of one that is stopped.
absl::Status EndAside(const HomeHolder& aside, const std::string& lock, const std::string& socket);

// Waits until `pid` has left the home. DeadlineExceeded with what to do.
absl::Status AwaitLockFree(const std::string& lock, int pid);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_HOME_HOLDER_H_
