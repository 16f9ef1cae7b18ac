// p_sigignore of the process table's entry (sys/proc.h, filled in by bsd/kern/kern_sysctl.c).
#include <signal.h>
#include <sys/proc.h>
#include <sys/sysctl.h>

#include "client/ctl/interrupt_watch.h"

namespace stageload::ctl {

bool IgnoresInterrupt(pid_t pid) {
  int name[] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, pid};
  kinfo_proc entry{};
  std::size_t size = sizeof entry;
  if (sysctl(name, 4, &entry, &size, nullptr, 0) != 0 || size < sizeof entry) return false;
  return (entry.kp_proc.p_sigignore & sigmask(SIGINT)) != 0;
}

}  // namespace stageload::ctl
