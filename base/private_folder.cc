#include "base/private_folder.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <deque>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/disk_error.h"

namespace stageload {
namespace {

constexpr int kMaxLinks = 40;  // as path_resolution(7)
constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
constexpr mode_t kOthersAnything = S_IRWXG | S_IRWXO;

std::deque<std::string> Names(const std::string& path) {
  return absl::StrSplit(path, '/', absl::SkipEmpty());
}

std::string Join(const std::string& folder, const std::string& name) {
  return folder == "/" ? folder + name : absl::StrCat(folder, "/", name);
}

std::string Parent(const std::string& path) {
  const auto slash = path.find_last_of('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

std::string Mode(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

// "PATH what it is; the fix"
absl::Status Refuse(const std::string& path, const std::string& found, const std::string& fix) {
  return absl::FailedPreconditionError(absl::StrCat(path, " ", found, "; ", fix));
}

absl::Status NotAFolder(const std::string& path) {
  return Refuse(path, "is not a folder", "move it away or set another STAGELOAD_HOME");
}

absl::Status Foreign(const std::string& path, const char* what, uid_t owner) {
  return Refuse(path, absl::StrCat(what, " uid ", owner, " (we are uid ", ::geteuid(), ")"),
                "set STAGELOAD_HOME or STAGELOAD_SOCKET to a folder of your own");
}

bool RootOrUs(uid_t uid) { return uid == 0 || uid == ::geteuid(); }

absl::Status CheckAncestor(const std::string& path, const struct stat& found) {
  if (!S_ISDIR(found.st_mode)) return NotAFolder(path);
  if (!RootOrUs(found.st_uid)) return Foreign(path, "belongs to", found.st_uid);
  if ((found.st_mode & kOthersWrite) != 0 && (found.st_mode & S_ISVTX) == 0) {
    return Refuse(
        path,
        absl::StrCat("has mode ", Mode(found.st_mode), ", so others could replace what is in it"),
        "run: chmod go-w " + path);
  }
  return absl::OkStatus();
}

enum class Missing { kIsMade, kIsTold };

absl::StatusOr<struct stat> Find(const std::string& path, Missing missing) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0) return found;
  if (errno != ENOENT || missing == Missing::kIsTold) return absl::ErrnoToStatus(errno, "look at " + path);
  if (::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return DiskError(errno, "make folder " + path);
  }
  if (::lstat(path.c_str(), &found) == 0) return found;
  return absl::ErrnoToStatus(errno, "look at " + path);
}

absl::StatusOr<std::string> LinkTarget(const std::string& path, const struct stat& found) {
  if (!RootOrUs(found.st_uid)) return Foreign(path, "is a symbolic link of", found.st_uid);
  char target[PATH_MAX];
  const ssize_t size = ::readlink(path.c_str(), target, sizeof(target));
  if (size < 0) return absl::ErrnoToStatus(errno, "read link " + path);
  return std::string(target, static_cast<std::size_t>(size));
}

// Checks `path` and every folder above it; returns it with its links followed.
absl::StatusOr<std::string> Ancestors(const std::string& path, Missing missing) {
  std::deque<std::string> names = Names(path);
  std::string at = "/";
  int links = 0;
  while (true) {
    const auto found = Find(at, missing);
    if (!found.ok()) return found.status();
    if (S_ISLNK(found->st_mode)) {
      const auto target = LinkTarget(at, *found);
      if (!target.ok()) return target.status();
      if (++links > kMaxLinks) {
        return Refuse(path, absl::StrCat("leads through more than ", kMaxLinks, " symbolic links"),
                      "set another STAGELOAD_HOME");
      }
      const auto more = Names(*target);
      names.insert(names.begin(), more.begin(), more.end());
      at = target->starts_with('/') ? "/" : Parent(at);
    } else if (auto status = CheckAncestor(at, *found); !status.ok()) {
      return status;
    }
    while (!names.empty() && (names.front() == "." || names.front() == "..")) {
      if (names.front() == "..") at = Parent(at);
      names.pop_front();
    }
    if (names.empty()) return at;
    at = Join(at, names.front());
    names.pop_front();
  }
}

absl::Status CheckOwn(const std::string& path, const struct stat& found, Readable readable) {
  if (found.st_uid != ::geteuid()) return Foreign(path, "belongs to", found.st_uid);
  if (readable == Readable::kByAnyone && (found.st_mode & kOthersWrite) != 0) {
    return Refuse(path, absl::StrCat("has mode ", Mode(found.st_mode), ", others can write to it"),
                  "run: chmod go-w " + path);
  }
  if (readable == Readable::kByOwnerOnly && (found.st_mode & kOthersAnything) != 0) {
    return Refuse(path, absl::StrCat("has mode ", Mode(found.st_mode), ", it must be 0700"),
                  // A shared folder such as /tmp must stay as it is.
                  (found.st_mode & S_ISVTX) != 0 ? "choose a folder of your own below it"
                                                 : "run: chmod 700 " + path);
  }
  return absl::OkStatus();
}

absl::Status Check(const std::string& folder, Readable readable, Missing missing) {
  const std::deque<std::string> names = Names(folder);
  if (!folder.starts_with('/') || names.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", folder, "\" is not the absolute path of a folder of your own"));
  }
  const auto parent = Ancestors(Parent(folder), missing);
  if (!parent.ok()) return parent.status();
  const std::string path = Join(*parent, names.back());
  const auto before = Find(path, missing);
  if (!before.ok()) return before.status();
  if (S_ISLNK(before->st_mode)) {
    return Refuse(folder, "is a symbolic link",
                  "remove the link, or set STAGELOAD_HOME to the folder that it means");
  }
  // What counts is the folder that is opened, not the one that lstat saw.
  const int opened = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (opened < 0) {
    // For a link Linux says ENOTDIR with O_DIRECTORY, macOS ELOOP.
    if (errno == ENOTDIR || errno == ELOOP) return NotAFolder(folder);
    return DiskError(errno, "open folder " + folder);
  }
  struct stat found {};
  const int failed = ::fstat(opened, &found) == 0 ? 0 : errno;
  ::close(opened);
  if (failed != 0) return absl::ErrnoToStatus(failed, "look at " + folder);
  return CheckOwn(folder, found, readable);
}

}  // namespace

absl::Status MakePrivateFolder(const std::string& folder, Readable readable) {
  return Check(folder, readable, Missing::kIsMade);
}

absl::Status CheckPrivateFolder(const std::string& folder, Readable readable) {
  return Check(folder, readable, Missing::kIsTold);
}

}  // namespace stageload
