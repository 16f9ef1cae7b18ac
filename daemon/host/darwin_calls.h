// The calls into a Mac's kernel that the reader makes, one for one, but for those to libdispatch
// that belong together: the real ones are in
// darwin_calls_darwin.cc, and a test plays a machine behind this that can fail each of them.
//
// Threading: the three clocks from any thread, the others from one at a time.
#ifndef STAGELOAD_DAEMON_HOST_DARWIN_CALLS_H_
#define STAGELOAD_DAEMON_HOST_DARWIN_CALLS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/time/time.h"
#include "daemon/host/darwin_kernel.h"
#include "daemon/host/host.h"

namespace stageload::host {

// A dispatch source that is at work.
class PressureSource {
 public:
  virtual ~PressureSource() = default;
};

class DarwinCalls {
 public:
  virtual ~DarwinCalls() = default;

  // 0 or an errno. `*size` goes in as the room at `out` and comes back as what was written; ENOMEM
  // when there would have been more.
  virtual int Sysctl(std::span<int> name, void* out, std::size_t* size) = 0;
  virtual int SysctlByName(const char* name, void* out, std::size_t* size) = 0;
  virtual int ProcPidInfo(pid_t pid, int flavor, std::uint64_t argument, void* out,
                          std::size_t* size) = 0;
  // 0 or an errno.
  virtual int ProcPidRusage(pid_t pid, int flavor, rusage_info_t* out) = 0;
  virtual int Getsid(pid_t pid, pid_t* session) = 0;

  // `*count` is in words of integer_t, as `*size` above. Each port that is not null is to be given
  // back.
  virtual mach_port_t MachHostSelf() = 0;
  virtual kern_return_t HostStatistics64(mach_port_t host, int flavor, integer_t* out,
                                         mach_msg_type_number_t* count) = 0;
  virtual kern_return_t TaskNameForPid(pid_t pid, mach_port_t* task) = 0;
  virtual kern_return_t TaskInfo(mach_port_t task, int flavor, integer_t* out,
                                 mach_msg_type_number_t* count) = 0;
  virtual void MachPortDeallocate(mach_port_t port) = 0;

  // Of the kernel, in which its counters count: 16 KiB on Apple silicon, 4 KiB on Intel. A program
  // for Intel that is translated has another one of its own, which hw.pagesize would say.
  virtual std::uint64_t KernelPageSize() = 0;

  // Calls `handler` from a thread of libdispatch's at each change of the memory's pressure, until
  // what it gives is destroyed: then the handler neither runs nor will. Null when libdispatch gives
  // no source.
  virtual std::unique_ptr<PressureSource> WatchPressure(std::function<void()> handler) = 0;

  virtual mach_timebase_info_data_t MachTimebase() = 0;
  virtual std::uint64_t MachAbsoluteTime() = 0;    // stops while the machine sleeps
  virtual std::uint64_t MachContinuousTime() = 0;  // runs through sleep
  virtual absl::Time WallTime() = 0;
};

// A reader of the machine behind `calls`, which outlives it.
std::unique_ptr<Host> NewDarwinHost(DarwinCalls& calls);

}  // namespace stageload::host

#endif  // STAGELOAD_DAEMON_HOST_DARWIN_CALLS_H_
