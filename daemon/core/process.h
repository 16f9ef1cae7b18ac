// Who a process is, and what it holds. A pid alone is not an identity: it is used again.
//
// Threading: plain values.
#ifndef STAGELOAD_DAEMON_CORE_PROCESS_H_
#define STAGELOAD_DAEMON_CORE_PROCESS_H_

#include <compare>
#include <cstdint>
#include <optional>

#include "base/units.h"

namespace stageload::core {

// Unique within one boot of the machine.
struct ProcessIdentity {
  std::int32_t pid = 0;
  // Linux: start time in clock ticks since boot (proc(5), stat field 22). macOS: p_uniqueid
  // (xnu bsd/sys/proc_info_private.h, PROC_PIDUNIQIDENTIFIERINFO), and where that is not told, the
  // start time in microseconds since 1970.
  std::uint64_t start = 0;

  friend auto operator<=>(const ProcessIdentity&, const ProcessIdentity&) = default;
};

// Whether a process that was just looked up is the one that was meant: asked again right before
// every signal.
bool IsStill(const ProcessIdentity& meant, const ProcessIdentity& found);

// What one process, or the sum over a client's processes, holds. What a platform cannot tell is
// absent, never 0.
struct Usage {
  // What the kernel charges it: macOS ri_phys_footprint; Linux RssAnon + RssShmem + VmSwap.
  std::optional<Bytes> footprint;
  // Its own swapped or compressed bytes: macOS TASK_VM_INFO compressed; Linux VmSwap.
  std::optional<Bytes> swapped;
};

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_PROCESS_H_
