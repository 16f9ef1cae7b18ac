// The files by which launchd or systemd keeps the daemon running, as they should be now. Their
// templates are in launchd/ and are compiled in.
//
// Threading: pure functions of what is passed in.
#ifndef STAGELOAD_CLIENT_CTL_SERVICE_FILES_H_
#define STAGELOAD_CLIENT_CTL_SERVICE_FILES_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/paths.h"

namespace stageload::ctl {

inline constexpr char kServiceLabel[] = "dev.stageload.stageloadd";  // to launchd
inline constexpr char kServiceUnit[] = "stageloadd.service";         // to systemd
inline constexpr char kSocketUnit[] = "stageloadd.socket";

struct ServiceFile {
  std::string path;
  std::string text;
  // The line of `text` that says at which socket it serves; empty where there is none.
  std::string socket_line;
};

// What the daemon is to be started with.
struct ServiceTerms {
  Platform platform = Platform::kLinux;
  std::string daemon;  // absolute path of stageloadd
  Paths paths;
  // Variables that decide over paths, for a daemon that has none of the caller's environment.
  std::vector<std::pair<std::string, std::string>> variables;
  std::string unit_folder;  // Linux: where systemd reads units; empty: as the environment has it
};

// The terms that follow from this environment. InvalidArgument as ResolvePathsOn().
absl::StatusOr<ServiceTerms> TermsFor(Platform platform, const Environment& environment,
                                      const std::string& daemon);

// macOS: the LaunchAgent; Linux: the service and its socket. InvalidArgument for a path that such a
// file cannot hold, as one with a newline.
absl::StatusOr<std::vector<ServiceFile>> ServiceFiles(const ServiceTerms& terms,
                                                      const Environment& environment);

// Folders that the service needs and that nobody else makes.
std::vector<std::string> ServiceFolders(const ServiceTerms& terms);

// Where the service's standard error goes; empty when that is systemd's journal.
std::string ServiceErrors(const ServiceTerms& terms);

// The program that a LaunchAgent or a unit of this text has run; nothing where that is not told as
// a plain absolute path.
std::optional<std::string> ProgramIn(Platform platform, const std::string& text);

// "&" as "&amp;" and so on.
std::string XmlEscape(const std::string& text);
// One word of a line in a unit, with spaces, quotes, backslashes and specifiers kept.
std::string UnitQuote(const std::string& word);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_SERVICE_FILES_H_
