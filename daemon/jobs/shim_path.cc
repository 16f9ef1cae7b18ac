#include "daemon/jobs/shim_path.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/own_program.h"

namespace stageload::jobs {

namespace fs = std::filesystem;

std::vector<std::string> PathsOf(const std::string& program, const std::string& started_as,
                                 const std::string& path) {
  std::vector<std::string> paths = {program};
  const auto add = [&](const std::string& other) {
    std::error_code error;
    if (std::find(paths.begin(), paths.end(), other) != paths.end()) return;
    if (fs::equivalent(other, program, error) && !error) paths.push_back(other);
  };
  add(StablePath(program));
  std::error_code error;
  if (started_as.find('/') != std::string::npos) add(fs::absolute(started_as, error).string());
  const std::string name = fs::path(program).filename().string();
  for (const std::string& folder : std::vector<std::string>(absl::StrSplit(path, ':'))) {
    // One that is not absolute leads elsewhere once the daemon has gone to "/".
    if (!folder.empty() && folder.front() == '/') add(absl::StrCat(folder, "/", name));
  }
  return paths;
}

std::string ShimBeside(const std::vector<std::string>& programs) {
  for (const std::string& name : programs) {
    const fs::path program = name;
    std::error_code error;
    for (const fs::path& each : {program, fs::canonical(program, error)}) {
      if (each.empty()) continue;
      std::string shim = (each.parent_path() / "stageload-shim").string();
      if (::access(shim.c_str(), X_OK) == 0) return shim;
    }
  }
  return "";
}

}  // namespace stageload::jobs
