// A Mac's kernel for tests on any machine: it answers the calls of DarwinCalls as xnu does, to a
// user of uid 501, and each call can be made to fail. What is read from it is set in the open
// members.
//
// Threading: one owner.
#ifndef STAGELOAD_TESTS_DAEMON_HOST_FAKE_MAC_H_
#define STAGELOAD_TESTS_DAEMON_HOST_FAKE_MAC_H_

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/host/darwin_calls.h"
#include "gtest/gtest.h"

namespace stageload::host {

inline constexpr uid_t kUser = 501;

struct MacProcess {
  pid_t pid = 0;
  pid_t parent = 1;
  pid_t group = 0;  // 0: its own pid
  pid_t session = 1;
  uid_t uid = kUser;
  int state = SRUN;
  std::int64_t started = 1'760'000'000;  // seconds since 1970
  std::uint64_t unique = 0;              // 0: 1000 + pid
  std::uint64_t maker = 0;
  std::int32_t version = 1;
  std::string name = "python";
  std::string arguments = {};  // as KERN_PROCARGS2 gives them
  Bytes footprint = {};
  Bytes compressed = {};
};

// What KERN_PROCARGS2 gives of a program, with the environment that follows the arguments.
inline std::string Procargs2(int argc, std::string_view strings) {
  std::string bytes(sizeof argc, '\0');
  std::memcpy(bytes.data(), &argc, sizeof argc);
  return bytes.append(strings);
}

// An M5 Pro with 48 GB that is quite idle, until told otherwise.
class FakeMac : public DarwinCalls {
 public:
  FakeMac() {
    Set<std::uint64_t>("hw.memsize", 51'539'607'552U);
    Set<std::int32_t>("kern.memorystatus_level", 79);
    Set<std::uint32_t>("kern.memorystatus_vm_pressure_level", 1);
    Set("vm.swapusage", xsw_usage{10ULL << 30, 10ULL << 30, 0, 16384, 1});
    Set<std::uint32_t>("vm.page_free_count", 1'000'000);
    Set<std::uint32_t>("vm.page_speculative_count", 50'000);
    Set<std::uint32_t>("vm.page_pageable_external_count", 300'000);
    Set<std::uint32_t>("vm.page_pageable_internal_count", 900'000);
    Set<std::int32_t>("vm.page_purgeable_count", 20'000);
    Set<std::int32_t>("iogpu.wired_limit_mb", 0);
    SetText("kern.bootsessionuuid", "0B2C9E0C-3D31-4C7B-9B5C-6F3A0E6D1A11");
    statistics.free_count = 1'050'000;
    statistics.wire_count = 200'000;
    statistics.compressor_page_count = 100'000;
    statistics.swapins = 3'000;
    statistics.swapouts = 5'000;
  }

  // ---- what it says
  template <typename T>
  void Set(const std::string& name, const T& value) {
    const auto* bytes = reinterpret_cast<const char*>(&value);
    sysctls[name].assign(bytes, sizeof value);
  }
  void SetText(const std::string& name, const std::string& text) { sysctls[name] = text + '\0'; }
  MacProcess& Add(MacProcess process) {
    if (process.group == 0) process.group = process.pid;
    if (process.unique == 0) process.unique = 1000U + static_cast<std::uint64_t>(process.pid);
    return processes[process.pid] = std::move(process);
  }

  std::map<std::string, std::string> sysctls;
  vm_statistics64 statistics{};
  mach_msg_type_number_t statistics_words = HOST_VM_INFO64_COUNT;  // that this kernel has
  mach_msg_type_number_t task_words = 93;
  std::map<pid_t, MacProcess> processes;
  std::size_t identifiers_size = sizeof(UniqueIdentifiers);
  int argmax = 1024 * 1024;
  std::uint64_t page_size = 16384;
  mach_timebase_info_data_t timebase{125, 3};
  std::uint64_t absolute = 24'000'000;
  std::uint64_t continuous = 24'000'000;
  absl::Time wall = absl::FromUnixSeconds(1'760'000'000);

  // libdispatch calls whoever watches the pressure; how many do.
  int TellPressure() const {
    for (const auto& [number, handler] : pressure_handlers_) handler();
    return static_cast<int>(pressure_handlers_.size());
  }

  // ---- how it fails: by the name of a call, or of a sysctl. With EPERM and the like, or a
  // kern_return_t.
  std::map<std::string, int> fails;
  // The call of this number, counted from 1 over all that can fail, fails with this.
  std::size_t failing_call = 0;
  int failing_error = 0;
  // Run before each call, with its name.
  std::function<void(const std::string&)> before;

  // ---- what was asked
  std::map<std::string, int> calls;
  std::size_t calls_in_all = 0;
  std::size_t open_ports() const { return ports_.size(); }

  // ---- DarwinCalls
  int SysctlByName(const char* name, void* out, std::size_t* size) override {
    if (const int error = Enter(name)) return error;
    const auto found = sysctls.find(name);
    return found == sysctls.end() ? ENOENT : Give(found->second, out, size);
  }
  int Sysctl(std::span<int> name, void* out, std::size_t* size) override;
  int ProcPidInfo(pid_t pid, int flavor, std::uint64_t argument, void* out,
                  std::size_t* size) override;
  int ProcPidRusage(pid_t pid, int flavor, rusage_info_t* out) override;
  int Getsid(pid_t pid, pid_t* session) override;

  mach_port_t MachHostSelf() override {
    if (Enter("mach_host_self") != 0) return MACH_PORT_NULL;
    return NewPort(0);
  }
  kern_return_t HostStatistics64(mach_port_t host, int flavor, integer_t* out,
                                 mach_msg_type_number_t* count) override;
  kern_return_t TaskNameForPid(pid_t pid, mach_port_t* task) override;
  kern_return_t TaskInfo(mach_port_t task, int flavor, integer_t* out,
                         mach_msg_type_number_t* count) override;
  void MachPortDeallocate(mach_port_t port) override {
    EXPECT_EQ(ports_.erase(port), 1U) << "a port that is not held: " << port;
  }
  std::unique_ptr<PressureSource> WatchPressure(std::function<void()> handler) override;
  std::uint64_t KernelPageSize() override { return page_size; }
  mach_timebase_info_data_t MachTimebase() override { return timebase; }
  std::uint64_t MachAbsoluteTime() override { return absolute; }
  std::uint64_t MachContinuousTime() override { return continuous; }
  absl::Time WallTime() override { return wall; }

 private:
  // 0, or what the call shall fail with.
  int Enter(const std::string& name) {
    if (before) before(name);
    ++calls[name];
    if (++calls_in_all == failing_call) return failing_error;
    const auto found = fails.find(name);
    return found == fails.end() ? 0 : found->second;
  }
  // As sysctl(3): what fits is given also when not all does.
  static int Give(std::string_view value, void* out, std::size_t* size) {
    const std::size_t room = *size;
    *size = std::min(room, value.size());
    std::memcpy(out, value.data(), *size);
    return value.size() > room ? ENOMEM : 0;
  }
  static int GiveWords(const void* value, mach_msg_type_number_t words, integer_t* out,
                       mach_msg_type_number_t* count) {
    *count = std::min(*count, words);
    std::memcpy(out, value, *count * sizeof(integer_t));
    return KERN_SUCCESS;
  }
  mach_port_t NewPort(pid_t pid) {
    ports_[++last_port_] = pid;
    return last_port_;
  }
  const MacProcess* Find(pid_t pid) const {
    const auto found = processes.find(pid);
    return found == processes.end() ? nullptr : &found->second;
  }
  class Source;
  static kinfo_proc Entry(const MacProcess& process);

  std::map<mach_port_t, pid_t> ports_;
  mach_port_t last_port_ = 0x100;
  std::map<int, std::function<void()>> pressure_handlers_;
  int last_source_ = 0;
};

}  // namespace stageload::host

#endif  // STAGELOAD_TESTS_DAEMON_HOST_FAKE_MAC_H_
