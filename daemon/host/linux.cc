// The Linux machine, read through /proc and the cgroup files. Most of the time of a sample would go
// into /proc/<pid>/stat, about 4 us each, so a process that was read before is only read again when
// something about it may matter or may have changed; see Processes().
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/host/cgroup_limit.h"
#include "daemon/host/host.h"
#include "daemon/host/pressure_trigger_linux.h"
#include "daemon/host/proc_text.h"
#include "daemon/host/small_file.h"

namespace stageload::host {
namespace {

// linux/magic.h, PROC_SUPER_MAGIC.
constexpr auto kProcMagic = 0x9fa0;
// A process that nobody asks about is read again once in so many calls of Processes().
constexpr unsigned kRefreshEvery = 64;
// Longer command lines are cut; the kernel takes 2 MiB by default, a quarter of the stack's limit.
constexpr std::size_t kLongestCommandLine = 8 * 1024 * 1024;

struct DirectoryCloser {
  void operator()(DIR* directory) const { closedir(directory); }
};
using Directory = std::unique_ptr<DIR, DirectoryCloser>;

// "<pid>/<file>" without an allocation.
class PidPath {
 public:
  PidPath(std::int32_t pid, std::string_view file) {
    char* const last = text_.data() + text_.size();
    char* end = std::to_chars(text_.data(), last, pid).ptr;
    if (!file.empty()) *end++ = '/';
    end = std::copy(file.begin(), file.end(), end);
    *end = '\0';
  }
  const char* c_str() const { return text_.data(); }

 private:
  std::array<char, 32> text_;
};

std::optional<std::int32_t> PidOf(std::string_view name) {
  std::int32_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || end != name.data() + name.size() || pid <= 0) return std::nullopt;
  return pid;
}

absl::Duration ReadClock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);  // cannot fail for the clocks named here
  return absl::DurationFromTimespec(now);
}

absl::Status Gone(std::int32_t pid) {
  return absl::NotFoundError(absl::StrCat("there is no process ", pid));
}

class LinuxHost final : public Host {
 public:
  explicit LinuxHost(LinuxOptions options)
      : options_(std::move(options)), page_size_(sysconf(_SC_PAGESIZE)) {
    if (OpenProc().ok()) boot_id_ = ReadBootId();
  }

  absl::StatusOr<core::HostSample> Sample() override;
  absl::StatusOr<std::vector<Process>> Processes() override;
  absl::StatusOr<core::Usage> Usage(const core::ProcessIdentity& identity) override;
  absl::StatusOr<Process> Find(std::int32_t pid) override;
  absl::StatusOr<std::string> CommandLine(const core::ProcessIdentity& identity) override;
  absl::Status OnPressure(std::function<void()> hint, const WaitForUrgent& wait) override;

  Instant Clock() override {
    return {ReadClock(CLOCK_MONOTONIC), ReadClock(CLOCK_BOOTTIME),
            absl::UnixEpoch() + ReadClock(CLOCK_REALTIME)};
  }
  const std::string& BootId() override { return boot_id_; }

 private:
  struct Listed {
    std::int32_t pid = 0;
    ino_t inode = 0;
  };
  // A process as it was read last.
  struct Known {
    Process process;
    ino_t inode = 0;       // of its folder
    bool watched = false;  // Usage() was asked for it since the last Processes()
    bool fresh = false;    // read in this call
    bool gone = false;     // it vanished in this call
  };

  absl::Status OpenProc();
  absl::Status Failure(std::string_view what, std::string_view path, int error) const;
  std::string ReadBootId();
  void ApplyCgroupLimits(core::HostSample& sample);

  absl::StatusOr<std::vector<Listed>> List();
  std::optional<Process> Read(std::int32_t pid, int* error = nullptr);
  Known* FindKnown(std::int32_t pid);
  // OK while `identity` has its pid.
  absl::Status Verify(const core::ProcessIdentity& identity);
  core::Usage UsageOfThreads(std::int32_t pid);
  void RefreshOrphans();

