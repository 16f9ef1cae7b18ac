#include "daemon/host/darwin_memory.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace stageload::host {
namespace {

// The kernel answers programs that are not Apple's 2 to 10 times a second, all of them together,
// and then gives old figures without saying so (xnu osfmk/kern/host.c, rate_limit_host_statistics).
constexpr absl::Duration kVmInterval = absl::Seconds(1);

// A field that this kernel has: it filled `count` words from the struct's start.
template <typename T>
std::optional<std::uint64_t> Field(const vm_statistics64& statistics, mach_msg_type_number_t count,
                                   T vm_statistics64::*field) {
  const auto* start = reinterpret_cast<const std::byte*>(&statistics);
  const auto* value = reinterpret_cast<const std::byte*>(&(statistics.*field));
  const auto end = static_cast<std::size_t>(value - start) + sizeof(T);
  if (std::size_t{count} * sizeof(integer_t) < end) return std::nullopt;
  return statistics.*field;
}

}  // namespace

DarwinMemory::DarwinMemory(DarwinCalls& calls)
    : calls_(calls), page_size_(calls.KernelPageSize()), host_(calls.MachHostSelf()) {}

DarwinMemory::~DarwinMemory() {
  if (host_ != MACH_PORT_NULL) calls_.MachPortDeallocate(host_);
}

absl::StatusOr<core::HostSample> DarwinMemory::Sample(absl::Duration now) {
  read_any_ = false;
  first_failure_ = absl::OkStatus();
  core::HostSample sample;
  sample.level = Level();
  sample.pressure = Pressure();
  if (const auto total = Counter("hw.memsize")) sample.total = Bytes::FromUnsigned(*total);
  sample.available = Available();
  if (sample.available && sample.total) {
    sample.available = std::min(*sample.available, *sample.total);
  }
  sample.pageable_internal = Pages("vm.page_pageable_internal_count");
  sample.gpu_wired_limit = GpuWiredLimit();
  ReadSwap(sample);
  const VmCounters& vm = Vm(now);
  sample.wired = vm.wired;
  sample.compressed = vm.compressed;
  sample.swapped_in_total = vm.swapped_in;
  sample.swapped_out_total = vm.swapped_out;
  if (!read_any_ && !vm.wired) return first_failure_;
  return sample;
}

std::size_t DarwinMemory::Read(const char* name, std::span<std::byte> out) {
  std::size_t size = out.size();
  const int error = calls_.SysctlByName(name, out.data(), &size);
  if (error == 0) {
    read_any_ = true;
    return size;
  }
  if (first_failure_.ok()) {
    first_failure_ = absl::ErrnoToStatus(error, absl::StrCat("read sysctl ", name));
  }
  return 0;
}

// Of 4 or 8 bytes: what one kernel counts in 32 bits another may count in 64.
std::optional<std::uint64_t> DarwinMemory::Counter(const char* name) {
  std::array<std::byte, sizeof(std::uint64_t)> bytes;
  std::uint32_t narrow = 0;
  std::uint64_t wide = 0;
  switch (Read(name, bytes)) {
    case sizeof narrow:
      std::memcpy(&narrow, bytes.data(), sizeof narrow);
      return narrow;
    case sizeof wide:
      std::memcpy(&wide, bytes.data(), sizeof wide);
      return wide;
    default:
      return std::nullopt;
  }
}

std::optional<Bytes> DarwinMemory::BytesOf(std::uint64_t pages) const {
  if (page_size_ == 0) return std::nullopt;
  if (pages > std::numeric_limits<std::uint64_t>::max() / page_size_) return Bytes::Max();
  return Bytes::FromUnsigned(pages * page_size_);
}

std::optional<Bytes> DarwinMemory::Pages(const char* name) {
  const std::optional<std::uint64_t> pages = Counter(name);
  return pages ? BytesOf(*pages) : std::nullopt;
}

