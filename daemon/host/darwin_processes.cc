#include "daemon/host/darwin_processes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/host/darwin_command_line.h"

namespace stageload::host {
namespace {

// xnu allows 99,999 pids (bsd/sys/proc_internal.h, PID_MAX).
constexpr std::size_t kFewestEntries = 1024;
constexpr std::size_t kMostEntries = 128 * 1024;
// ARG_MAX (xnu bsd/sys/syslimits.h), for a kernel that does not tell.
constexpr std::size_t kArgMax = 1024 * 1024;

absl::Status Gone(std::int32_t pid) {
  return absl::NotFoundError(absl::StrCat("there is no process ", pid));
}

absl::Status OtherLayout(const char* what, std::size_t size) {
  return absl::DataLossError(absl::StrCat("sysctl ", what, " gave ", size,
                                          " bytes, which is not of processes of ",
                                          sizeof(kinfo_proc), " bytes each"));
}

// In microseconds; identifies a process where the kernel does not give unique ids.
std::uint64_t StartOf(const kinfo_proc& entry) {
  const timeval& start = entry.kp_proc.p_starttime;
  return static_cast<std::uint64_t>(start.tv_sec) * 1'000'000U +
         static_cast<std::uint64_t>(start.tv_usec);
}

std::int32_t PidOf(const kinfo_proc& entry) { return entry.kp_proc.p_pid; }

std::string NameOf(const kinfo_proc& entry) {
  const char* name = entry.kp_proc.p_comm;
  return {name, strnlen(name, sizeof(extern_proc::p_comm))};
}

// As ps has it. Of xnu's states (bsd/sys/proc.h) a living process has only SRUN and SSTOP.
char StateOf(const kinfo_proc& entry) {
  switch (entry.kp_proc.p_stat) {
    case SIDL:
      return 'I';
    case SRUN:
      return 'R';
    case SSLEEP:
      return 'S';
    case SSTOP:
      return 'T';
    case SZOMB:
      return 'Z';
    default:
      return '?';
  }
}

// Gives a port back: one that is left behind with each look would in the end take them all.
class TaskName {
 public:
  TaskName(DarwinCalls& calls, std::int32_t pid) : calls_(calls) {
    if (calls_.TaskNameForPid(pid, &port_) != KERN_SUCCESS) port_ = MACH_PORT_NULL;
  }
  ~TaskName() {
    if (valid()) calls_.MachPortDeallocate(port_);
  }
  TaskName(const TaskName&) = delete;
  TaskName& operator=(const TaskName&) = delete;

  // Null, and no error, for a process that is just losing its task (xnu bsd/kern/kern_proc.c); dead
  // for one that lost it on the way.
  bool valid() const { return port_ != MACH_PORT_NULL && port_ != MACH_PORT_DEAD; }
  mach_port_t port() const { return port_; }

 private:
  DarwinCalls& calls_;
  mach_port_t port_ = MACH_PORT_NULL;
};

}  // namespace

absl::StatusOr<std::vector<Process>> DarwinProcesses::List() {
  std::size_t count = 0;
  if (auto status = ReadTable(&count); !status.ok()) return status;
  std::vector<const kinfo_proc*> entries;
  entries.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (PidOf(table_[i]) > 0) entries.push_back(&table_[i]);  // 0 is the kernel itself
  }
  // The kernel has the newest first.
  std::sort(entries.begin(), entries.end(), [](auto* a, auto* b) { return PidOf(*a) < PidOf(*b); });
  std::vector<Known> before = std::exchange(known_, {});
  known_.reserve(entries.size());
  auto old = before.begin();
  for (const kinfo_proc* entry : entries) {
    while (old != before.end() && old->process.identity.pid < PidOf(*entry)) ++old;
    const bool same = old != before.end() && IsSame(*old, *entry);
    if (auto known = Take(*entry, same ? &*old : nullptr)) known_.push_back(*std::move(known));
  }
  std::vector<Process> processes;
  processes.reserve(known_.size());
  for (const Known& known : known_) processes.push_back(known.process);
  return processes;
}

std::optional<DarwinProcesses::Known> DarwinProcesses::Take(const kinfo_proc& entry,
                                                            Known* before) {
  const std::optional<Process> process = Describe(entry, before);
  if (!process) return std::nullopt;
  Known known;
  if (before != nullptr) known = std::move(*before);
  known.process = *process;
  // Without a unique id it is asked for one again.
  known.start = process->identity.start == StartOf(entry) ? 0 : StartOf(entry);
  known.name = NameOf(entry);
  return known;
}

bool DarwinProcesses::IsSame(const Known& known, const kinfo_proc& entry) {
  return known.process.identity.pid == PidOf(entry) && known.start == StartOf(entry);
}

DarwinProcesses::Known* DarwinProcesses::FindKnown(std::int32_t pid) {
  const auto found = std::lower_bound(
      known_.begin(), known_.end(), pid,
      [](const Known& known, std::int32_t p) { return known.process.identity.pid < p; });
  return found != known_.end() && found->process.identity.pid == pid ? &*found : nullptr;
}

