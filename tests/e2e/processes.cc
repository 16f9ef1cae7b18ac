#include "tests/e2e/processes.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "tests/e2e/child_process.h"

namespace stageload::e2e {
namespace {

bool IsPid(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), absl::ascii_isdigit);
}

// A zombie has no arguments, no environment and no folder, so it never matches.
bool Mentions(const std::filesystem::path& process, const std::string& folder) {
  std::error_code ignored;  // gone, or a kernel thread
  const std::string cwd = std::filesystem::read_symlink(process / "cwd", ignored).string();
  return cwd == folder || absl::StartsWith(cwd, folder + "/") ||
         absl::StrContains(ReadFile(process / "environ"), folder) ||
         absl::StrContains(ReadFile(process / "cmdline"), folder);
}

}  // namespace

std::vector<FoundProcess> ProcessesOf(const std::string& folder) {
  std::vector<FoundProcess> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    if (!IsPid(name) || !absl::SimpleAtoi(name, &pid) || pid == getpid()) continue;
    if (!Mentions(entry.path(), folder)) continue;
    std::string command = ReadFile(entry.path() / "cmdline");
    std::replace(command.begin(), command.end(), '\0', ' ');
    found.push_back({pid, command});
  }
  std::sort(found.begin(), found.end(),
            [](const FoundProcess& a, const FoundProcess& b) { return a.pid < b.pid; });
  return found;
}

bool KillProcessesOf(const std::string& folder) {
  return Eventually([&] {
    const std::vector<FoundProcess> found = ProcessesOf(folder);
    for (const FoundProcess& process : found) kill(process.pid, SIGKILL);
    return found.empty();
  });
}

}  // namespace stageload::e2e