// An int that xnu computes as a percentage (osfmk/vm/vm_pageout.c, vm_pressure_response).
std::optional<Percent> DarwinMemory::Level() {
  const std::optional<std::uint64_t> level = Counter("kern.memorystatus_level");
  if (!level || *level > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  return Percent{std::min(static_cast<double>(*level), 100.0)};
}

// In libdispatch's numbers (xnu bsd/kern/kern_memorystatus_notify.c,
// convert_internal_pressure_level_to_dispatch_level).
std::optional<core::Pressure> DarwinMemory::Pressure() {
  const std::optional<std::uint64_t> pressure = Counter("kern.memorystatus_vm_pressure_level");
  if (pressure == 1U) return core::Pressure::kNormal;
  if (pressure == 2U) return core::Pressure::kWarn;
  if (pressure == 4U) return core::Pressure::kCritical;
  return std::nullopt;
}

// Free, backed by files, and purgeable. Pages that were read ahead ("speculative") are among those
// backed by files (xnu osfmk/vm/vm_resident.c, vm_page_speculate) and, other than in the free_count
// of host_statistics64 (osfmk/kern/host.c, vm_stats), not among the free ones of this sysctl
// (bsd/vm/vm_unix.c), so there is nothing to take off. xnu counts the same where it has to tell
// (osfmk/vm/vm_page.h, VM_CHECK_MEMORYSTATUS under CONFIG_JETSAM).
std::optional<Bytes> DarwinMemory::Available() {
  const std::optional<Bytes> free = Pages("vm.page_free_count");
  const std::optional<Bytes> files = Pages("vm.page_pageable_external_count");
  const std::optional<Bytes> purgeable = Pages("vm.page_purgeable_count");
  if (!free || !files || !purgeable) return std::nullopt;
  return *free + *files + *purgeable;
}

// 0 is the system's own choice, of which it does not tell the number. Not there on Intel and in
// virtual machines.
std::optional<Bytes> DarwinMemory::GpuWiredLimit() {
  const std::optional<std::uint64_t> mebibytes = Counter("iogpu.wired_limit_mb");
  if (!mebibytes || *mebibytes == 0) return std::nullopt;
  constexpr auto kMebibyte = static_cast<std::uint64_t>(MiB(1).count());
  if (*mebibytes > std::numeric_limits<std::uint64_t>::max() / kMebibyte) return Bytes::Max();
  return Bytes::FromUnsigned(*mebibytes * kMebibyte);
}

// The total grows and shrinks with the files that macOS keeps; what is used is what counts.
void DarwinMemory::ReadSwap(core::HostSample& sample) {
  std::array<std::byte, 2 * sizeof(xsw_usage)> bytes;  // room for what newer kernels may append
  const std::size_t size = Read("vm.swapusage", bytes);
  if (size < offsetof(xsw_usage, xsu_used) + sizeof(xsw_usage::xsu_used)) return;
  xsw_usage swap{};
  std::memcpy(&swap, bytes.data(), std::min(size, sizeof swap));
  sample.swap_total = Bytes::FromUnsigned(swap.xsu_total);
  sample.swap_used = Bytes::FromUnsigned(swap.xsu_used);
}

const DarwinMemory::VmCounters& DarwinMemory::Vm(absl::Duration now) {
  if (!vm_read_ || now - *vm_read_ >= kVmInterval) {
    vm_ = ReadVm();
    vm_read_ = now;
  }
  return vm_;
}

DarwinMemory::VmCounters DarwinMemory::ReadVm() {
  vm_statistics64 statistics{};
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  if (calls_.HostStatistics64(host_, HOST_VM_INFO64, reinterpret_cast<integer_t*>(&statistics),
                              &count) != KERN_SUCCESS) {
    return {};
  }
  const auto bytes = [&](auto vm_statistics64::*field) {
    const std::optional<std::uint64_t> pages = Field(statistics, count, field);
    return pages ? BytesOf(*pages) : std::nullopt;
  };
  // In pages of compressed segments, so what they took on the disk (xnu
  // osfmk/vm/vm_compressor_backing_store.c).
  return {.wired = bytes(&vm_statistics64::wire_count),
          .compressed = bytes(&vm_statistics64::compressor_page_count),
          .swapped_in = bytes(&vm_statistics64::swapins),
          .swapped_out = bytes(&vm_statistics64::swapouts)};
}

}  // namespace stageload::host
