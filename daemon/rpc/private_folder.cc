#include "daemon/rpc/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stageload::rpc {
namespace {

absl::Status Refuse(const std::string& path, const std::string& found, const std::string& fix) {
  return absl::FailedPreconditionError(absl::StrCat(path, " ", found, "; ", fix));
}

std::string Octal(mode_t mode) { return absl::StrFormat("%04o", mode & 07777); }

// Nobody but root and this user may be able to put another folder in its place.
absl::Status CheckAncestor(const std::string& path) {
  struct stat folder = {};
  if (stat(path.c_str(), &folder) != 0) {
    return Refuse(path, absl::StrCat("cannot be looked at: ", std::strerror(errno)),
                  "choose another STAGELOAD_HOME");
  }
  if (folder.st_uid != 0 && folder.st_uid != geteuid()) {
    return Refuse(path, absl::StrCat("belongs to user ", folder.st_uid),
                  "choose a STAGELOAD_HOME below a folder of your own");
  }
  const bool others_write = (folder.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (others_write && (folder.st_mode & S_ISVTX) == 0) {
    return Refuse(path, absl::StrCat("can be written by others (mode ", Octal(folder.st_mode), ")"),
                  absl::StrCat("run: chmod go-w ", path));
  }
  return absl::OkStatus();
}

absl::Status CheckAncestors(const std::string& path) {
  const std::filesystem::path whole(path);
  for (std::filesystem::path at = whole.parent_path();; at = at.parent_path()) {
    absl::Status status = CheckAncestor(at.string());
    if (!status.ok()) return status;
    if (at == at.parent_path()) return absl::OkStatus();
  }
}

absl::Status MakeFolders(const std::string& path) {
  struct stat found = {};
  if (lstat(path.c_str(), &found) == 0) return absl::OkStatus();  // looked at once it is open
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (parent != path && !parent.empty()) {
    absl::Status status = MakeFolders(parent.string());
    if (!status.ok()) return status;
  }
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return Refuse(path, absl::StrCat("cannot be made: ", std::strerror(errno)),
                "choose another STAGELOAD_HOME");
}

absl::Status CheckOpened(const std::string& path, int fd) {
  struct stat folder = {};
  if (fstat(fd, &folder) != 0) {
    return Refuse(path, absl::StrCat("cannot be looked at: ", std::strerror(errno)),
                  "choose another STAGELOAD_HOME");
  }
  if (folder.st_uid != geteuid()) {
    return Refuse(path,
                  absl::StrCat("belongs to user ", folder.st_uid, ", not to you (", geteuid(), ")"),
                  "choose a STAGELOAD_HOME of your own");
  }
  if ((folder.st_mode & 077) != 0) {
    return Refuse(path, absl::StrCat("is open to others (mode ", Octal(folder.st_mode), ")"),
                  absl::StrCat("run: chmod 700 ", path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status EnsurePrivateFolder(const std::string& path) {
  absl::Status status = MakeFolders(path);
  if (status.ok()) status = CheckAncestors(path);
  if (!status.ok()) return status;
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    // Linux says ENOTDIR for a symlink with O_DIRECTORY, macOS ELOOP.
    struct stat found = {};
    if (lstat(path.c_str(), &found) == 0 && S_ISLNK(found.st_mode)) {
      return Refuse(path, "is a symbolic link", "name the folder that it points to");
    }
    return Refuse(path, absl::StrCat("cannot be opened as a folder: ", std::strerror(errno)),
                  "choose another STAGELOAD_HOME");
  }
  status = CheckOpened(path, fd);
  close(fd);
  return status;
}

}  // namespace stageload::rpc
