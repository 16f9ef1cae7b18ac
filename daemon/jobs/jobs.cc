#include "daemon/jobs/jobs.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/awake_clock.h"
#include "daemon/jobs/descriptor.h"
#include "daemon/jobs/durable_file.h"
#include "daemon/jobs/job_lock.h"
#include "daemon/jobs/result_file.h"
#include "daemon/jobs/spawn.h"
#include "daemon/jobs/spec_file.h"
#include "daemon/jobs/start_channel.h"

namespace stageload::jobs {
namespace {

// What a full disk does not let happen is told apart: it can be tried again.
absl::Status Unavailable(const std::string& what, const absl::Status& why) {
  const std::string text = absl::StrCat(what, ": ", why.message());
  if (absl::IsResourceExhausted(why)) return absl::ResourceExhaustedError(text);
  return absl::UnavailableError(text);
}

// Makes the folder where it is missing, and its name in `parent` durable.
absl::Status MakeFolder(const std::string& path, const std::string& parent) {
  if (::mkdir(path.c_str(), 0700) != 0) {
    if (errno == EEXIST) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, absl::StrCat("make the folder ", path));
  }
  const absl::StatusOr<Descriptor> above = OpenFolder(parent);
  absl::Status status = above.status();
  if (status.ok()) status = Sync(above->get(), parent);
  // Else the next try would take a name for durable that is not.
  if (!status.ok()) ::rmdir(path.c_str());
  return status;
}

// The shim's line, without its end; what there is of it when the shim ends. DeadlineExceeded.
absl::StatusOr<std::string> ReadLine(int channel, absl::Duration timeout) {
  const absl::Duration deadline = AwakeNow() + timeout;
  std::string line;
  for (;;) {
    const absl::Duration left = std::max(deadline - AwakeNow(), absl::ZeroDuration());
    pollfd ready = {.fd = channel, .events = POLLIN, .revents = 0};
    const int count = ::poll(
        &ready, 1, static_cast<int>(absl::ToInt64Milliseconds(left + absl::Milliseconds(1))));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, "wait for the shim");
    if (count == 0) {
      return absl::DeadlineExceededError(
          absl::StrCat("it did not take the job's lock in ", absl::FormatDuration(timeout)));
    }
    char buffer[512];
    const ssize_t got = ::read(channel, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return line;
    line.append(buffer, static_cast<std::size_t>(got));
    if (line.back() == '\n') {
      line.pop_back();
      return line;
    }
  }
}

// OK once the shim has the lock and was told to go.
absl::Status Agree(int channel, absl::Duration timeout) {
  const absl::StatusOr<std::string> line = ReadLine(channel, timeout);
  if (!line.ok()) return line.status();
  if (*line == kLocked) return WriteAll(channel, kGo);
  const auto starts_with = [&line](std::string_view prefix) { return line->rfind(prefix, 0) == 0; };
  if (starts_with(kTaken)) return absl::AlreadyExistsError(line->substr(sizeof(kTaken) - 1));
  if (starts_with(kNoRoom)) return absl::ResourceExhaustedError(line->substr(sizeof(kNoRoom) - 1));
  if (starts_with(kFailed)) return absl::UnavailableError(line->substr(sizeof(kFailed) - 1));
  return absl::UnavailableError("it ended before it took the job's lock");
}

void Reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

Jobs::Jobs(std::string folder, std::string shim, absl::Duration start_timeout)
    : folder_(std::move(folder)), shim_(std::move(shim)), start_timeout_(start_timeout) {}

std::string Jobs::FolderOf(core::JobId id) const {
  return absl::StrCat(folder_, "/", core::Value(id));
}

absl::Status Jobs::Prepare(core::JobId id, const core::JobSpec& spec) {
  const std::string path = FolderOf(id);
  const std::size_t slash = folder_.find_last_of('/');
  absl::Status status =
      MakeFolder(folder_, slash == std::string::npos ? "." : folder_.substr(0, slash + 1));
  if (status.ok()) status = MakeFolder(path, folder_);
  if (!status.ok()) return status;
  const absl::StatusOr<Descriptor> folder = OpenFolder(path);
  if (!folder.ok()) return folder.status();
  return WriteDurably(folder->get(), kSpecFile, EncodeSpec(spec));
}

absl::StatusOr<pid_t> Jobs::SpawnShim(core::JobId id, int channel) {
  const auto spawn = [&](pid_t* pid) {
    return Spawn({.path = shim_,
                  .argv = {shim_, FolderOf(id)},
                  .environment = {},
                  .descriptors = {{channel, kStartChannel}},
                  .place = SpawnRequest::Place::kOwnSession},
                 pid);
  };
  const auto is_gone = [](int error) { return error == ENOENT || error == ENOTDIR; };
  pid_t pid = 0;
  int error = spawn(&pid);
  if (is_gone(error) && find_shim_) {
    if (std::string found = find_shim_(); !found.empty()) {
      shim_ = std::move(found);
      error = spawn(&pid);
    }
  }
  if (error == 0) return pid;
  if (!is_gone(error)) return absl::ErrnoToStatus(error, absl::StrCat("run ", shim_));
  return absl::FailedPreconditionError(
      absl::StrCat("the shim ", shim_,
                   " is gone since stageload was upgraded or removed: run `stageloadctl daemon "
                   "restart` (jobs run on), or install stageload anew"));
}

absl::StatusOr<pid_t> Jobs::Start(core::JobId id, const core::JobSpec& spec) {
  const std::string what = absl::StrCat("start job ", core::Value(id));
  ReapAbandoned();
  absl::StatusOr<Found> found = Inspect(id);
  if (!found.ok()) return Unavailable(what, found.status());
  if (found->state == Found::State::kLost && found->earlier_boot) {
    // Queued again after the machine went down: nothing of that run is alive.
    if (absl::Status status = ForgetRun(id); !status.ok()) return Unavailable(what, status);
    found->state = Found::State::kNeverStarted;
  }
  if (found->state != Found::State::kNeverStarted) {
    return absl::AlreadyExistsError(
        absl::StrCat(what, ": it was started before, see ", FolderOf(id)));
  }
  if (absl::Status status = Prepare(id, spec); !status.ok()) return Unavailable(what, status);

  absl::StatusOr<DescriptorPair> channel = MakeSocketPair();
  if (!channel.ok()) return Unavailable(what, channel.status());
  absl::StatusOr<Descriptor> theirs = AboveStandard(std::move(channel->second));
  if (!theirs.ok()) return Unavailable(what, theirs.status());
  const absl::StatusOr<pid_t> spawned = SpawnShim(id, theirs->get());
  if (absl::IsFailedPrecondition(spawned.status())) {
    return absl::FailedPreconditionError(absl::StrCat(what, ": ", spawned.status().message()));
  }
  if (!spawned.ok()) return Unavailable(what, spawned.status());
  const pid_t pid = *spawned;
  theirs->Close();

  const absl::Status agreed = Agree(channel->first.get(), start_timeout_);
  if (agreed.ok()) return pid;
  channel->first.Close();  // it gets no "go" any more
  if (absl::IsDeadlineExceeded(agreed)) {
    abandoned_.push_back(pid);
  } else {
    Reap(pid);
  }
  if (absl::IsAlreadyExists(agreed)) {
    return absl::AlreadyExistsError(absl::StrCat(what, ": ", agreed.message()));
  }
  return Unavailable(what,
                     absl::Status(agreed.code(), absl::StrCat(shim_, ": ", agreed.message())));
}

// A shim that hangs in the kernel cannot be waited for; it ends by itself once it gets out.
void Jobs::ReapAbandoned() {
  std::erase_if(abandoned_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
}

// The lock goes last: until then the folder says that there was a run.
absl::Status Jobs::ForgetRun(core::JobId id) const {
  const std::string path = FolderOf(id);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.path().filename() != kLockFile) std::filesystem::remove(entry.path(), error);
    if (error) break;
  }
  if (!error) std::filesystem::remove(path + "/" + kLockFile, error);
  if (error) return absl::UnavailableError(absl::StrCat("empty ", path, ": ", error.message()));
  const absl::StatusOr<Descriptor> folder = OpenFolder(path);
  return folder.ok() ? Sync(folder->get(), path) : folder.status();
}

