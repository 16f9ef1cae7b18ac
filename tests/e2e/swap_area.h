// Real swap and a memory cgroup for the time of one test. Linux, as root.
#ifndef STAGELOAD_TESTS_E2E_SWAP_AREA_H_
#define STAGELOAD_TESTS_E2E_SWAP_AREA_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/units.h"

namespace stageload::e2e {

// Swap that the machine uses now; nullopt when /proc/meminfo does not say.
std::optional<Bytes> SwapUsed();

// All of it goes away when the test ends, however it ends: a watchdog outside of the test's process
// group and session holds the other end of a pipe and cleans up when this end is closed.
class SwapArea {
 public:
  // A swap file of `size` on a disk, and a cgroup whose processes may have `limit` of memory.
  // FailedPrecondition says why this machine or this user may not.
  static absl::StatusOr<SwapArea> Create(Bytes size, Bytes limit);
  SwapArea(SwapArea&& other) noexcept;
  SwapArea& operator=(SwapArea&&) = delete;
  ~SwapArea();

  // A process that writes its pid here is under the limit from then on, and its children too.
  const std::string& processes_file() const { return processes_file_; }

 private:
  SwapArea() = default;
  absl::Status StartWatchdog();
  absl::Status MakeCgroup(Bytes limit);
  absl::Status MakeSwap(Bytes size);

  std::string cgroup_;
  std::string processes_file_;
  std::string swap_file_;
  int watchdog_ = -1;  // writing end of its pipe
};

}  // namespace stageload::e2e

#endif  // STAGELOAD_TESTS_E2E_SWAP_AREA_H_