  const LinuxOptions options_;
  const std::int64_t page_size_;
  std::string boot_id_;
  Directory proc_;
  bool is_procfs_ = false;    // and no recorded tree
  std::vector<Known> known_;  // ascending by pid
  unsigned round_ = 0;
  std::optional<PressureTrigger> pressure_;
};

absl::Status LinuxHost::OpenProc() {
  if (proc_ != nullptr) return absl::OkStatus();
  proc_.reset(opendir(options_.proc.c_str()));
  if (proc_ == nullptr) return Failure("open", "", errno);
  struct statfs mount {};
  is_procfs_ = fstatfs(dirfd(proc_.get()), &mount) == 0 && mount.f_type == kProcMagic;
  return absl::OkStatus();
}

absl::Status LinuxHost::Failure(std::string_view what, std::string_view path, int error) const {
  return absl::ErrnoToStatus(error, absl::StrCat(std::string(what), " ", options_.proc,
                                                 path.empty() ? "" : "/", std::string(path)));
}

std::string LinuxHost::ReadBootId() {
  std::array<char, 64> buffer;
  std::string_view text =
      ReadSmallFile(dirfd(proc_.get()), "sys/kernel/random/boot_id", buffer).text;
  return std::string(TakeLine(text).text);
}

absl::StatusOr<core::HostSample> LinuxHost::Sample() {
  if (auto status = OpenProc(); !status.ok()) return status;
  const int proc = dirfd(proc_.get());
  SmallFileBuffer buffer;
  const FileText meminfo = ReadSmallFile(proc, "meminfo", buffer);
  const MemoryText memory = ParseMeminfo(meminfo.text);
  core::HostSample sample;
  sample.total = memory.total;
  sample.available = memory.available;
  sample.swap_total = memory.swap_total;
  sample.swap_used = memory.swap_used;
  sample.compressed = memory.compressed;
  sample.wired = memory.wired;
  sample.pressure = ParsePressure(ReadSmallFile(proc, "pressure/memory", buffer).text);
  const SwapTraffic traffic = ParseVmstat(ReadSmallFile(proc, "vmstat", buffer).text, page_size_);
  sample.swapped_in_total = traffic.in;
  sample.swapped_out_total = traffic.out;
  if (meminfo.error != 0 && !sample.pressure && !traffic.in && !traffic.out) {
    return Failure("read", "meminfo", meminfo.error);
  }
  ApplyCgroupLimits(sample);
  if (sample.total && sample.available && *sample.total > Bytes(0)) {
    sample.level = Percent{100 * sample.available->AsDouble() / sample.total->AsDouble()};
  }
  return sample;
}

void LinuxHost::ApplyCgroupLimits(core::HostSample& sample) {
  if (!sample.total) return;
  SmallFileBuffer buffer;
  const FileText membership = ReadSmallFile(dirfd(proc_.get()), "self/cgroup", buffer);
  const auto limited = ReadCgroupMemory(membership.text, options_.cgroup, *sample.total);
  if (!limited) return;
  sample.total = limited->total;
  if (sample.available && limited->available) {
    sample.available = std::min({*sample.available, *limited->available, limited->total});
  } else {
    sample.available = std::nullopt;
  }
}

absl::StatusOr<std::vector<LinuxHost::Listed>> LinuxHost::List() {
  std::vector<Listed> listed;
  listed.reserve(known_.size() + 64);
  rewinddir(proc_.get());
  errno = 0;
  while (const dirent* entry = readdir(proc_.get())) {
    if (const auto pid = PidOf(entry->d_name)) listed.push_back({*pid, entry->d_ino});
    errno = 0;
  }
  if (errno != 0) return Failure("list", "", errno);
  // The kernel lists them in this order; a recorded tree comes in any.
  const auto by_pid = [](const Listed& a, const Listed& b) { return a.pid < b.pid; };
  if (!std::is_sorted(listed.begin(), listed.end(), by_pid)) {
    std::sort(listed.begin(), listed.end(), by_pid);
  }
  return listed;
}

