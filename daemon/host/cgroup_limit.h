// The memory limits that hold for the daemon itself: in a container or under a limited systemd
// slice the machine's own figures say what others may use.
//
// Threading: a pure function of the files it reads.
#ifndef STAGELOAD_DAEMON_HOST_CGROUP_LIMIT_H_
#define STAGELOAD_DAEMON_HOST_CGROUP_LIMIT_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace stageload::host {

struct CgroupMemory {
  Bytes total;                     // the smallest limit over the cgroup and its ancestors
  std::optional<Bytes> available;  // the smallest room under any of them; absent when one of them
                                   // does not tell its usage
};

// `membership` is the text of /proc/self/cgroup (cgroups(7)), `mount` is where cgroups are mounted:
// v1 (<mount>/memory), v2 (<mount>) and both at once (<mount>/unified). nullopt when no limit is
// below `machine_total`.
std::optional<CgroupMemory> ReadCgroupMemory(std::string_view membership, const std::string& mount,
                                             Bytes machine_total);

}  // namespace stageload::host

#endif  // STAGELOAD_DAEMON_HOST_CGROUP_LIMIT_H_
