// The calls by which jobs/ learns of other processes on macOS, one for one: the real ones are in
// darwin_kernel_darwin.cc, and a test plays a kernel behind this, on any system. host/ has such
// calls of its own, since the two rooms do not know each other; a process's identity is the same to
// both.
//
// Threading: implementations take calls from any thread at once.
#ifndef STAGELOAD_DAEMON_JOBS_DARWIN_KERNEL_H_
#define STAGELOAD_DAEMON_JOBS_DARWIN_KERNEL_H_

#include <cstdint>
#include <vector>

namespace stageload::jobs {

class DarwinKernel {
 public:
  virtual ~DarwinKernel() = default;

  // What names one process and what it runs. Zombies have it, too, and all users'.
  struct Identifiers {
    std::uint64_t unique_id = 0;  // of no other process of this boot; kept over exec
    std::int32_t version = 0;     // another one after each exec
  };
  // Each is 0 or an errno: ESRCH when there is no such process.
  virtual int ReadIdentifiers(std::int32_t pid, Identifiers* out) = 0;
  virtual int ReadStart(std::int32_t pid, std::uint64_t* microseconds) = 0;  // since 1970

  // To whoever has the pid.
  virtual int Kill(std::int32_t pid, int signal) = 0;
  // Only to the process that has this pid and version: ESRCH otherwise, as for a zombie. ENOSYS
  // where macOS does not have it yet.
  virtual int KillExactly(std::int32_t pid, std::int32_t version, int signal) = 0;

  // Waits for a child that has ended or is just ending. ECHILD for who is no child.
  virtual int Reap(std::int32_t pid) = 0;

  // From now on Next() gives the token when the process that has this pid now ends, once. A kernel
  // has one note a pid: the one before has to be detached first. ESRCH when it is ending or a
  // zombie already.
  virtual int Attach(std::int32_t pid, std::uint64_t token) = 0;
  virtual void Detach(std::int32_t pid) = 0;
  // Of those that have ended since; does not wait. Of one thread.
  virtual std::vector<std::uint64_t> Next() = 0;
  // Has input while there is something for Next(), and from Wake() to the next Next().
  virtual int descriptor() const = 0;
  virtual void Wake() = 0;
};

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_DARWIN_KERNEL_H_