absl::StatusOr<Found> Jobs::Inspect(core::JobId id) const {
  const absl::StatusOr<Descriptor> folder = OpenFolder(FolderOf(id));
  if (absl::IsNotFound(folder.status())) return Found{};
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<LockState> lock = ReadLock(folder->get());
  if (!lock.ok()) return lock.status();
  Found found;
  found.shim = lock->shim;
  found.earlier_boot = lock->earlier_boot;
  found.command = lock->command;
  found.left = lock->left;
  // Looked for after the lock: a shim writes its result before it lets go, so a free lock and no
  // result after it means that there will never be one.
  const absl::StatusOr<std::string> text = ReadWhole(folder->get(), kResultFile);
  if (text.ok()) {
    const absl::StatusOr<Result> result = DecodeResult(*text);
    if (!result.ok()) {
      return absl::DataLossError(
          absl::StrCat(FolderOf(id), "/", kResultFile, ": ", result.status().message()));
    }
    found.state = Found::State::kEnded;
    found.result = *result;
  } else if (!absl::IsNotFound(text.status())) {
    return text.status();
  } else if (lock->held) {
    found.state = Found::State::kRunning;
  } else if (lock->written) {
    found.state = Found::State::kLost;
  }
  return found;
}

std::vector<core::JobId> Jobs::Folders() const {
  std::vector<core::JobId> ids;
  std::error_code ignored;  // no folder, no jobs
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored)) {
    std::int64_t id = 0;
    if (absl::SimpleAtoi(entry.path().filename().string(), &id)) ids.push_back(core::JobId{id});
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

absl::StatusOr<core::JobSpec> Jobs::SpecOf(core::JobId id) const {
  const absl::StatusOr<Descriptor> folder = OpenFolder(FolderOf(id));
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<std::string> bytes = ReadWhole(folder->get(), kSpecFile);
  if (!bytes.ok()) return bytes.status();
  return DecodeSpec(*bytes);
}

absl::Status Jobs::Remove(core::JobId id) const {
  const std::string folder = FolderOf(id);
  const absl::StatusOr<Found> found = Inspect(id);
  if (found.ok() && found->state == Found::State::kRunning) {
    return absl::FailedPreconditionError(absl::StrCat("remove ", folder, ": its shim still runs"));
  }
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("remove ", folder, ": ", error.message()));
}

absl::Status Jobs::DropSpec(core::JobId id) const {
  const std::string path = absl::StrCat(FolderOf(id), "/", kSpecFile);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return absl::ErrnoToStatus(errno, absl::StrCat("remove ", path));
  }
  return absl::OkStatus();
}

}  // namespace stageload::jobs
