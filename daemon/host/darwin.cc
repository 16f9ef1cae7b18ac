// A Mac, read through its kernel's calls.
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/host/darwin_calls.h"
#include "daemon/host/darwin_memory.h"
#include "daemon/host/darwin_processes.h"
#include "daemon/host/host.h"

namespace stageload::host {
namespace {

// Ticks are not nanoseconds on Apple silicon: the timebase is 125/3 there, 1/1 on Intel.
absl::Duration DurationOf(std::uint64_t ticks, const mach_timebase_info_data_t& timebase) {
  const std::uint64_t whole = ticks / timebase.denom;
  const std::uint64_t rest = ticks % timebase.denom;
  return absl::Nanoseconds(whole) * timebase.numer +
         absl::Nanoseconds(rest * timebase.numer / timebase.denom);
}

mach_timebase_info_data_t ReadTimebase(DarwinCalls& calls) {
  const mach_timebase_info_data_t timebase = calls.MachTimebase();
  if (timebase.numer == 0 || timebase.denom == 0) return {1, 1};  // it was not told
  return timebase;
}

std::string ReadBootId(DarwinCalls& calls) {
  std::array<char, 64> id{};  // a uuid_string_t is 37 bytes with its zero
  std::size_t size = id.size();
  if (calls.SysctlByName("kern.bootsessionuuid", id.data(), &size) != 0) return "";
  return {id.data(), strnlen(id.data(), std::min(size, id.size()))};
}

class DarwinHost final : public Host {
 public:
  explicit DarwinHost(DarwinCalls& calls)
      : calls_(calls),
        timebase_(ReadTimebase(calls)),
        boot_id_(ReadBootId(calls)),
        memory_(calls),
        processes_(calls) {}

  absl::StatusOr<core::HostSample> Sample() override {
    return memory_.Sample(DurationOf(calls_.MachContinuousTime(), timebase_));
  }
  absl::StatusOr<std::vector<Process>> Processes() override { return processes_.List(); }
  absl::StatusOr<core::Usage> Usage(const core::ProcessIdentity& identity) override {
    return processes_.Usage(identity);
  }
  absl::StatusOr<Process> Find(std::int32_t pid) override { return processes_.Find(pid); }
  absl::StatusOr<std::string> CommandLine(const core::ProcessIdentity& identity) override {
    return processes_.CommandLine(identity);
  }

  // The kernel tells one process at a time and never one of under 10 MB (xnu
  // bsd/kern/kern_memorystatus_notify.c), so hints are rare here.
  absl::Status OnPressure(std::function<void()> hint, const WaitForUrgent&) override {
    pressure_ = calls_.WatchPressure(std::move(hint));
    if (pressure_ != nullptr) return absl::OkStatus();
    return absl::UnavailableError("libdispatch gives no source of the memory's pressure");
  }

  Instant Clock() override {
    return {.awake = DurationOf(calls_.MachAbsoluteTime(), timebase_),
            .continuous = DurationOf(calls_.MachContinuousTime(), timebase_),
            .wall = calls_.WallTime()};
  }
  const std::string& BootId() override { return boot_id_; }

 private:
  DarwinCalls& calls_;
  const mach_timebase_info_data_t timebase_;
  const std::string boot_id_;
  DarwinMemory memory_;
  DarwinProcesses processes_;
  std::unique_ptr<PressureSource> pressure_;
};

}  // namespace

std::unique_ptr<Host> NewDarwinHost(DarwinCalls& calls) {
  return std::make_unique<DarwinHost>(calls);
}

}  // namespace stageload::host
