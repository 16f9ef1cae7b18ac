// Hears of Ctrl-C while a command's process group has the terminal: the terminal signals that group
// only, and whoever is not in it is told nothing. So a process of ours is put into the group whose
// one task is to die of SIGINT.
//
// Threading: made and destroyed by one thread; it has a thread of its own.
#ifndef STAGELOAD_CLIENT_CTL_INTERRUPT_WATCH_H_
#define STAGELOAD_CLIENT_CTL_INTERRUPT_WATCH_H_

#include <sys/types.h>

#include <functional>
#include <mutex>
#include <thread>

#include "client/ctl/unique_fd.h"

namespace stageload::ctl {

// Whether it has SIGINT ignored: Ctrl-C means nothing to it. One that handles it (an interpreter's
// prompt, a trainer that saves first) knows better than we what it means.
bool IgnoresInterrupt(pid_t pid);

class InterruptWatch {
 public:
  // Calls `on_interrupt` on its own thread each time that the group gets SIGINT. Where the process
  // cannot be started, never.
  InterruptWatch(pid_t group, std::function<void()> on_interrupt);
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch();

  // Nothing of it is left in the group then. Whether the group ever got SIGINT, also where
  // `on_interrupt` was not yet called for it.
  bool End();

 private:
  void Watch();
  bool Start();

  const pid_t group_;
  std::function<void()> on_interrupt_;
  UniqueFd read_;   // its stdin: when we are killed it sees the end of file and ends
  UniqueFd write_;  // never written to
  std::mutex mutex_;
  pid_t pid_ = -1;
  bool stop_ = false;
  bool heard_ = false;
  std::thread thread_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_INTERRUPT_WATCH_H_
