// Handles what an exit watcher has, in a thread of its own, as the daemon's main thread does.
//
// Threading: made and destroyed by one thread.
#ifndef STAGELOAD_TESTS_EXITS_THREAD_H_
#define STAGELOAD_TESTS_EXITS_THREAD_H_

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "daemon/jobs/exit_watcher.h"

namespace stageload::jobs {

class ExitsThread {
 public:
  explicit ExitsThread(ExitWatcher& exits) {
    if (::pipe(end_) != 0) std::abort();
    thread_ = std::thread([this, &exits] {
      pollfd polled[] = {{end_[0], POLLIN, 0}, {exits.descriptor(), POLLIN, 0}};
      while (::poll(polled, 2, -1) < 0 || polled[0].revents == 0) exits.Handle();
    });
  }
  ~ExitsThread() {
    // Not by closing it: a test's processes may have it, too.
    if (::write(end_[1], "", 1) != 1) std::abort();
    thread_.join();
    ::close(end_[0]);
    ::close(end_[1]);
  }
  ExitsThread(const ExitsThread&) = delete;
  ExitsThread& operator=(const ExitsThread&) = delete;

 private:
  int end_[2] = {-1, -1};
  std::thread thread_;
};

}  // namespace stageload::jobs

#endif  // STAGELOAD_TESTS_EXITS_THREAD_H_
