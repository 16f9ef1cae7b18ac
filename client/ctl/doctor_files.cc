#include "client/ctl/doctor_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/database_file.h"
#include "client/ctl/tool.h"
#include "client/ctl/unique_fd.h"

namespace stageload::ctl {
namespace {

// "PATH what it is; the fix" as base/private_folder.cc has it.
std::pair<std::string, std::string> FoundAndFix(const std::string& message) {
  const std::size_t at = message.rfind("; ");
  if (at == std::string::npos) return {message, "set another STAGELOAD_HOME"};
  return {message.substr(0, at), message.substr(at + 2)};
}

// What root has made in a folder of ours, and how to have it back: what one command under sudo
// leaves. Nothing of any other path, which may be root's by right.
std::optional<std::pair<std::string, std::string>> LeftByRoot(const std::string& path,
                                                              mode_t kind) {
  struct stat found {};
  struct stat above {};
  const std::string parent = path.substr(0, path.rfind('/'));
  if (::lstat(path.c_str(), &found) != 0 || ::lstat(parent.c_str(), &above) != 0) {
    return std::nullopt;
  }
  if ((found.st_mode & S_IFMT) != kind) return std::nullopt;
  if (found.st_uid != 0 || ::geteuid() == 0 || above.st_uid != ::geteuid()) return std::nullopt;
  return std::make_pair(
      absl::StrCat(path, " belongs to root and you are uid ", ::geteuid(),
                   ", as after a `sudo stageloadctl`: no daemon of yours starts"),
      absl::StrCat("have it back with: ",
                   ShellText({"sudo", "chown", "-R", absl::StrCat(::geteuid()), path})));
}

// OK also when it is not there: the daemon makes it.
std::optional<Finding> CheckWritable(const std::string& path, bool folder, bool follow = false) {
  constexpr char kCheck[] = "files";
  struct stat found {};
  const int looked = follow ? ::stat(path.c_str(), &found) : ::lstat(path.c_str(), &found);
  if (looked != 0) {
    // Not ENOENT only: a folder above may be what it should not be, which is a line of its own.
    return std::nullopt;
  }
  if (folder ? !S_ISDIR(found.st_mode) : !S_ISREG(found.st_mode)) {
    return Fail(kCheck, absl::StrCat(path, " is no ", folder ? "folder" : "plain file"),
                "move it away, or set another STAGELOAD_HOME");
  }
  const int access = R_OK | W_OK | (folder ? X_OK : 0);
  if (::faccessat(AT_FDCWD, path.c_str(), access, AT_EACCESS) == 0) return std::nullopt;
  const int error = errno;
  if (const auto left = LeftByRoot(path, found.st_mode & S_IFMT)) {
    return Fail(kCheck, left->first, left->second);
  }
  return Fail(kCheck, absl::StrCat("the daemon cannot write to ", path, ": ", std::strerror(error)),
              found.st_uid == ::geteuid()
                  ? absl::StrCat("run: ", ShellText({"chmod", "u+rwX", path}))
                  : std::string("set another STAGELOAD_HOME"));
}

// The daemon follows one to a plain file.
std::optional<Finding> CheckStoreLink(const std::string& path) {
  constexpr char kCheck[] = "files";
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISLNK(found.st_mode)) return std::nullopt;
  const std::unique_ptr<char, decltype(&std::free)> place(::realpath(path.c_str(), nullptr),
                                                          &std::free);
  if (place == nullptr) {
    return Fail(
        kCheck, absl::StrCat(path, " is a link that leads to no file: ", std::strerror(errno)),
        "bring that file back, or remove the link to start anew; no daemon starts until then");
  }
  if (::stat((path + "-wal").c_str(), &found) != 0 || found.st_size == 0) return std::nullopt;
  return Fail(kCheck,
              absl::StrCat(path, " is a link, and what was written last is beside it in ", path,
                           "-wal, where it is not read"),
              absl::StrCat("no job is lost so: `stageloadctl daemon stop`, and if ", path,
                           "-wal is there still, move the file back over the link: ",
                           ShellText({"mv", place.get(), path})));
}

}  // namespace

Finding CheckFiles(const Paths& paths) {
  if (auto finding = CheckStoreLink(paths.store)) return *std::move(finding);
  for (const std::string& path : {paths.lock, paths.store, paths.store + "-wal",
                                  paths.store + "-shm", paths.logs + "/stageloadd.log"}) {
    if (auto finding = CheckWritable(path, false, path == paths.store)) return *std::move(finding);
  }
  if (auto finding = CheckWritable(paths.jobs, true)) return *std::move(finding);
  return Well("files", "lock, store, log and jobs are the daemon's to write, where they are there");
}

std::optional<Finding> CheckStoreFile(const std::string& path) {
  constexpr char kCheck[] = "store";
  constexpr char kMends[] =
      "the daemon mends what it can: one that runs within seconds, else the next at its start; "
      "its log says what is lost";
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (!fd.valid() || ::fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  if (found.st_size == 0) {
    return Fail(kCheck, absl::StrCat(path, " is empty, as when it was cut"), kMends);
  }
  std::string header(kDatabaseHeaderBytes, '\0');
  const ssize_t got = ::pread(fd.get(), header.data(), header.size(), 0);
  header.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  const std::optional<std::int64_t> bytes = StatedLength(header);
  if (!bytes) {
    return Fail(kCheck, absl::StrCat(path, " is no database: it was written over"), kMends);
  }
  if (found.st_size >= *bytes) return std::nullopt;
  // SQLite writes the first page first when it moves the log into the file: where a full disk or a
  // crash ends that, the log has the rest.
  struct stat log {};
  if (::stat((path + "-wal").c_str(), &log) == 0 && log.st_size > 0) return std::nullopt;
  return Fail(kCheck,
              absl::StrCat(path, " has ", found.st_size, " of ", *bytes, " bytes: it was cut"),
              kMends);
}

Finding CheckFolder(const std::string& check, const std::string& path, const absl::Status& status) {
  if (status.ok())
    return Well(check, absl::StrCat(path, " is yours alone, and nobody else can replace it"));
  if (absl::IsNotFound(status)) {
    return Well(check, absl::StrCat(path, " is not there yet; the daemon makes it"));
  }
  if (const auto left = LeftByRoot(path, S_IFDIR)) return Fail(check, left->first, left->second);
  const auto [found, fix] = FoundAndFix(std::string(status.message()));
  return Fail(check, found, fix);
}

std::optional<Finding> CheckSocketFile(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return std::nullopt;
  if (!S_ISSOCK(found.st_mode)) {
    return Fail("socket", absl::StrCat(path, " is no socket"), "move it away: mv " + path + " ...");
  }
  if (found.st_uid != ::geteuid()) {
    return Fail(
        "socket",
        absl::StrCat(path, " belongs to uid ", found.st_uid, " and you are uid ", ::geteuid()),
        "remove it, or set another STAGELOAD_SOCKET");
  }
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Warn("socket",
                absl::StrCat(path, " may be used by others, were its folder open to them"),
                "chmod 600 " + path);
  }
  return Well("socket", absl::StrCat(path, " is a socket for you alone"));
}

}  // namespace stageload::ctl
