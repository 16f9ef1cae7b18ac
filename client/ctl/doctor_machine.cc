#include "client/ctl/doctor_machine.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/disk_error.h"
#include "base/text.h"
#include "client/ctl/doctor_platform.h"

namespace stageload::ctl {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// A submit takes tens of KiB, and a job's log up to 256 MiB.
constexpr Bytes kTooLittle = MiB(64);
constexpr Bytes kLittle = GiB(1);
// macOS makes swap files of up to 1 GiB each and kills when it cannot (no_paging_space_action
// in xnu bsd/kern/kern_proc.c).
constexpr Bytes kTooLittleForSwap = GiB(2);
constexpr Bytes kLittleForSwap = GiB(10);
// What a daemon has open beside its connections, and what it raises its limit to.
constexpr std::uint64_t kDaemonsOwnFiles = 128;
constexpr std::uint64_t kDaemonRaisesTo = 8192;

std::string Number(std::uint64_t limit) {
  return limit == kUnlimited ? "unlimited" : absl::StrCat(limit);
}

std::string Text(const std::optional<Limit>& limit) {
  return limit ? absl::StrCat(Number(limit->soft), " (at most ", Number(limit->hard), ")")
               : "unknown";
}

// The nearest folder that is there.
std::string Existing(std::string path) {
  while (path.size() > 1 && ::access(path.c_str(), F_OK) != 0) {
    const std::size_t slash = path.rfind('/');
    path = slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
  }
  return path;
}

Bytes Blocks(std::uint64_t blocks, std::uint64_t size) {
  return Bytes::FromUnsigned(blocks) * static_cast<double>(size);
}

std::string FreeText(const Disk& disk) {
  return absl::StrCat(FormatBytes(disk.free), " free of ", FormatBytes(disk.size), " at ",
                      disk.path);
}

std::string AreasText(const std::vector<SwapArea>& areas) {
  std::string text;
  for (const SwapArea& area : areas) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", area.path, " (", area.kind, ", ",
                    FormatBytes(area.size), ")");
  }
  return text;
}

Finding CheckLinuxSwap(const Machine& machine, Bytes used, Bytes total) {
  if (total == Bytes(0)) {
    return Warn("swap",
                "there is none: the kernel kills what does not fit into memory, and a swap budget "
                "has nothing to charge",
                "declare what jobs take (--memory), so that they wait for room; or make swap, as "
                "by: sudo fallocate -l 8G /swapfile && sudo chmod 600 /swapfile && sudo mkswap "
                "/swapfile && sudo swapon /swapfile");
  }
  std::string text = absl::StrCat(FormatBytes(used), " used of ", FormatBytes(total));
  if (!machine.swap_areas.empty()) absl::StrAppend(&text, ": ", AreasText(machine.swap_areas));
  if (used > total * 0.9) {
    return Warn("swap", absl::StrCat("nearly full: ", text),
                "end what is not needed, or make more swap; once it is full, the kernel kills");
  }
  return Well("swap", text);
}

}  // namespace

Machine ReadMachine() {
  Machine machine;
  utsname system{};
  if (::uname(&system) == 0) {
    machine.system = system.sysname;
    machine.release = system.release;
    machine.architecture = system.machine;
  }
  machine.processors = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  machine.page = Bytes(::sysconf(_SC_PAGESIZE));
  ReadPlatform(machine);
  return machine;
}

std::string Described(const Machine& machine) {
  const std::string kernel = absl::StrCat(machine.system, " ", machine.release);
  return absl::StrCat(machine.name.empty() ? kernel : absl::StrCat(machine.name, " (", kernel, ")"),
                      ", ", machine.architecture, machine.model.empty() ? "" : ", ", machine.model,
                      ", ", machine.processors, " processors, ", FormatBytes(machine.memory),
                      " memory, pages of ", FormatBytes(machine.page));
}

Disk ReadDisk(const std::string& path) {
  Disk disk;
  disk.path = path;
  struct statvfs found {};
  const std::string existing = Existing(path);
  if (::statvfs(existing.c_str(), &found) != 0) {
    disk.read = DiskError(errno, "look at the disk of " + existing);
    return disk;
  }
  disk.free = Blocks(found.f_bavail, found.f_frsize);
  disk.size = Blocks(found.f_blocks, found.f_frsize);
  disk.read_only = (found.f_flag & ST_RDONLY) != 0;
  // A file system that makes inodes as it needs them says 0 of all.
  disk.out_of_files = found.f_files > 0 && found.f_favail == 0;
  return disk;
}

std::string MacosSwapFolder() {
  // A volume of its own since macOS 10.15.
  constexpr char kVolume[] = "/System/Volumes/VM";
  return ::access(kVolume, F_OK) == 0 ? kVolume : "/";
}

