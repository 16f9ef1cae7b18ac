#include "daemon/jobs/shim/shim.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/awake_clock.h"
#include "daemon/jobs/durable_file.h"
#include "daemon/jobs/job_lock.h"
#include "daemon/jobs/log_writer.h"
#include "daemon/jobs/result_file.h"
#include "daemon/jobs/self.h"
#include "daemon/jobs/shim/launch.h"
#include "daemon/jobs/shim/output.h"
#include "daemon/jobs/spawn.h"
#include "daemon/jobs/spec_file.h"
#include "daemon/jobs/start_channel.h"

namespace stageload::jobs {
namespace {

// Descendants that outlive the command may keep its outputs open for ever; they are read no longer
// than this after its end.
constexpr absl::Duration kLinger = absl::Seconds(1);
// A full disk may be freed again, and how a job ended must not be lost: one try a second.
constexpr int kResultTries = 600;
// Of a command that could not be started, for whatever reason; the log says for which.
constexpr int kCannotStart = 127;

absl::Duration FromTimeval(const timeval& time) { return absl::DurationFromTimeval(time); }

// macOS counts ru_maxrss in bytes, Linux in KiB (getrusage(2) of each).
Bytes MaxRss(const rusage& usage) {
#ifdef __APPLE__
  return Bytes(usage.ru_maxrss);
#else
  return KiB(usage.ru_maxrss);
#endif
}

// The command while it runs: moves its outputs into the log until it ends.
class Watch {
 public:
  Watch(pid_t pid, Output out, Output err, LogWriter* log)
      : pid_(pid), outputs_{std::move(out), std::move(err)}, log_(log) {}

  // Blocks until the command has ended and its outputs are drained.
  void Run(Result* result);

 private:
  void Reap(Result* result);
  void WaitAndMove();
  bool Drained() const;

  const pid_t pid_;
  std::array<Output, 2> outputs_;
  LogWriter* const log_;
  bool ended_ = false;
  absl::Duration deadline_;  // of the outputs, once it has ended
};

void Watch::Run(Result* result) {
  for (;;) {
    // SIGCHLD is blocked but inside pselect(2), so an end after this call interrupts that one.
    Reap(result);
    if (ended_ && Drained()) return;
    WaitAndMove();
  }
}

// Also the orphans that became ours.
void Watch::Reap(Result* result) {
  for (;;) {
    int status = 0;
    rusage usage{};
    const pid_t pid = ::wait4(-1, &status, WNOHANG, &usage);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return;
    if (pid != pid_) continue;
    ended_ = true;
    deadline_ = AwakeNow() + kLinger;
    for (Output& output : outputs_) output.MarkHeld();
    result->end_time = absl::Now();
    if (WIFSIGNALED(status)) {
      result->outcome.signal = WTERMSIG(status);
    } else {
      result->outcome.exit_code = WEXITSTATUS(status);
    }
    result->max_rss = MaxRss(usage);
    result->user_time = FromTimeval(usage.ru_utime);
    result->system_time = FromTimeval(usage.ru_stime);
  }
}

bool Watch::Drained() const {
  const bool open = outputs_[0].open() || outputs_[1].open();
  const bool owes = outputs_[0].Owes() || outputs_[1].Owes();
  return !open || (!owes && AwakeNow() >= deadline_);
}

void Watch::WaitAndMove() {
  fd_set readable;  // the shim has a dozen descriptors at most
  FD_ZERO(&readable);
  int last = -1;
  for (const Output& output : outputs_) {
    if (!output.open()) continue;
    FD_SET(output.descriptor(), &readable);
    last = std::max(last, output.descriptor());
  }
  sigset_t none;
  sigemptyset(&none);
  timespec left = absl::ToTimespec(std::max(deadline_ - AwakeNow(), absl::ZeroDuration()));
  if (::pselect(last + 1, &readable, nullptr, nullptr, ended_ ? &left : nullptr, &none) <= 0)
    return;
  for (Output& output : outputs_) {
    if (output.open() && FD_ISSET(output.descriptor(), &readable)) output.Move(*log_);
  }
}

// What is sent to the shim's session or group is not meant for it. SIGXFSZ would end it where a
// write fails. A blocked SIGCHLD needs a handler, or pselect(2) is not interrupted by it.
void SettleSignals() {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM,
                           SIGTSTP, SIGTTIN, SIGTTOU, SIGXFSZ}) {
    ::signal(signal, SIG_IGN);
  }
  struct sigaction action {};
  action.sa_handler = [](int) {};
  ::sigaction(SIGCHLD, &action, nullptr);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);
}

