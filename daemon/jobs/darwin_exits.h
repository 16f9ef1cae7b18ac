// Which processes are watched until they end, on macOS: exit_watcher.h says how that looks from
// outside.
//
// Threading: Watch() from any thread; the callback comes from the thread in Handle().
#ifndef STAGELOAD_DAEMON_JOBS_DARWIN_EXITS_H_
#define STAGELOAD_DAEMON_JOBS_DARWIN_EXITS_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "daemon/core/process.h"
#include "daemon/jobs/darwin_kernel.h"
#include "daemon/jobs/exit_watcher.h"

namespace stageload::jobs {

class DarwinExits {
 public:
  // `kernel` outlives it.
  DarwinExits(DarwinKernel& kernel, ExitWatcher::OnExit on_exit);

  absl::Status Watch(const core::ProcessIdentity& identity, const StillThere& still_there);
  void Handle();

 private:
  struct Watched {
    core::ProcessIdentity identity;
    // False for who was gone before it was watched and may have to be reaped still.
    bool tell = true;
  };

  void Ended(std::uint64_t token);  // under mutex_
  void Tell();

  DarwinKernel& kernel_;
  const ExitWatcher::OnExit on_exit_;

  std::mutex mutex_;  // guards what follows; not held during a callback
  std::uint64_t next_token_ = 1;
  std::map<std::uint64_t, Watched> watched_;
  std::map<std::int32_t, std::uint64_t> tokens_;  // of those in watched_, by pid
  std::vector<Watched> ended_;                    // to be told
};

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_DARWIN_EXITS_H_
