// macOS: sysctl by name.
#include <libproc.h>
#include <sys/proc.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/ctl/doctor_platform.h"

namespace stageload::ctl {
namespace {

// Empty when there is none of this name.
std::string Text(const char* name) {
  char text[256] = {};
  std::size_t size = sizeof text - 1;
  return ::sysctlbyname(name, text, &size, nullptr, 0) == 0 ? text : "";
}

// Of 4 or 8 bytes; what the kernel writes decides.
std::optional<std::int64_t> Number(const char* name) {
  union {
    std::int32_t narrow;
    std::int64_t wide;
  } value{};
  value.wide = 0;
  std::size_t size = sizeof value;
  if (::sysctlbyname(name, &value, &size, nullptr, 0) != 0) return std::nullopt;
  if (size == sizeof value.narrow) return value.narrow;
  if (size == sizeof value.wide) return value.wide;
  return std::nullopt;
}

}  // namespace

void ReadPlatform(Machine& machine) {
  machine.platform = Platform::kMacos;
  const std::string version = Text("kern.osproductversion");
  if (!version.empty()) machine.name = absl::StrCat("macOS ", version);
  machine.model = Text("hw.model");
  machine.memory = Bytes(Number("hw.memsize").value_or(0));
  if (const auto enabled = Number("vm.swap_enabled")) machine.swap_enabled = *enabled != 0;
}

// getrlimit(2) tells only a process's own.
std::optional<Limits> LimitsOf(int) { return std::nullopt; }

char StateOf(int pid) {
  int name[] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, pid};
  kinfo_proc process{};
  std::size_t size = sizeof process;
  if (::sysctl(name, 4, &process, &size, nullptr, 0) != 0 || size == 0) return '?';
  return process.kp_proc.p_stat == SSTOP ? 'T' : 'R';
}

bool HasOpen(int pid, dev_t device, ino_t inode) {
  int bytes = ::proc_pidinfo(pid, PROC_PIDLISTFDS, 0, nullptr, 0);
  if (bytes <= 0) return false;
  std::vector<proc_fdinfo> descriptors(static_cast<std::size_t>(bytes) / sizeof(proc_fdinfo));
  bytes = ::proc_pidinfo(pid, PROC_PIDLISTFDS, 0, descriptors.data(), bytes);
  descriptors.resize(bytes <= 0 ? 0 : static_cast<std::size_t>(bytes) / sizeof(proc_fdinfo));
  for (const proc_fdinfo& descriptor : descriptors) {
    vnode_fdinfo file{};
    if (descriptor.proc_fdtype != PROX_FDTYPE_VNODE) continue;
    const int got = ::proc_pidfdinfo(pid, descriptor.proc_fd, PROC_PIDFDVNODEINFO, &file,
                                     static_cast<int>(sizeof file));
    if (got != static_cast<int>(sizeof file)) continue;
    if (static_cast<dev_t>(file.pvi.vi_stat.vst_dev) == device &&
        file.pvi.vi_stat.vst_ino == inode) {
      return true;
    }
  }
  return false;
}

std::string UnitAround(int) { return ""; }

// The path is made from the vnode (xnu bsd/kern/proc_info.c, proc_pidpathinfo_internal), and of one
// that has lost its name there may be none. A file of the same name is not told from ours.
std::string ProgramChange(int pid) {
  char path[PROC_PIDPATHINFO_MAXSIZE];
  errno = 0;
  const int length = ::proc_pidpath(pid, path, sizeof path);
  if (length <= 0) return errno == ENOENT ? "its file was removed" : "";
  const std::string text(path, static_cast<std::size_t>(length));
  const bool gone = ::access(text.c_str(), F_OK) != 0 && errno == ENOENT;
  return gone ? text + " was removed" : "";
}

}  // namespace stageload::ctl
