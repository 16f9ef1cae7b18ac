// The platform is an argument, so that both answers are tested wherever the tests run.
#include "base/paths.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace stageload {
namespace {

// sun_path has 104 bytes on macOS (xnu bsd/sys/un.h) and 108 on Linux (linux/un.h), one of them for
// the terminating zero.
constexpr std::size_t kLongestSocketPath = 103;

bool IsAbsolute(const std::string& path) { return !path.empty() && path.front() == '/'; }

// Without "//", "/./", "/../" and a slash at the end.
std::string Normal(const std::string& path) {
  std::string normal = std::filesystem::path(path).lexically_normal().string();
  while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

std::string Join(const std::string& folder, const std::string& name) {
  return folder == "/" ? folder + name : absl::StrCat(folder, "/", name);
}

std::optional<std::string> NonEmpty(const Environment& environment, const std::string& name) {
  auto value = environment(name);
  if (value && value->empty()) return std::nullopt;
  return value;
}

// A folder variable that must be absolute: nullopt when unset.
absl::StatusOr<std::optional<std::string>> Absolute(const Environment& environment,
                                                    const std::string& name) {
  const auto value = NonEmpty(environment, name);
  if (!value) return std::optional<std::string>();
  if (!IsAbsolute(*value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, "=\"", absl::Utf8SafeCHexEscape(*value),
                     "\" is not an absolute path (and \"~\" is not expanded); begin it with /"));
  }
  return std::optional<std::string>(Normal(*value));
}

// The user's home folder, needed only where nothing else says where to go.
absl::StatusOr<std::string> Home(const Environment& environment) {
  const auto home = Absolute(environment, "HOME");
  if (!home.ok()) return home.status();
  if (!*home) {
    return absl::InvalidArgumentError(
        "neither STAGELOAD_HOME nor HOME is set; set one of them to an absolute path");
  }
  return **home;
}

// XDG Base Directory Specification: a relative path in one of its variables is to be ignored.
absl::StatusOr<std::string> XdgFolder(const Environment& environment, const std::string& name,
                                      const std::string& below_home) {
  const auto value = NonEmpty(environment, name);
  if (value && IsAbsolute(*value)) return Normal(*value);
  const auto home = Home(environment);
  if (!home.ok()) return home.status();
  return Join(*home, below_home);
}

absl::StatusOr<std::string> ConfigFile(const Environment& environment) {
  const auto folder = XdgFolder(environment, "XDG_CONFIG_HOME", ".config");
  if (!folder.ok()) return folder.status();
  return Join(*folder, "stageload/config.toml");
}

absl::StatusOr<Paths> MacosFolders(const Environment& environment) {
  const auto home = Home(environment);
  if (!home.ok()) return home.status();
  const auto config = ConfigFile(environment);
  if (!config.ok()) return config.status();
  Paths paths;
  paths.state = Join(*home, "Library/Application Support/stageload");
  paths.logs = Join(*home, "Library/Logs/stageload");
  paths.runtime = Join(*home, ".stageload");  // short, for the socket's sake
  paths.config = *config;
  return paths;
}

absl::StatusOr<Paths> LinuxFolders(const Environment& environment) {
  const auto state = XdgFolder(environment, "XDG_STATE_HOME", ".local/state");
  if (!state.ok()) return state.status();
  const auto config = ConfigFile(environment);
  if (!config.ok()) return config.status();
  Paths paths;
  paths.state = Join(*state, "stageload");
  paths.logs = Join(paths.state, "log");
  const auto runtime = NonEmpty(environment, "XDG_RUNTIME_DIR");
  paths.runtime = runtime && IsAbsolute(*runtime) ? Join(Normal(*runtime), "stageload")
                                                  : Join(paths.state, "run");
  paths.config = *config;
  return paths;
}

Paths OneFolder(const std::string& home) {
  Paths paths;
  paths.state = home;
  paths.logs = Join(home, "log");
  paths.runtime = home;
  paths.config = Join(home, "config.toml");
  return paths;
}

absl::StatusOr<Paths> Folders(Platform platform, const Environment& environment) {
  const auto home = Absolute(environment, "STAGELOAD_HOME");
  if (!home.ok()) return home.status();
  if (*home) return OneFolder(**home);
  return platform == Platform::kMacos ? MacosFolders(environment) : LinuxFolders(environment);
}

}  // namespace

absl::StatusOr<Paths> ResolvePathsOn(Platform platform, const Environment& environment) {
  auto paths = Folders(platform, environment);
  if (!paths.ok()) return paths.status();
  const auto socket = Absolute(environment, "STAGELOAD_SOCKET");
  if (!socket.ok()) return socket.status();
  paths->socket = *socket ? **socket : Join(paths->runtime, "stageloadd.sock");
  paths->lock = Join(paths->state, "stageloadd.lock");
  paths->store = Join(paths->state, "stageload.db");
  paths->jobs = Join(paths->state, "jobs");
  if (auto status = CheckSocketPath(paths->socket); !status.ok()) return status;
  return paths;
}

absl::StatusOr<Paths> ResolvePaths(const Environment& environment) {
#ifdef __APPLE__
  return ResolvePathsOn(Platform::kMacos, environment);
#else
  return ResolvePathsOn(Platform::kLinux, environment);
#endif
}

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

absl::Status CheckSocketPath(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the socket path is empty");
  if (path.size() <= kLongestSocketPath) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("socket path \"", absl::Utf8SafeCHexEscape(path), "\" is ", path.size(),
                   " bytes long, the limit is ", kLongestSocketPath,
                   "; set a shorter STAGELOAD_HOME or STAGELOAD_SOCKET"));
}

}  // namespace stageload
