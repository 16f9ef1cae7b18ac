// /proc/<pid>/stat (proc(5)): behind the name, which may hold anything, the state is the 1st field,
// the group the 3rd and the number of threads the 18th. A process whose first thread has ended is
// in state Z while its others run.
#include <dirent.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/process_group.h"

namespace stageload::ctl {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { (void)closedir(folder); }
};

}  // namespace

bool RunsInGroup(pid_t pid, pid_t group) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  const std::string stat(std::istreambuf_iterator<char>(file), {});
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return false;
  char state = 0;
  int its_group = 0;
  int threads = 0;
  const int read = std::sscanf(stat.c_str() + name_end + 1,
                               " %c %*d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                               "%*d %d",
                               &state, &its_group, &threads);
  if (read != 3 || its_group != group) return false;
  return (state != 'Z' && state != 'X') || threads > 1;
}

std::optional<pid_t> FindInGroup(pid_t group) {
  const std::unique_ptr<DIR, CloseFolder> folder(opendir("/proc"));
  if (!folder) return group;
  while (const dirent* entry = readdir(folder.get())) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(entry->d_name, &pid) && RunsInGroup(pid, group)) return pid;
  }
  return std::nullopt;
}

}  // namespace stageload::ctl
