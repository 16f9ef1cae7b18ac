#include "daemon/jobs/job_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/jobs/durable_file.h"
#include "daemon/jobs/result_file.h"
#include "daemon/jobs/self.h"

namespace stageload::jobs {
namespace {

// ReadLock() holds a free lock for microseconds; this long is only for a machine that thrashes.
constexpr int kTries = 500;
constexpr int kTryMs = 10;

std::string FirstBytes(int file) {
  char buffer[4096];  // of all lines, each of at most 70 bytes
  const ssize_t got = ::pread(file, buffer, sizeof(buffer), 0);
  return std::string(buffer, got > 0 ? static_cast<std::size_t>(got) : 0);
}

std::string LineOf(const core::ProcessIdentity& identity) {
  return absl::StrCat(identity.pid, " ", identity.start, " ", BootId(), "\n");
}

// "pid start boot"
std::optional<core::ProcessIdentity> Parse(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  core::ProcessIdentity identity;
  if (words.size() < 2 || !absl::SimpleAtoi(words[0], &identity.pid) ||
      !absl::SimpleAtoi(words[1], &identity.start)) {
    return std::nullopt;
  }
  return identity;
}

// Nobody else's that has the pid since then: nullopt for one of another boot.
std::optional<core::ProcessIdentity> ParseOfThisBoot(const std::string& line) {
  const std::size_t boot = line.rfind(' ');
  return boot != line.npos && line.substr(boot + 1) == BootId() ? Parse(line) : std::nullopt;
}

absl::Status Taken(const std::string& by) {
  return absl::AlreadyExistsError(absl::StrCat("a shim has taken this job's lock before: \"",
                                               by.substr(0, by.find_last_not_of('\n') + 1), "\""));
}

absl::Status LockForUs(int file) {
  for (int tries = 0; ::flock(file, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK && errno != EINTR) return absl::ErrnoToStatus(errno, "lock job.lock");
    if (const std::string by = FirstBytes(file); !by.empty()) return Taken(by);
    if (tries >= kTries) return absl::AlreadyExistsError("another process holds job.lock");
    ::poll(nullptr, 0, kTryMs);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobLock> JobLock::Take(int folder) {
  Descriptor file(::openat(folder, kLockFile, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.ok()) return absl::ErrnoToStatus(errno, "create job.lock");
  if (absl::Status status = LockForUs(file.get()); !status.ok()) return status;
  if (const std::string by = FirstBytes(file.get()); !by.empty()) return Taken(by);

  // Under the lock, and before anything says that a shim was here.
  if (absl::Status status = ReserveResult(folder); !status.ok()) return status;
  const absl::StatusOr<core::ProcessIdentity> self = ReadSelf();
  if (!self.ok()) return self.status();
  absl::Status status = WriteAll(file.get(), LineOf(*self));
  if (status.ok()) status = Sync(file.get(), kLockFile);
  if (status.ok()) status = Sync(folder, "the job's folder");
  JobLock lock(std::move(file));
  if (!status.ok()) {
    lock.Withdraw().IgnoreError();  // it is `status` that tells what is wrong
    return status;
  }
  return lock;
}

absl::Status JobLock::Withdraw() {
  if (::ftruncate(file_.get(), 0) != 0) return absl::ErrnoToStatus(errno, "truncate job.lock");
  return Sync(file_.get(), kLockFile);
}

absl::Status JobLock::Note(const core::ProcessIdentity& process) {
  return WriteAll(file_.get(), LineOf(process));
}

absl::StatusOr<LockState> ReadLock(int folder) {
  Descriptor file(::openat(folder, kLockFile, O_RDONLY | O_CLOEXEC));
  LockState state;
  if (!file.ok()) {
    if (errno == ENOENT) return state;
    return absl::ErrnoToStatus(errno, "open job.lock");
  }
  // Whether it is held is asked first: what a holder wrote before it let go is read then.
  if (::flock(file.get(), LOCK_SH | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return absl::ErrnoToStatus(errno, "look at job.lock");
    state.held = true;
  }
  const std::string text = FirstBytes(file.get());
  state.written = !text.empty();
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  state.shim = Parse(lines[0]);
  state.earlier_boot = state.shim && !ParseOfThisBoot(lines[0]);
  // The last is empty, or one that was not written to its end and may name another process.
  if (lines.size() > 2) state.command = ParseOfThisBoot(lines[1]);
  for (std::size_t line = 2; line + 1 < lines.size(); ++line) {
    if (const auto left = ParseOfThisBoot(lines[line])) state.left.push_back(*left);
  }
  return state;
}

}  // namespace stageload::jobs