// There may be more processes than there is room for, also if one had just asked how many, so it
// has to be tried (xnu bsd/kern/kern_sysctl.c, sysctl_prochandle).
absl::Status DarwinProcesses::ReadTable(std::size_t* processes) {
  if (table_.empty()) table_.resize(kFewestEntries);
  for (;;) {
    std::array<int, 3> name = {CTL_KERN, KERN_PROC, KERN_PROC_ALL};
    std::size_t size = table_.size() * sizeof(kinfo_proc);
    const int error = calls_.Sysctl(name, table_.data(), &size);
    if (error == 0) {
      if (size % sizeof(kinfo_proc) != 0) return OtherLayout("kern.proc.all", size);
      *processes = size / sizeof(kinfo_proc);
      return absl::OkStatus();
    }
    if (error != ENOMEM || table_.size() >= kMostEntries) {
      return absl::ErrnoToStatus(error,
                                 absl::StrCat("list processes with sysctl kern.proc.all, room "
                                              "for ",
                                              table_.size()));
    }
    table_.resize(table_.size() * 2);
  }
}

absl::StatusOr<std::optional<kinfo_proc>> DarwinProcesses::ReadEntry(std::int32_t pid) {
  std::array<int, 4> name = {CTL_KERN, KERN_PROC, KERN_PROC_PID, pid};
  std::array<kinfo_proc, 2> entries{};  // room enough to see that they are of another size
  std::size_t size = sizeof entries;
  const int error = calls_.Sysctl(name, entries.data(), &size);
  // No such process is no error for this call, only nothing.
  if (error == ESRCH || (error == 0 && size == 0)) return std::nullopt;
  if (error != 0) {
    return absl::ErrnoToStatus(error, absl::StrCat("read sysctl kern.proc.pid.", pid));
  }
  if (size != sizeof(kinfo_proc)) return OtherLayout("kern.proc.pid", size);
  return entries[0];
}

// Its calls are made one after another, but a pid is not used again so soon: they are given out in
// turn, up to 99,999 (xnu bsd/kern/kern_fork.c, forkproc).
std::optional<Process> DarwinProcesses::Describe(const kinfo_proc& entry, const Known* before) {
  Process process;
  const std::int32_t pid = PidOf(entry);
  process.identity.pid = pid;
  process.parent = entry.kp_eproc.e_ppid;
  process.group = entry.kp_eproc.e_pgid;
  process.session = pid;
  process.uid = entry.kp_eproc.e_ucred.cr_uid;
  process.state = StateOf(entry);
  if (before != nullptr) {
    process.identity = before->process.identity;
    process.parent_at_fork = before->process.parent_at_fork;
    process.session = before->process.session;
  }
  if (process.identity.start == 0) {
    UniqueIdentifiers identifiers;
    const int error = ReadIdentifiers(pid, &identifiers);
    if (error == ESRCH) return std::nullopt;
    process.identity.start = error == 0 ? identifiers.p_uniqueid : StartOf(entry);
    process.parent_at_fork = identifiers.p_puniqueid;
  }
  if ((entry.kp_eproc.e_flag & EPROC_SLEADER) != 0) {
    process.session = pid;  // a session is left only for one that the process leads (setsid(2))
  } else if (process.session == pid && calls_.Getsid(pid, &process.session) != 0) {
    process.session = pid;  // a zombie's is not told: a session that nobody else is in
  }
  return process;
}

absl::StatusOr<Process> DarwinProcesses::Find(std::int32_t pid) {
  if (pid <= 0) return Gone(pid);
  const auto entry = ReadEntry(pid);
  if (!entry.ok()) return entry.status();
  if (!*entry) return Gone(pid);
  const Known* known = FindKnown(pid);
  const auto process =
      Describe(**entry, known != nullptr && IsSame(*known, **entry) ? known : nullptr);
  if (!process) return Gone(pid);
  return *process;
}

// 0 or an errno.
int DarwinProcesses::ReadIdentifiers(std::int32_t pid, UniqueIdentifiers* out) {
  *out = {};
  std::array<std::byte, 4 * sizeof(UniqueIdentifiers)> bytes;  // room for what may be appended
  std::size_t size = bytes.size();
  // The argument asks for zombies, too.
  const int error = calls_.ProcPidInfo(pid, kProcPidUniqIdentifierInfo, 1, bytes.data(), &size);
  if (error != 0) return error;
  std::memcpy(out, bytes.data(), std::min(size, sizeof *out));
  return out->p_uniqueid != 0 ? 0 : EINVAL;
}

absl::Status DarwinProcesses::Verify(const core::ProcessIdentity& identity,
                                     std::optional<std::int32_t>* version) {
  UniqueIdentifiers identifiers;
  const int error = ReadIdentifiers(identity.pid, &identifiers);
  std::uint64_t start = identifiers.p_uniqueid;
  if (error == 0) {
    *version = identifiers.p_idversion;
  } else {
    *version = std::nullopt;
    const auto entry = ReadEntry(identity.pid);
    if (!entry.ok()) return entry.status();
    if (!*entry) return Gone(identity.pid);
    start = StartOf(**entry);
  }
  if (start != identity.start) {
    return absl::NotFoundError(absl::StrCat("process ", identity.pid, " is another one by now"));
  }
  return absl::OkStatus();
}

