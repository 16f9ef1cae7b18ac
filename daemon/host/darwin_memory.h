// A Mac's memory as its kernel counts it.
//
// Threading: one owner.
#ifndef STAGELOAD_DAEMON_HOST_DARWIN_MEMORY_H_
#define STAGELOAD_DAEMON_HOST_DARWIN_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/units.h"
#include "daemon/core/sample.h"
#include "daemon/host/darwin_calls.h"

namespace stageload::host {

class DarwinMemory {
 public:
  explicit DarwinMemory(DarwinCalls& calls);
  ~DarwinMemory();
  DarwinMemory(const DarwinMemory&) = delete;
  DarwinMemory& operator=(const DarwinMemory&) = delete;

  // `now` runs through sleep. A counter that this kernel does not have, or has in a form that is
  // not known, is absent; an error means that there was none at all.
  absl::StatusOr<core::HostSample> Sample(absl::Duration now);

 private:
  // What only host_statistics64 tells.
  struct VmCounters {
    std::optional<Bytes> wired;
    std::optional<Bytes> compressed;
    std::optional<Bytes> swapped_in;
    std::optional<Bytes> swapped_out;
  };

  // How many bytes of `out` the kernel filled; 0 when it could not.
  std::size_t Read(const char* name, std::span<std::byte> out);
  std::optional<std::uint64_t> Counter(const char* name);
  std::optional<Bytes> Pages(const char* name);
  std::optional<Bytes> BytesOf(std::uint64_t pages) const;

  std::optional<Percent> Level();
  std::optional<core::Pressure> Pressure();
  std::optional<Bytes> Available();
  std::optional<Bytes> GpuWiredLimit();
  void ReadSwap(core::HostSample& sample);
  const VmCounters& Vm(absl::Duration now);
  VmCounters ReadVm();

  DarwinCalls& calls_;
  const std::uint64_t page_size_;
  const mach_port_t host_;  // each mach_host_self() takes another right to it, so it is kept
  VmCounters vm_;
  std::optional<absl::Duration> vm_read_;
  bool read_any_ = false;       // in this Sample()
  absl::Status first_failure_;  // in this Sample()
};

}  // namespace stageload::host

#endif  // STAGELOAD_DAEMON_HOST_DARWIN_MEMORY_H_
