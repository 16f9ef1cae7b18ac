// `doctor`: the machine as this program sees it by itself, without a daemon: system, memory, swap,
// disks, limits.
//
// Threading: the checks are pure functions; what reads is for one thread.
#ifndef STAGELOAD_CLIENT_CTL_DOCTOR_MACHINE_H_
#define STAGELOAD_CLIENT_CTL_DOCTOR_MACHINE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/paths.h"
#include "base/units.h"
#include "client/ctl/doctor_finding.h"

namespace stageload::ctl {

// Linux: a line of /proc/swaps.
struct SwapArea {
  std::string path;
  std::string kind;  // "partition", "file"
  Bytes size;
};

struct Machine {
  Platform platform = Platform::kLinux;
  std::string system;   // "Linux", "Darwin"
  std::string release;  // of the kernel
  std::string name;     // "Debian GNU/Linux 12 (bookworm)", "macOS 15.1"; may be empty
  std::string model;    // macOS: "Mac16,8"; else empty
  std::string architecture;
  int processors = 0;
  Bytes memory;
  Bytes page;
  std::vector<SwapArea> swap_areas;  // Linux
  std::optional<bool> swap_enabled;  // macOS: vm.swap_enabled
};
Machine ReadMachine();
// "macOS 15.1 (Darwin 24.1.0), arm64, Mac16,8, 14 processors, 48 GiB memory, pages of 16 KiB".
std::string Described(const Machine& machine);

// Of the file system that holds `path`, or will.
struct Disk {
  std::string path;
  absl::Status read;  // why it cannot be told
  Bytes free;         // for us
  Bytes size;
  bool read_only = false;
  bool out_of_files = false;  // no inode is left
};
Disk ReadDisk(const std::string& path);
// Where macOS keeps its swap files.
std::string MacosSwapFolder();

struct Limit {
  std::uint64_t soft = 0;  // the largest number is "unlimited"
  std::uint64_t hard = 0;
};
struct Limits {
  std::optional<Limit> files;
  std::optional<Limit> processes;
};
Limits OwnLimits();
// Of another process; nothing where the platform does not tell, as macOS.
std::optional<Limits> LimitsOf(int pid);
// 'T' of one that is stopped (by SIGSTOP or a debugger); '?' when it cannot be told.
char StateOf(int pid);
// Whether it has this file open; false where that cannot be told.
bool HasOpen(int pid, dev_t device, ino_t inode);
// "/x/stageloadd was removed" or "... was replaced", since the process started; empty where neither
// is so or it cannot be told.
std::string ProgramChange(int pid);
// Linux: the unit of systemd that the process ends with, such as "run-u12.service"; empty when it
// is in none but a login's.
std::string UnitAround(int pid);

// `used` and `total` are the daemon's reading.
Finding CheckSwap(const Machine& machine, std::optional<Bytes> used, std::optional<Bytes> total);
// `disk` holds macOS's swap files.
Finding CheckSwapDisk(const Machine& machine, const Disk& disk);
Finding CheckStateDisk(const Disk& disk);
Finding CheckOwnLimits(const Limits& own, bool root);
// `daemon` is that of one that runs. Without it, what one would have that is started here.
Finding CheckDaemonLimits(const Limits& own, const std::optional<Limits>& daemon,
                          std::optional<std::int64_t> max_sessions);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_DOCTOR_MACHINE_H_
