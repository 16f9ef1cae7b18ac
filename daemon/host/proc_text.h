// What the text of the files under /proc says (proc(5), and Documentation/filesystems/proc.rst of
// the kernel). A line that is cut or that is not of the documented form counts as not there: half
// of a number is a wrong number.
//
// Threading: pure functions of the text.
#ifndef STAGELOAD_DAEMON_HOST_PROC_TEXT_H_
#define STAGELOAD_DAEMON_HOST_PROC_TEXT_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/units.h"
#include "daemon/core/process.h"
#include "daemon/core/sample.h"
#include "daemon/host/host.h"

namespace stageload::host {

// /proc/meminfo.
struct MemoryText {
  std::optional<Bytes> total;
  std::optional<Bytes> available;  // estimated where the kernel does not say
  std::optional<Bytes> swap_total;
  std::optional<Bytes> swap_used;
  std::optional<Bytes> compressed;  // held by zswap
  std::optional<Bytes> wired;
};
MemoryText ParseMeminfo(std::string_view text);

// /proc/pressure/memory.
std::optional<core::Pressure> ParsePressure(std::string_view text);

// /proc/vmstat, cumulative since boot.
struct SwapTraffic {
  std::optional<Bytes> in;
  std::optional<Bytes> out;
};
SwapTraffic ParseVmstat(std::string_view text, std::int64_t page_size);

// /proc/<pid>/stat, all but the uid. `pid` is the one in the path.
std::optional<Process> ParseStat(std::string_view text, std::int32_t pid);

// /proc/<pid>/status. A zombie holds 0; a kernel thread, which has no memory of its own, nothing.
struct StatusText {
  core::Usage usage;
  bool zombie = false;
  int threads = 1;
};
StatusText ParseStatus(std::string_view text);

// The value of a "name value" line, as in memory.stat of a cgroup.
std::optional<std::uint64_t> FindCounter(std::string_view text, std::string_view name);

// All of `text`, but for white space at its end, as a number that is not negative.
std::optional<std::uint64_t> ParseCounter(std::string_view text);

// Cuts the first line off `text`, without its newline. `whole` says whether it had one.
struct Line {
  std::string_view text;
  bool whole = false;
};
Line TakeLine(std::string_view& text);

}  // namespace stageload::host

#endif  // STAGELOAD_DAEMON_HOST_PROC_TEXT_H_
