#include "daemon/host/cgroup_limit.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdint>

#include "daemon/host/proc_text.h"
#include "daemon/host/small_file.h"

namespace stageload::host {
namespace {

// The file names of one version of the memory controller. v1: Documentation/admin-guide/cgroup-v1/
// memory.rst; v2: Documentation/admin-guide/cgroup-v2.rst. Usage and the statistics named here
// count the cgroups below as well.
struct Controller {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // in memory.stat: file cache that nobody has used lately
};
constexpr Controller kV1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                            "total_inactive_file"};
constexpr Controller kV2 = {"/memory.max", "/memory.current", "inactive_file"};

std::optional<Bytes> ReadBytes(const std::string& path) {
  SmallFileBuffer buffer;
  const FileText file = ReadSmallFile(AT_FDCWD, path.c_str(), buffer);
  if (file.error != 0) return std::nullopt;
  const auto count = ParseCounter(file.text);  // not a number for v2's "max": no limit
  if (!count) return std::nullopt;
  return Bytes::FromUnsigned(*count);
}

std::optional<Bytes> RoomUnder(const std::string& folder, const Controller& controller,
                               Bytes limit) {
  const auto usage = ReadBytes(folder + controller.usage);
  if (!usage) return std::nullopt;
  SmallFileBuffer buffer;
  const FileText statistics = ReadSmallFile(AT_FDCWD, (folder + "/memory.stat").c_str(), buffer);
  const auto cache = FindCounter(statistics.text, controller.reclaimable);
  const Bytes room = limit - *usage + Bytes::FromUnsigned(cache.value_or(0));
  return std::clamp(room, Bytes(0), limit);
}

void Include(const std::string& folder, const Controller& controller, Bytes machine_total,
             std::optional<CgroupMemory>& memory) {
  const auto limit = ReadBytes(folder + controller.limit);
  if (!limit || *limit >= machine_total) return;
  const auto room = RoomUnder(folder, controller, *limit);
  if (!memory) {
    memory = CgroupMemory{*limit, room};
    return;
  }
  memory->total = std::min(memory->total, *limit);
  memory->available =
      memory->available && room ? std::optional(std::min(*memory->available, *room)) : std::nullopt;
}

// The cgroup and all of its ancestors. In a container its path may be one of the host's, which does
// not exist here; the last one asked, the mount itself, is the container's own cgroup then.
void IncludeAncestors(const std::string& mount, std::string path, const Controller& controller,
                      Bytes machine_total, std::optional<CgroupMemory>& memory) {
  // "/../x" is how a cgroup outside of the reader's cgroup namespace is shown
  // (cgroup_namespaces(7)).
  if (!path.starts_with('/') || (path + "/").find("/../") != std::string::npos) path.clear();
  while (!path.empty()) {
    if (path != "/") Include(mount + path, controller, machine_total, memory);
    path.erase(path.rfind('/'));
  }
  Include(mount, controller, machine_total, memory);
}

bool HasController(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return false;
}

}  // namespace

std::optional<CgroupMemory> ReadCgroupMemory(std::string_view membership, const std::string& mount,
                                             Bytes machine_total) {
  std::optional<CgroupMemory> memory;
  while (!membership.empty()) {
    // "hierarchy:controllers:path"; v2 has hierarchy 0 and no controllers. The path may have
    // colons.
    const std::string_view line = TakeLine(membership).text;
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (line.substr(0, first) == "0" && controllers.empty()) {
      IncludeAncestors(mount, path, kV2, machine_total, memory);
      IncludeAncestors(mount + "/unified", path, kV2, machine_total, memory);
    } else if (HasController(controllers, "memory")) {
      IncludeAncestors(mount + "/memory", path, kV1, machine_total, memory);
    }
  }
  return memory;
}

}  // namespace stageload::host
