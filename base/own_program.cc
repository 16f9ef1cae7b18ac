#include "base/own_program.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/types.h>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#else
#include <unistd.h>
#endif

#include <cstdint>

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

}  // namespace stageload
