#include "base/own_program.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/types.h>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#else
#include <unistd.h>
#endif

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace stageload {

std::string OwnProgram() {
  char path[PATH_MAX];
#ifdef __APPLE__
  std::uint32_t size = sizeof path;
  char resolved[PATH_MAX];
  if (_NSGetExecutablePath(path, &size) != 0 || ::realpath(path, resolved) == nullptr) return "";
  return resolved;
#else
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0 || length == static_cast<ssize_t>(sizeof path)) return "";
  return std::string(path, static_cast<std::size_t>(length));
#endif
}

std::string StablePath(const std::string& path) {
  const std::size_t cellar = path.find("/Cellar/");
  if (cellar == std::string::npos) return path;
  const std::size_t name = cellar + sizeof("/Cellar/") - 1;
  const std::size_t version = path.find('/', name);
  if (version == std::string::npos) return path;
  const std::size_t rest = path.find('/', version + 1);
  if (rest == std::string::npos) return path;
  const std::string stable = absl::StrCat(path.substr(0, cellar), "/opt/",
                                          path.substr(name, version - name), path.substr(rest));
  std::error_code error;
  return std::filesystem::equivalent(stable, path, error) && !error ? stable : path;
}

}  // namespace stageload
