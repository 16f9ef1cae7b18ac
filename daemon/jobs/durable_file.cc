#include "daemon/jobs/durable_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace stageload::jobs {

absl::StatusOr<Descriptor> OpenFolder(const std::string& path) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("open the folder ", path));
  return folder;
}

absl::Status WriteAll(int descriptor, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t written = ::write(descriptor, contents.data(), contents.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return absl::ErrnoToStatus(errno, "write");
    }
    contents.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status Sync(int descriptor, const std::string& what) {
#ifdef F_FULLFSYNC
  if (::fcntl(descriptor, F_FULLFSYNC) == 0) return absl::OkStatus();  // not on every file system
#endif
  if (::fsync(descriptor) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("fsync ", what));
  return absl::OkStatus();
}

absl::Status WriteDurably(int folder, const std::string& name, std::string_view contents) {
  const std::string beside = name + ".new";
  Descriptor file(::openat(folder, beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("create ", beside));
  absl::Status status = WriteAll(file.get(), contents);
  if (status.ok()) status = Sync(file.get(), beside);
  if (status.ok() && ::renameat(folder, beside.c_str(), folder, name.c_str()) != 0) {
    status = absl::ErrnoToStatus(errno, absl::StrCat("rename ", beside, " to ", name));
  }
  if (!status.ok()) {
    ::unlinkat(folder, beside.c_str(), 0);
    return status;
  }
  return Sync(folder, "the job's folder");
}

absl::StatusOr<std::string> ReadWhole(int folder, const std::string& name) {
  Descriptor file(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("open ", name));
  std::string contents;
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer, sizeof(buffer));
    if (got == 0) return contents;
    if (got < 0) {
      if (errno == EINTR) continue;
      return absl::ErrnoToStatus(errno, absl::StrCat("read ", name));
    }
    contents.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace stageload::jobs