std::optional<Process> LinuxHost::Read(std::int32_t pid, int* error) {
  const int proc = dirfd(proc_.get());
  std::array<char, 2048> buffer;  // 52 numbers and a comm of at most 64 bytes
  const FileText file = ReadSmallFile(proc, PidPath(pid, "stat").c_str(), buffer);
  if (error != nullptr) *error = file.error;
  auto process = ParseStat(file.text, pid);
  if (!process) return std::nullopt;
  // The folder's owner is the effective user, also of a process that may not be dumped (kernel
  // fs/proc/base.c, task_dump_owner), to which no file in it belongs.
  struct stat folder {};
  if (fstatat(proc, PidPath(pid, "").c_str(), &folder, AT_SYMLINK_NOFOLLOW) != 0) {
    if (error != nullptr) *error = errno;
    return std::nullopt;
  }
  process->uid = folder.st_uid;
  return process;
}

// A process is read in full when it is new, when Usage() was asked for it lately, when its parent
// is gone (it has another one now), and else once in kRefreshEvery calls. New is what has a pid or
// an inode number that was not there before: procfs numbers a process's folder when it is first
// looked up and drops it when the process ends (fs/proc/base.c, proc_fill_cache, proc_flush_pid),
// so an equal number is the same process. A recorded tree is read in full each time.
absl::StatusOr<std::vector<Process>> LinuxHost::Processes() {
  if (auto status = OpenProc(); !status.ok()) return status;
  const auto listed = List();
  if (!listed.ok()) return listed.status();
  ++round_;
  std::vector<Known> before = std::exchange(known_, {});
  known_.reserve(listed->size());
  auto old = before.cbegin();
  for (const Listed& entry : *listed) {
    while (old != before.cend() && old->process.identity.pid < entry.pid) ++old;
    const bool same = is_procfs_ && old != before.cend() &&
                      old->process.identity.pid == entry.pid && old->inode == entry.inode;
    const bool due = (static_cast<unsigned>(entry.pid) + round_) % kRefreshEvery == 0;
    if (same && !old->watched && !due) {
      known_.push_back({.process = old->process, .inode = entry.inode});
    } else if (const auto process = Read(entry.pid)) {
      known_.push_back({.process = *process, .inode = entry.inode, .fresh = true});
    }
  }
  RefreshOrphans();
  std::vector<Process> processes;
  processes.reserve(known_.size());
  for (const Known& known : known_) processes.push_back(known.process);
  return processes;
}

void LinuxHost::RefreshOrphans() {
  for (Known& known : known_) {
    if (known.fresh || known.process.parent == 0) continue;
    const Known* parent = FindKnown(known.process.parent);
    // A "parent" that is younger than its child is another process that got the pid.
    if (parent != nullptr && parent->process.identity.start <= known.process.identity.start) {
      continue;
    }
    const auto process = Read(known.process.identity.pid);
    known.gone = !process.has_value();
    if (process) known.process = *process;
  }
  std::erase_if(known_, [](const Known& known) { return known.gone; });
}

LinuxHost::Known* LinuxHost::FindKnown(std::int32_t pid) {
  const auto found = std::lower_bound(
      known_.begin(), known_.end(), pid,
      [](const Known& known, std::int32_t p) { return known.process.identity.pid < p; });
  return found != known_.end() && found->process.identity.pid == pid ? &*found : nullptr;
}

absl::Status LinuxHost::Verify(const core::ProcessIdentity& identity) {
  Known* known = FindKnown(identity.pid);
  if (is_procfs_ && known != nullptr && known->process.identity == identity) {
    // The cheap way: the folder is still the same one.
    struct stat folder {};
    if (fstatat(dirfd(proc_.get()), PidPath(identity.pid, "").c_str(), &folder,
                AT_SYMLINK_NOFOLLOW) == 0 &&
        folder.st_ino == known->inode) {
      known->watched = true;
      return absl::OkStatus();
    }
  }
  const auto process = Find(identity.pid);
  if (!process.ok()) return process.status();
  if (process->identity != identity) {
    return absl::NotFoundError(absl::StrCat("process ", identity.pid, " is another one by now"));
  }
  return absl::OkStatus();
}