// Which tells both, but only of this user's living processes (xnu bsd/kern/kern_proc.c,
// task_name_for_pid). Asked for no further than is read: a kernel logs whoever asks for more than
// it has (osfmk/kern/task.c, TASK_VM_INFO).
std::optional<core::Usage> DarwinProcesses::UsageOfTask(std::int32_t pid) {
  const TaskName task(calls_, pid);
  if (!task.valid()) return std::nullopt;
  constexpr std::size_t kNeeded =
      offsetof(task_vm_info, phys_footprint) + sizeof(task_vm_info::phys_footprint);
  constexpr auto kWords = static_cast<mach_msg_type_number_t>(kNeeded / sizeof(integer_t));
  task_vm_info memory{};
  mach_msg_type_number_t count = kWords;
  if (calls_.TaskInfo(task.port(), TASK_VM_INFO, reinterpret_cast<integer_t*>(&memory), &count) !=
          KERN_SUCCESS ||
      count < kWords) {
    return std::nullopt;
  }
  return core::Usage{.footprint = Bytes::FromUnsigned(memory.phys_footprint),
                     .swapped = Bytes::FromUnsigned(memory.compressed)};
}

// What was read before Verify() was read from the right process: `identity` existed before the call
// and exists after it, so nobody else had its pid in between.
absl::StatusOr<core::Usage> DarwinProcesses::Usage(const core::ProcessIdentity& identity) {
  std::optional<core::Usage> usage = UsageOfTask(identity.pid);
  int error = 0;
  rusage_info_v4 rusage{};
  if (!usage) {
    error = calls_.ProcPidRusage(identity.pid, RUSAGE_INFO_V4,
                                 reinterpret_cast<rusage_info_t*>(&rusage));
  }
  std::optional<std::int32_t> version;
  if (auto status = Verify(identity, &version); !status.ok()) return status;
  if (usage) return *usage;
  if (error == EPERM) return core::Usage{};  // another user's: it cannot be told
  if (error != 0) {
    return absl::ErrnoToStatus(error, absl::StrCat("read the rusage of process ", identity.pid));
  }
  // A zombie's is what the kernel kept of it (xnu bsd/kern/kern_exit.c): it holds nothing.
  if (rusage.ri_proc_exit_abstime != 0) {
    return core::Usage{.footprint = Bytes(0), .swapped = Bytes(0)};
  }
  return core::Usage{.footprint = Bytes::FromUnsigned(rusage.ri_phys_footprint),
                     .swapped = std::nullopt};
}

// Copies the process's stack, parts of which may have to come back from swap for it, so once.
absl::StatusOr<std::string> DarwinProcesses::CommandLine(const core::ProcessIdentity& identity) {
  std::optional<std::int32_t> version;
  if (auto status = Verify(identity, &version); !status.ok()) return status;
  Known* known = FindKnown(identity.pid);
  if (known != nullptr && known->process.identity != identity) known = nullptr;
  if (known != nullptr && known->command && version == known->command_version) {
    return *known->command;
  }
  std::string line = ReadArguments(identity.pid);
  if (line.empty()) {
    // Not kept, since it may be one's own process in the middle of an exec.
    line = known != nullptr ? known->name : ReadName(identity.pid);
  } else if (known != nullptr && version) {
    known->command = line;
    known->command_version = *version;
  }
  // Read by now from the right process, if that is still there.
  if (auto status = Verify(identity, &version); !status.ok()) return status;
  return line;
}

// Empty where they cannot be read: EINVAL for another user's, a zombie's and the system's, EIO at
// times. Given less room than there is to tell, the kernel would give the end of it without an
// error (xnu bsd/kern/kern_sysctl.c, sysctl_procargsx).
std::string DarwinProcesses::ReadArguments(std::int32_t pid) {
  if (arguments_ == nullptr) {
    std::array<int, 2> name = {CTL_KERN, KERN_ARGMAX};
    int most = 0;
    std::size_t size = sizeof most;
    const bool told = calls_.Sysctl(name, &most, &size) == 0 && size == sizeof most && most > 0;
    longest_arguments_ = sizeof(int) + (told ? static_cast<std::size_t>(most) : kArgMax);
    arguments_ = std::make_unique_for_overwrite<char[]>(longest_arguments_);
  }
  std::array<int, 3> name = {CTL_KERN, KERN_PROCARGS2, pid};
  std::size_t size = longest_arguments_;
  if (calls_.Sysctl(name, arguments_.get(), &size) != 0) return "";
  return ArgumentsOf({arguments_.get(), size});
}

std::string DarwinProcesses::ReadName(std::int32_t pid) {
  const auto entry = ReadEntry(pid);
  return entry.ok() && *entry ? NameOf(**entry) : "";
}

}  // namespace stageload::host
