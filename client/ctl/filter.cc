#include "client/ctl/filter.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/ctl/environment.h"
#include "client/ctl/pipe.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

constexpr std::size_t kMostErr = 4096;

struct CloseFile {
  void operator()(std::FILE* file) const { (void)std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

std::string ReadAll(int fd) {
  std::string all;
  char buffer[1 << 14];
  while (true) {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return all;
    all.append(buffer, static_cast<std::size_t>(got));
  }
}

absl::StatusOr<pid_t> Start(std::vector<std::string>& argv, int in, int out, int err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  std::vector<std::string> environment = OwnEnvironment();
  pid_t pid = -1;
  const int error = posix_spawn(&pid, argv.front().c_str(), &actions, nullptr,
                                Pointers(argv).data(), Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("start ", argv.front()));
  return pid;
}

}  // namespace

absl::StatusOr<Filtered> Filter(std::vector<std::string> argv, const std::string& input) {
  const File err(std::tmpfile());
  if (!err) return absl::ErrnoToStatus(errno, "make a temporary file");
  (void)fcntl(fileno(err.get()), F_SETFD, FD_CLOEXEC);
  absl::StatusOr<Pipe> in = MakePipe();
  if (!in.ok()) return in.status();
  absl::StatusOr<Pipe> out = MakePipe();
  if (!out.ok()) return out.status();
  const absl::StatusOr<pid_t> pid =
      Start(argv, in->read.get(), out->write.get(), fileno(err.get()));
  if (!pid.ok()) return pid.status();
  in->read.Reset();
  out->write.Reset();
  Filtered filtered;
  std::thread reader([&] { filtered.out = ReadAll(out->read.get()); });
  (void)WriteAll(in->write.get(), input);  // when it has ended early, its status says so
  in->write.Reset();
  reader.join();
  while (waitpid(*pid, &filtered.wait_status, 0) < 0 && errno == EINTR) {
  }
  filtered.err.resize(kMostErr);
  const ssize_t said = pread(fileno(err.get()), filtered.err.data(), kMostErr, 0);
  filtered.err.resize(said > 0 ? static_cast<std::size_t>(said) : 0);
  return filtered;
}

}  // namespace stageload::ctl