// What was read before Verify() was read from the right process: `identity` existed before the call
// and exists after it, so nobody else had its pid in between.
absl::StatusOr<core::Usage> LinuxHost::Usage(const core::ProcessIdentity& identity) {
  if (auto status = OpenProc(); !status.ok()) return status;
  const PidPath path(identity.pid, "status");
  SmallFileBuffer buffer;
  const FileText file = ReadSmallFile(dirfd(proc_.get()), path.c_str(), buffer);
  if (auto status = Verify(identity); !status.ok()) return status;
  if (file.error == ENOENT || file.error == ESRCH) return Gone(identity.pid);
  if (file.error != 0) return Failure("read", path.c_str(), file.error);
  const StatusText status = ParseStatus(file.text);
  if (status.zombie && status.threads > 1) return UsageOfThreads(identity.pid);
  return status.usage;
}

// Of a program whose first thread has ended before the others: what any of them says of the memory
// that they share.
core::Usage LinuxHost::UsageOfThreads(std::int32_t pid) {
  const std::string folder = absl::StrCat(options_.proc, "/", pid, "/task");
  const Directory threads(opendir(folder.c_str()));
  if (threads == nullptr) return {};
  SmallFileBuffer buffer;
  while (const dirent* entry = readdir(threads.get())) {
    const auto thread = PidOf(entry->d_name);
    if (!thread) continue;
    const FileText file =
        ReadSmallFile(dirfd(threads.get()), PidPath(*thread, "status").c_str(), buffer);
    const StatusText status = ParseStatus(file.text);
    if (!status.zombie && status.usage.footprint) return status.usage;
  }
  return {};
}

absl::StatusOr<Process> LinuxHost::Find(std::int32_t pid) {
  if (auto status = OpenProc(); !status.ok()) return status;
  if (pid <= 0) return Gone(pid);
  int error = 0;
  if (const auto process = Read(pid, &error)) return *process;
  if (error == ENOENT || error == ESRCH) return Gone(pid);
  const PidPath path(pid, "stat");
  if (error != 0) return Failure("read", path.c_str(), error);
  return absl::DataLossError(
      absl::StrCat(options_.proc, "/", path.c_str(), " is not of the form that proc(5) gives"));
}

absl::StatusOr<std::string> LinuxHost::CommandLine(const core::ProcessIdentity& identity) {
  if (auto status = OpenProc(); !status.ok()) return status;
  const PidPath path(identity.pid, "cmdline");
  std::string line(4096, '\0');
  FileText file = ReadSmallFile(dirfd(proc_.get()), path.c_str(), line);
  while (file.text.size() == line.size() && line.size() < kLongestCommandLine) {
    line.resize(line.size() * 4);
    file = ReadSmallFile(dirfd(proc_.get()), path.c_str(), line);
  }
  if (auto status = Verify(identity); !status.ok()) return status;
  if (file.error == ENOENT || file.error == ESRCH) return Gone(identity.pid);
  if (file.error != 0) return Failure("read", path.c_str(), file.error);
  line.resize(file.text.size());
  while (!line.empty() && line.back() == '\0') line.pop_back();
  std::replace(line.begin(), line.end(), '\0', ' ');
  return line;
}

absl::Status LinuxHost::OnPressure(std::function<void()> hint, const WaitForUrgent& wait) {
  absl::StatusOr<PressureTrigger> trigger =
      PressureTrigger::Set(options_.proc + "/pressure/memory");
  if (!trigger.ok()) return trigger.status();
  pressure_.emplace(*std::move(trigger));
  return wait(pressure_->descriptor(), std::move(hint));
}

}  // namespace

std::unique_ptr<Host> NewLinuxHost(LinuxOptions options) {
  return std::make_unique<LinuxHost>(std::move(options));
}

std::unique_ptr<Host> NewLocalHost() { return NewLinuxHost({}); }

}  // namespace stageload::host
