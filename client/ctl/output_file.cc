#include "client/ctl/output_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/disk_error.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

absl::Status CannotWrite(int error, const std::string& path) {
  return DiskError(error, absl::StrCat("write ", path));
}

// As open(2) would have made it.
mode_t UsualMode() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

// What the path names in the end, also where that is no file yet. Of links in a circle nothing can
// be made anyway.
std::string Target(const std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::filesystem::path target = path;
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code error;
    const std::filesystem::path next = std::filesystem::read_symlink(target, error);
    if (error) break;
    target = target.parent_path() / next;  // or `next`, if that is absolute
  }
  return target.string();
}

}  // namespace

HeldSignals::HeldSignals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&held, number);
  (void)pthread_sigmask(SIG_BLOCK, &held, &before_);
}

HeldSignals::~HeldSignals() { (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("open ", path));
    return OutputFile(path, path, "", fd, nullptr);
  }
  const std::string target = Target(path);
  std::string temporary = absl::StrCat(target, ".XXXXXX");
  auto held = std::make_unique<HeldSignals>();
  const int fd = mkstemp(temporary.data());
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("make ", path));
  (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  (void)fchmod(fd, UsualMode());
  return OutputFile(path, target, std::move(temporary), fd, std::move(held));
}

OutputFile::~OutputFile() {
  if (fd_.valid() && !temporary_.empty()) (void)unlink(temporary_.c_str());
}

absl::Status OutputFile::Write(const std::string& bytes) {
  if (WriteAll(fd_.get(), bytes)) return absl::OkStatus();
  return CannotWrite(errno, path_);
}

absl::Status OutputFile::Commit() {
  const std::unique_ptr<HeldSignals> held = std::move(held_);
  // NFS tells only now that a disk is full (close(2)).
  if (close(fd_.Release()) != 0) {
    const int error = errno;
    if (!temporary_.empty()) (void)unlink(temporary_.c_str());
    return CannotWrite(error, path_);
  }
  if (!temporary_.empty() && std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const int error = errno;
    (void)unlink(temporary_.c_str());
    return absl::ErrnoToStatus(error, absl::StrCat("name it ", path_));
  }
  return absl::OkStatus();
}

}  // namespace stageload::ctl
