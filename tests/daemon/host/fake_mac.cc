#include "tests/daemon/host/fake_mac.h"

#include <algorithm>
#include <utility>

namespace stageload::host {

kinfo_proc FakeMac::Entry(const MacProcess& process) {
  kinfo_proc entry{};
  entry.kp_proc.p_starttime.tv_sec = process.started;
  entry.kp_proc.p_starttime.tv_usec = 250'000;
  entry.kp_proc.p_stat = static_cast<char>(process.state);
  entry.kp_proc.p_pid = process.pid;
  std::memcpy(entry.kp_proc.p_comm, process.name.data(),
              std::min(process.name.size(), sizeof entry.kp_proc.p_comm));
  entry.kp_eproc.e_ppid = process.parent;
  entry.kp_eproc.e_pgid = process.group;
  entry.kp_eproc.e_ucred.cr_uid = process.uid;
  if (process.session == process.pid) entry.kp_eproc.e_flag |= EPROC_SLEADER;
  return entry;
}

int FakeMac::Sysctl(std::span<int> name, void* out, std::size_t* size) {
  EXPECT_GE(name.size(), 2U);
  EXPECT_EQ(name[0], CTL_KERN);
  if (name[1] == KERN_ARGMAX) {
    if (const int error = Enter("kern.argmax")) return error;
    return Give({reinterpret_cast<const char*>(&argmax), sizeof argmax}, out, size);
  }
  if (name[1] == KERN_PROCARGS2) {
    if (const int error = Enter("kern.procargs2")) return error;
    const MacProcess* process = Find(name[2]);
    if (process == nullptr || process->state == SZOMB || process->uid != kUser) return EINVAL;
    // Of more than there is room for, the end, and no error.
    const std::size_t given = std::min(*size, process->arguments.size());
    std::memcpy(out, process->arguments.data() + process->arguments.size() - given, given);
    *size = given;
    return 0;
  }
  EXPECT_EQ(name[1], KERN_PROC);
  std::string entries;
  const auto append = [&entries](const MacProcess& process) {
    const kinfo_proc entry = Entry(process);
    entries.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  };
  if (name[2] == KERN_PROC_PID) {
    if (const int error = Enter("kern.proc.pid")) return error;
    if (const MacProcess* process = Find(name[3])) append(*process);
  } else {
    EXPECT_EQ(name[2], KERN_PROC_ALL);
    if (const int error = Enter("kern.proc.all")) return error;
    // The newest first, as xnu has them.
    for (auto it = processes.rbegin(); it != processes.rend(); ++it) append(it->second);
  }
  return Give(entries, out, size);
}

int FakeMac::ProcPidInfo(pid_t pid, int flavor, std::uint64_t argument, void* out,
                         std::size_t* size) {
  if (const int error = Enter("proc_pidinfo")) return error;
  EXPECT_EQ(flavor, kProcPidUniqIdentifierInfo);
  const MacProcess* process = Find(pid);
  if (process == nullptr || (process->state == SZOMB && argument == 0)) return ESRCH;
  if (*size < identifiers_size) return ENOMEM;
  UniqueIdentifiers identifiers{};
  identifiers.p_uniqueid = process->unique;
  identifiers.p_puniqueid = process->maker;
  identifiers.p_idversion = process->version;
  std::string bytes(reinterpret_cast<const char*>(&identifiers), sizeof identifiers);
  bytes.resize(identifiers_size, '\x7f');
  return Give(bytes, out, size);
}

int FakeMac::ProcPidRusage(pid_t pid, int flavor, rusage_info_t* out) {
  if (const int error = Enter("proc_pid_rusage")) return error;
  EXPECT_EQ(flavor, RUSAGE_INFO_V4);
  const MacProcess* process = Find(pid);
  if (process == nullptr) return ESRCH;
  if (process->uid != kUser) return EPERM;
  auto* usage = reinterpret_cast<rusage_info_v4*>(out);
  usage->ri_phys_footprint = static_cast<std::uint64_t>(process->footprint.count());
  usage->ri_proc_exit_abstime = process->state == SZOMB ? 77 : 0;
  return 0;
}

int FakeMac::Getsid(pid_t pid, pid_t* session) {
  if (const int error = Enter("getsid")) return error;
  const MacProcess* process = Find(pid);
  if (process == nullptr || process->state == SZOMB) return ESRCH;
  *session = process->session;
  return 0;
}

kern_return_t FakeMac::HostStatistics64(mach_port_t host, int flavor, integer_t* out,
                                        mach_msg_type_number_t* count) {
  if (const int error = Enter("host_statistics64")) return error;
  EXPECT_EQ(flavor, HOST_VM_INFO64);
  if (ports_.count(host) == 0) return KERN_FAILURE;
  return GiveWords(&statistics, statistics_words, out, count);
}

kern_return_t FakeMac::TaskNameForPid(pid_t pid, mach_port_t* task) {
  *task = MACH_PORT_NULL;
  if (const int error = Enter("task_name_for_pid")) return error;
  const MacProcess* process = Find(pid);
  if (process == nullptr || process->uid != kUser || process->state == SZOMB) return KERN_FAILURE;
  *task = NewPort(pid);
  return KERN_SUCCESS;
}

kern_return_t FakeMac::TaskInfo(mach_port_t task, int flavor, integer_t* out,
                                mach_msg_type_number_t* count) {
  if (const int error = Enter("task_info")) return error;
  EXPECT_EQ(flavor, TASK_VM_INFO);
  EXPECT_LE(*count, 93U) << "more than xnu-11417 has, which it would log";
  const auto port = ports_.find(task);
  const MacProcess* process = port == ports_.end() ? nullptr : Find(port->second);
  if (process == nullptr) return KERN_FAILURE;
  task_vm_info memory{};
  memory.phys_footprint = static_cast<std::uint64_t>(process->footprint.count());
  memory.compressed = static_cast<std::uint64_t>(process->compressed.count());
  return GiveWords(&memory, task_words, out, count);
}

class FakeMac::Source final : public PressureSource {
 public:
  Source(FakeMac& mac, int number) : mac_(mac), number_(number) {}
  ~Source() override { mac_.pressure_handlers_.erase(number_); }

 private:
  FakeMac& mac_;
  const int number_;
};

std::unique_ptr<PressureSource> FakeMac::WatchPressure(std::function<void()> handler) {
  if (Enter("dispatch_source_create") != 0) return nullptr;
  pressure_handlers_[++last_source_] = std::move(handler);
  return std::make_unique<Source>(*this, last_source_);
}

}  // namespace stageload::host
