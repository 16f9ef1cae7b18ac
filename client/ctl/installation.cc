#include "client/ctl/installation.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/disk_error.h"
#include "base/text.h"
#include "client/ctl/print.h"
#include "client/ctl/unique_fd.h"
#include "client/lib/command_path.h"

namespace stageload::ctl {
namespace {

// Above what one takes that stops a daemon and starts the next.
constexpr absl::Duration kLockWithin = absl::Minutes(2);

// Empty when there is none, or none that can be read.
std::string Contents(const std::string& path) {
  // O_NONBLOCK: a FIFO in its place must not make us wait.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (!fd.valid() || ::fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode)) return "";
  std::string contents;
  char part[4096];
  for (ssize_t got; (got = ::read(fd.get(), part, sizeof part)) != 0;) {
    if (got < 0 && errno != EINTR) return "";
    if (got > 0) contents.append(part, static_cast<std::size_t>(got));
  }
  return contents;
}

bool Exists(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0;
}

bool OthersMayNotWrite(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

absl::Status CheckFile(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT || errno == ENOTDIR ? absl::OkStatus()
                                               : absl::ErrnoToStatus(errno, "look at " + path);
  }
  if (!S_ISREG(found.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " is ", S_ISLNK(found.st_mode) ? "a symbolic link" : "no plain file",
        " and not what `stageloadctl daemon install` writes; remove it and try again"));
  }
  if (found.st_uid == ::geteuid()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      path, " belongs to uid ", found.st_uid, " and we are uid ", ::geteuid(),
      ", as after a `sudo stageloadctl daemon install`; run: sudo rm ", path, "; then try again"));
}

absl::Status CheckNotSudo() {
  const auto caller = ProcessEnvironment()("SUDO_UID");
  if (::geteuid() != 0 || !caller || *caller == "0") return absl::OkStatus();
  return absl::FailedPreconditionError(
      "stageloadd is a service of one user; run this without sudo, as the user whose jobs it is to "
      "run");
}

// Of the folder of the files, which is not ours to choose, unlike the daemon's home.
absl::Status PlaceError(int error, const std::string& what, const std::string& folder) {
  const absl::Status status = absl::ErrnoToStatus(error, what);
  const char* advice = nullptr;
  if (error == EROFS) advice = " is on a disk that is mounted read-only: mount it writable";
  if (error == EACCES || error == EPERM) advice = " must be yours to write: chown, chmod u+rwx";
  if (error == ENOTDIR || error == EEXIST) advice = " must be a folder: move away what is there";
  if (advice == nullptr) return DiskError(error, what);
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; ", folder, advice,
                                   ". Until then commands start a daemon by themselves"));
}

absl::Status HomeError(int error, const std::string& what, const std::string&) {
  return DiskError(error, what);
}

using ErrorAt = absl::Status (*)(int error, const std::string& what, const std::string& folder);

// 0, or an errno.
int MakeOne(const std::string& folder, mode_t mode) {
  if (::mkdir(folder.c_str(), mode) == 0) return 0;
  const int error = errno;
  struct stat found {};
  return ::stat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) ? 0 : error;
}

absl::Status MakeFolder(const std::string& folder, mode_t mode, ErrorAt error_at) {
  const std::string parent = std::filesystem::path(folder).parent_path().string();
  int error = MakeOne(folder, mode);
  if (error == ENOENT) {
    if (auto status = MakeFolder(parent, mode, error_at); !status.ok()) return status;
    error = MakeOne(folder, mode);
  }
  if (error == 0) return absl::OkStatus();
  return error_at(error, "make folder " + folder, error == EEXIST ? folder : parent);
}

// 0644: launchd takes none that others can write (launchd.plist(5)).
absl::Status WriteWhole(const std::string& path, const std::string& text) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const std::string temporary = absl::StrCat(path, ".new", ::getpid());
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                     S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH));
  if (!fd.valid()) return PlaceError(errno, "make " + temporary, folder);
  const bool written = ::fchmod(fd.get(), 0644) == 0 && WriteAll(fd.get(), text) &&
                       ::fsync(fd.get()) == 0 && ::rename(temporary.c_str(), path.c_str()) == 0;
  if (written) return absl::OkStatus();
  const int failed = errno;
  ::unlink(temporary.c_str());
  return PlaceError(failed, "write " + path, folder);
}

}  // namespace

absl::StatusOr<Installation> Installation::Of(Platform platform, const ConnectOptions& connect,
                                              const std::string& daemon) {
  const auto paths = PathsFor(connect);
  if (!connect.socket.empty() && !paths.ok()) return paths.status();
  const Environment own = ProcessEnvironment();
  const Environment environment = [&](const std::string& name) {
    const bool given = name == "STAGELOAD_SOCKET" && !connect.socket.empty();
    return given ? std::optional(paths->socket) : own(name);
  };
  auto terms = TermsFor(platform, environment, daemon);
  if (!terms.ok()) return terms.status();
  if (platform == Platform::kLinux) terms->unit_folder = SystemdUnitFolder().value_or("");
  auto files = ServiceFiles(*terms, environment);
  if (!files.ok()) return files.status();
  Installation installation;
  installation.terms_ = *std::move(terms);
  installation.files_ = *std::move(files);
  installation.home_ = own("HOME").value_or("");
  installation.supervisor_ =
      platform == Platform::kMacos
          ? NewLaunchd(installation.files_.front().path, ServiceErrors(installation.terms_))
          : NewSystemd();
  return installation;
}