// One line to the daemon. Whether it arrives is known by its answer.
void Say(const Descriptor& channel, const std::string& line) {
  WriteAll(channel.get(), line + "\n").IgnoreError();
}

bool HearsGo(const Descriptor& channel) {
  char answer = 0;
  for (;;) {
    const ssize_t got = ::read(channel.get(), &answer, 1);
    if (got < 0 && errno == EINTR) continue;
    return got == 1 && answer == kGo[0];
  }
}

absl::StatusOr<core::JobSpec> ReadSpec(int folder) {
  const absl::StatusOr<std::string> bytes = ReadWhole(folder, kSpecFile);
  if (!bytes.ok()) return bytes.status();
  return DecodeSpec(*bytes);
}

// Runs the command to its end.
Result RunCommand(core::JobSpec spec, const Limits& inherited, JobLock* lock, LogWriter* log) {
  Result result;
  result.start_time = absl::Now();
  absl::StatusOr<DescriptorPair> out = MakePipe();
  absl::StatusOr<DescriptorPair> err = MakePipe();
  Launched launched;
  if (out.ok() && err.ok()) {
    launched = Launch(spec, inherited, out->second.get(), err->second.get());
    out->second.Close();
    err->second.Close();
  } else {
    launched.error = EMFILE;
    launched.text = "cannot make the pipes for the job's output";
  }
  if (launched.pid == 0) {
    log->Append(LogStream::kStderr, absl::StrCat("stageload: ", launched.text, "\n"), absl::Now());
    result.outcome.start_errno = launched.error;
    result.outcome.exit_code = kCannotStart;
    result.end_time = absl::Now();
    return result;
  }
  // At once: a shim that is killed before this leaves a command that the next daemon cannot find.
  if (const auto command = IdentityOfChild(launched.pid); command.ok()) {
    lock->Note(*command).IgnoreError();  // it only serves if this shim is killed
  }
  spec = {};  // up to 2 MiB that nobody needs any more
  Watch(launched.pid, Output(std::move(out->first), LogStream::kStdout),
        Output(std::move(err->first), LogStream::kStderr), log)
      .Run(&result);
  return result;
}

bool KeepResult(int folder, const Result& result) {
  for (int tries = 0; tries < kResultTries; ++tries) {
    const absl::Status status = WriteResult(folder, result);
    if (status.ok()) return true;
    if (absl::IsNotFound(status)) return false;  // somebody removed the folder
    ::poll(nullptr, 0, 1000);
  }
  return false;
}

}  // namespace

int RunShim(const std::string& path, Descriptor channel) {
  SettleSignals();
  ::umask(077);
  AdoptOrphans();
  const Limits inherited = RaiseOwnLimits();

  const absl::StatusOr<Descriptor> folder = OpenFolder(path);
  if (!folder.ok()) {
    Say(channel, absl::StrCat(kFailed, folder.status().message()));
    return 1;
  }
  absl::StatusOr<core::JobSpec> spec = ReadSpec(folder->get());
  if (!spec.ok()) {
    Say(channel, absl::StrCat(kFailed, spec.status().message()));
    return 1;
  }
  absl::StatusOr<JobLock> lock = JobLock::Take(folder->get());
  if (!lock.ok()) {
    const char* what = absl::IsAlreadyExists(lock.status())       ? kTaken
                       : absl::IsResourceExhausted(lock.status()) ? kNoRoom
                                                                  : kFailed;
    Say(channel, absl::StrCat(what, lock.status().message()));
    return 1;
  }
  Say(channel, kLocked);
  if (!HearsGo(channel)) {
    lock->Withdraw().IgnoreError();  // else the job counts as lost, which is the safe side
    return 1;
  }
  channel.Close();

  LogWriter log(folder->get());
  Result result = RunCommand(*std::move(spec), inherited, &*lock, &log);
  log.Finish(absl::Now());
  for (const core::ProcessIdentity& left : LivingChildren(kMostLeft)) {
    lock->Note(left).IgnoreError();  // it only serves those who ask what still runs
  }
  result.log_dropped = log.dropped();
  return KeepResult(folder->get(), result) ? 0 : 1;
}

}  // namespace stageload::jobs
