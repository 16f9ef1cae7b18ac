#include "tests/e2e/swap_area.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "tests/e2e/child_process.h"

extern char** environ;

namespace stageload::e2e {
namespace {

absl::Status NotAllowed(const std::string& what) {
  return absl::FailedPreconditionError(absl::ErrnoToStatus(errno, what).message());
}

absl::Status WriteTo(const std::string& file, const std::string& text) {
  const int fd = open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return NotAllowed("open " + file);
  const bool written = write(fd, text.data(), text.size()) > 0;
  const absl::Status status =
      written ? absl::OkStatus() : NotAllowed(absl::StrCat("write ", text, " to ", file));
  close(fd);
  return status;
}

// Runs a shell script; false when it fails or cannot be started.
bool Shell(const std::string& script, const std::vector<std::string>& arguments, int input) {
  std::vector<std::string> words = {"/bin/sh", "-c", script, "sh"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (input >= 0) posix_spawn_file_actions_adddup2(&actions, input, 3);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return false;
  int status = 0;
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool IsInMemory(const std::string& folder) {
  struct statfs status {};
  constexpr auto kTmpfs = 0x01021994;  // linux/magic.h TMPFS_MAGIC
  return statfs(folder.c_str(), &status) == 0 && status.f_type == kTmpfs;
}

bool IsSwap(const std::string& file) {
  return absl::StrContains(ReadFile("/proc/swaps"), file + " ");
}

}  // namespace

std::optional<Bytes> SwapUsed() {
  std::optional<std::int64_t> total;
  std::optional<std::int64_t> free;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    std::int64_t kib = 0;
    if (words.size() < 2 || !absl::SimpleAtoi(words[1], &kib)) continue;
    if (words[0] == "SwapTotal:") total = kib;
    if (words[0] == "SwapFree:") free = kib;
  }
  if (!total || !free) return std::nullopt;
  return KiB(*total - *free);
}

absl::Status SwapArea::StartWatchdog() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "make a pipe");
  // In the background of a shell that ends at once, so that nobody who kills this test and its
  // children kills it too. swapoff before rm: the kernel does not let go of a swap file in use.
  constexpr char kScript[] =
      "setsid sh -c '"
      "cat <&3 >/dev/null; "
      "while read -r pid; do kill -KILL \"$pid\"; done <\"$2/cgroup.procs\"; "
      "swapoff \"$1\"; rm -f \"$1\"; "
      "n=0; until rmdir \"$2\" || [ $n -ge 100 ]; do n=$((n+1)); sleep 0.1; done"
      "' sh \"$1\" \"$2\" >/dev/null 2>&1 &";
  const bool started = Shell(kScript, {swap_file_, cgroup_}, ends[0]);
  close(ends[0]);
  watchdog_ = ends[1];
  return started ? absl::OkStatus() : absl::InternalError("cannot start the watchdog");
}

absl::Status SwapArea::MakeCgroup(Bytes limit) {
  if (mkdir(cgroup_.c_str(), 0755) != 0) return NotAllowed("make " + cgroup_);
  const std::string file = access((cgroup_ + "/memory.max").c_str(), F_OK) == 0
                               ? "/memory.max"              // cgroups(7), version 2
                               : "/memory.limit_in_bytes";  // version 1
  return WriteTo(cgroup_ + file, absl::StrCat(limit.count()));
}

absl::Status SwapArea::MakeSwap(Bytes size) {
  const int fd = open(swap_file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return NotAllowed("make " + swap_file_);
  errno = posix_fallocate(fd, 0, size.count());
  const absl::Status filled =
      errno == 0 ? absl::OkStatus()
                 : NotAllowed(absl::StrCat("fill ", swap_file_, " with ", FormatBytes(size)));
  close(fd);
  if (!filled.ok()) return filled;
  if (!Shell("exec mkswap \"$1\" >/dev/null 2>&1", {swap_file_}, -1)) {
    return absl::FailedPreconditionError("mkswap " + swap_file_ + " failed");
  }
  return swapon(swap_file_.c_str(), 0) == 0 ? absl::OkStatus() : NotAllowed("swapon " + swap_file_);
}

absl::StatusOr<SwapArea> SwapArea::Create(Bytes size, Bytes limit) {
  if (geteuid() != 0) return absl::FailedPreconditionError("only root may make swap");
  const std::string folder = IsInMemory("/var/tmp") ? "/tmp" : "/var/tmp";
  if (IsInMemory(folder)) {
    return absl::FailedPreconditionError("/var/tmp and /tmp are in memory, and swap needs a disk");
  }
  const std::string name = absl::StrCat("stageload-e2e-", getpid());
  SwapArea area;
  area.swap_file_ = absl::StrCat(folder, "/", name, ".swap");
  if (access("/sys/fs/cgroup/memory/memory.limit_in_bytes", F_OK) == 0) {
    area.cgroup_ = "/sys/fs/cgroup/memory/" + name;
  } else {
    area.cgroup_ = "/sys/fs/cgroup/" + name;
    // May be on already or refused: MakeCgroup() finds out.
    WriteTo("/sys/fs/cgroup/cgroup.subtree_control", "+memory").IgnoreError();
  }
  area.processes_file_ = area.cgroup_ + "/cgroup.procs";
  // The watchdog first: there is no moment in which a kill would leave something behind.
  if (absl::Status step = area.StartWatchdog(); !step.ok()) return step;
  if (absl::Status step = area.MakeCgroup(limit); !step.ok()) return step;
  if (absl::Status step = area.MakeSwap(size); !step.ok()) return step;
  return area;
}

SwapArea::SwapArea(SwapArea&& other) noexcept
    : cgroup_(std::move(other.cgroup_)),
      processes_file_(std::move(other.processes_file_)),
      swap_file_(std::move(other.swap_file_)),
      watchdog_(std::exchange(other.watchdog_, -1)) {}

SwapArea::~SwapArea() {
  if (watchdog_ < 0) return;
  close(watchdog_);
  EXPECT_TRUE(Eventually([this] {
    return !IsSwap(swap_file_) && access(swap_file_.c_str(), F_OK) != 0 &&
           access(cgroup_.c_str(), F_OK) != 0;
  })) << "left behind: "
      << swap_file_ << " or " << cgroup_;
}

}  // namespace stageload::e2e