bool Installation::Exists() const {
  return std::all_of(files_.begin(), files_.end(),
                     [](const ServiceFile& file) { return ctl::Exists(file.path); });
}

std::vector<std::string> Installation::Missing() const {
  std::vector<std::string> missing;
  for (const ServiceFile& file : files_) {
    if (!ctl::Exists(file.path)) missing.push_back(file.path);
  }
  return missing;
}

bool Installation::IsOf(const Supervised& loaded) const {
  return std::any_of(files_.begin(), files_.end(), [&](const ServiceFile& file) {
    std::error_code error;  // the way to it may have links
    return file.path == loaded.file || std::filesystem::equivalent(file.path, loaded.file, error);
  });
}

bool Installation::ServesHere() const {
  return Exists() && std::all_of(files_.begin(), files_.end(), [](const ServiceFile& file) {
           return absl::StrContains(Contents(file.path), file.socket_line);
         });
}

absl::StatusOr<UniqueFd> Installation::Lock(Folder missing) const {
  const std::string folder = std::filesystem::path(files_.front().path).parent_path().string();
  if (missing == Folder::kMake) {
    if (auto status = MakeFolder(folder, 0755, PlaceError); !status.ok()) return status;
  }
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() && missing == Folder::kLeave) return fd;
  if (!fd.valid()) return PlaceError(errno, "open " + folder, folder);
  const absl::Time begin = absl::Now();
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;  // not on this disk, as on some NFS
    if (absl::Now() - begin > kLockWithin) {
      return absl::DeadlineExceededError(
          absl::StrCat("another `stageloadctl daemon install` or `uninstall` is at work in ",
                       folder, " for ", FormatSpan(kLockWithin), "; see what it does"));
    }
    const timespec pause{0, 10'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return fd;
}

std::optional<std::string> Installation::Program() const {
  std::string file = files_.front().path;
  if (!ctl::Exists(file)) {
    const auto loaded = supervisor_->Look();
    if (!loaded.ok() || loaded->file.empty()) return std::nullopt;
    file = loaded->file;
  }
  return ProgramIn(terms_.platform, Contents(file));
}

bool Installation::ProgramGone() const {
  const auto program = Program();
  return program && !client::FindCommand(*program, "").ok();
}

absl::Time Installation::Written() const {
  absl::Time written = absl::InfinitePast();
  for (const ServiceFile& file : files_) {
    struct stat found {};
    if (::lstat(file.path.c_str(), &found) != 0) continue;
#ifdef __APPLE__
    written = std::max(written, absl::TimeFromTimespec(found.st_mtimespec));
#else
    written = std::max(written, absl::TimeFromTimespec(found.st_mtim));
#endif
  }
  return written;
}

bool Installation::IsCurrent() const {
  return std::all_of(files_.begin(), files_.end(), [](const ServiceFile& file) {
    return OthersMayNotWrite(file.path) && Contents(file.path) == file.text;
  });
}

std::string Installation::BrewedFile() const {
  const std::string brewed = home_ + "/Library/LaunchAgents/homebrew.mxcl.stageload.plist";
  return terms_.platform == Platform::kMacos && ctl::Exists(brewed) ? brewed : "";
}

absl::Status Installation::CheckOurs() const {
  if (auto status = CheckNotSudo(); !status.ok()) return status;
  for (const ServiceFile& file : files_) {
    if (auto status = CheckFile(file.path); !status.ok()) return status;
  }
  if (const std::string brewed = BrewedFile(); !brewed.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("Homebrew keeps a stageloadd running already (", brewed,
                     "); run: brew services stop stageload; then try again"));
  }
  return absl::OkStatus();
}

absl::Status Installation::Write() const {
  for (const std::string& folder : ServiceFolders(terms_)) {
    if (auto status = MakeFolder(folder, 0700, HomeError); !status.ok()) return status;
  }
  for (const ServiceFile& file : files_) {
    const std::string folder = std::filesystem::path(file.path).parent_path().string();
    if (auto status = MakeFolder(folder, 0755, PlaceError); !status.ok()) return status;
    if (auto status = WriteWhole(file.path, file.text); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Installation::Remove() const {
  for (const ServiceFile& file : files_) {
    if (::unlink(file.path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) {
      return PlaceError(errno, "remove " + file.path,
                        std::filesystem::path(file.path).parent_path().string());
    }
  }
  for (const std::string& link : StaleLinks()) {
    if (::unlink(link.c_str()) == 0 || errno == ENOENT) continue;
    return PlaceError(errno, "remove " + link, std::filesystem::path(link).parent_path().string());
  }
  return absl::OkStatus();
}

std::vector<std::string> Installation::StaleLinks() const {
  std::vector<std::string> links;
  for (const ServiceFile& file : files_) {
    const std::filesystem::path path(file.path);
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path.parent_path(), error)) {
      const std::filesystem::path link = entry.path() / path.filename();
      if (entry.path().extension() != ".wants") continue;
      if (std::filesystem::is_symlink(link, error) && !std::filesystem::exists(link, error)) {
        links.push_back(link.string());
      }
    }
  }
  return links;
}

}  // namespace stageload::ctl
