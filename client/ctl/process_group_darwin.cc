// proc_listpids(PROC_PGRP_ONLY) lists zombies, too; proc_pidinfo with 0 as its argument fails on
// one with ESRCH, and with EPERM on another user's (xnu bsd/kern/proc_info.c).
#include <libproc.h>
#include <sys/proc.h>

#include <cerrno>
#include <vector>

#include "client/ctl/process_group.h"

namespace stageload::ctl {
namespace {

constexpr std::size_t kMostMembers = 1 << 16;

}  // namespace

bool RunsInGroup(pid_t pid, pid_t group) {
  proc_bsdinfo process{};
  const int size = proc_pidinfo(pid, PROC_PIDTBSDINFO, 0, &process, sizeof process);
  if (size < static_cast<int>(sizeof process)) return false;
  return static_cast<pid_t>(process.pbi_pgid) == group && process.pbi_status != SZOMB;
}

std::optional<pid_t> FindInGroup(pid_t group) {
  std::vector<pid_t> members(64);
  while (true) {
    const auto room = static_cast<int>(members.size() * sizeof(pid_t));
    const int bytes =
        proc_listpids(PROC_PGRP_ONLY, static_cast<uint32_t>(group), members.data(), room);
    if (bytes <= 0) return group;
    const std::size_t count = static_cast<std::size_t>(bytes) / sizeof(pid_t);
    if (count == members.size() && count < kMostMembers) {  // there may be more
      members.resize(2 * count);
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (members[i] <= 0) continue;
      errno = 0;
      if (RunsInGroup(members[i], group)) return members[i];
      // One that may not be looked at runs, and a zombie is not found.
      if (errno == EPERM) return members[i];
    }
    return std::nullopt;
  }
}

}  // namespace stageload::ctl
