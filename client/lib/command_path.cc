// The search of execvp, without the exec.
#include "client/lib/command_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace stageload::client {
namespace {

enum class Candidate { kMissing, kForbidden, kGood };

Candidate Look(const std::string& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return Candidate::kMissing;
  if (!S_ISREG(status.st_mode) || access(file.c_str(), X_OK) != 0) return Candidate::kForbidden;
  return Candidate::kGood;
}

absl::Status Refusal(const std::string& command, bool forbidden) {
  if (forbidden) {
    return absl::PermissionDeniedError(absl::StrCat(command, ": not an executable file"));
  }
  const bool is_path = command.find('/') != std::string::npos;
  return absl::NotFoundError(
      absl::StrCat(command, is_path ? ": there is no such file" : ": command not found"));
}

}  // namespace

absl::StatusOr<std::string> FindCommand(const std::string& command, const std::string& path) {
  if (command.find('/') != std::string::npos) {
    const Candidate candidate = Look(command);
    if (candidate == Candidate::kGood) return command;
    return Refusal(command, candidate == Candidate::kForbidden);
  }
  bool forbidden = false;
  for (const std::string& folder : std::vector<std::string>(absl::StrSplit(path, ':'))) {
    // An empty entry is the current folder (POSIX).
    const std::string file = absl::StrCat(folder, folder.empty() ? "./" : "/", command);
    const Candidate candidate = command.empty() ? Candidate::kMissing : Look(file);
    if (candidate == Candidate::kGood) return file;
    if (candidate == Candidate::kForbidden) forbidden = true;
  }
  return Refusal(command, forbidden);
}

}  // namespace stageload::client