Limits OwnLimits() {
  const auto read = [](auto resource) -> std::optional<Limit> {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) return std::nullopt;
    const auto number = [](rlim_t value) {
      return value == RLIM_INFINITY ? kUnlimited : static_cast<std::uint64_t>(value);
    };
    return Limit{number(limit.rlim_cur), number(limit.rlim_max)};
  };
  return {read(RLIMIT_NOFILE), read(RLIMIT_NPROC)};
}

Finding CheckSwap(const Machine& machine, std::optional<Bytes> used, std::optional<Bytes> total) {
  if (!used || !total) {
    return Fail("swap", "how much is used and how much there is cannot be read", kTellUs);
  }
  if (machine.platform == Platform::kLinux) return CheckLinuxSwap(machine, *used, *total);
  const std::string text = absl::StrCat(FormatBytes(*used), " used of ", FormatBytes(*total),
                                        " that macOS has made so far");
  if (machine.swap_enabled == false) {
    return Warn("swap", "it is off (vm.swap_enabled is 0): macOS kills what does not fit",
                "switch it on again where it was switched off, and restart the Mac");
  }
  return Well("swap", absl::StrCat(text, "; it makes more as it needs it"));
}

Finding CheckSwapDisk(const Machine& machine, const Disk& disk) {
  constexpr char kCheck[] = "swap_disk";
  if (machine.platform == Platform::kLinux) {
    return Well(kCheck, "swap does not grow here, and takes no more disk than it has");
  }
  if (!disk.read.ok()) return Warn(kCheck, std::string(disk.read.message()), kTellUs);
  if (disk.free < kTooLittleForSwap) {
    return Fail(kCheck,
                absl::StrCat("too little for swap: ", FreeText(disk),
                             "; when swap finds no room, macOS kills the largest program"),
                "free some disk");
  }
  if (disk.free < kLittleForSwap) {
    return Warn(kCheck, absl::StrCat("little for swap: ", FreeText(disk)), "free some disk");
  }
  return Well(kCheck, FreeText(disk));
}

Finding CheckStateDisk(const Disk& disk) {
  constexpr char kCheck[] = "state_disk";
  if (!disk.read.ok()) {
    return Fail(kCheck, std::string(disk.read.message()), "set another STAGELOAD_HOME");
  }
  if (disk.read_only) {
    return Fail(kCheck, absl::StrCat("the disk of ", disk.path, " is mounted read-only"),
                "mount it writable, or set another STAGELOAD_HOME; submits fail until then");
  }
  if (disk.out_of_files) {
    return Fail(kCheck, absl::StrCat("the disk of ", disk.path, " has no inode left"),
                "remove files; submits fail until then");
  }
  if (disk.free < kTooLittle) {
    return Fail(kCheck, absl::StrCat("too little: ", FreeText(disk)),
                "free some disk, as by `stageloadctl clear`; submits fail when it is full");
  }
  if (disk.free < kLittle) {
    return Warn(kCheck, absl::StrCat("little: ", FreeText(disk), "; a job's log may take 256 MiB"),
                "free some disk, as by `stageloadctl clear`");
  }
  return Well(kCheck, FreeText(disk));
}

Finding CheckOwnLimits(const Limits& own, bool root) {
  const std::string text = absl::StrCat("open files ", Text(own.files), ", processes ",
                                        Text(own.processes), "; jobs inherit them");
  if (own.files && own.files->soft < 256) {
    return Warn("limits", text, "raise the first in this shell, as by: ulimit -n 1024");
  }
  if (!root && own.processes && own.processes->soft < 256) {
    return Warn("limits", text, "raise the second in this shell, as by: ulimit -u 1024");
  }
  return Well("limits", text);
}

Finding CheckDaemonLimits(const Limits& own, const std::optional<Limits>& daemon,
                          std::optional<std::int64_t> max_sessions) {
  constexpr char kCheck[] = "daemon_limits";
  std::optional<Limit> files = daemon ? daemon->files : own.files;
  if (!files) return Well(kCheck, "not told by this platform");
  // It raises its soft limit at its start.
  if (!daemon) files->soft = std::max(files->soft, std::min(files->hard, kDaemonRaisesTo));
  const std::string who = daemon ? "the daemon has" : "a daemon that is started here has";
  std::string text = absl::StrCat(who, " room for ", Number(files->soft), " open files");
  if (!max_sessions) return Well(kCheck, text);
  const std::uint64_t needed =
      2 * static_cast<std::uint64_t>(std::max<std::int64_t>(*max_sessions, 0)) + kDaemonsOwnFiles;
  absl::StrAppend(&text, "; ", *max_sessions, " sessions (max_sessions) take up to ", needed);
  if (files->soft >= needed) return Well(kCheck, text);
  return Warn(kCheck, text,
              absl::StrCat("raise its limit (`ulimit -Hn ", needed,
                           "` before it is started, or `stageloadctl daemon install`), or lower "
                           "max_sessions in the config"));
}

}  // namespace stageload::ctl
