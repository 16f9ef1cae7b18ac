// The guard's loop.
#include "client/ctl/guard_run.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/options.h"
#include "client/ctl/outcome.h"
#include "client/ctl/signals.h"

namespace stageload::ctl {
namespace {

constexpr absl::Duration kDefaultGrace = absl::Seconds(5);  // policy.proto
// After the command's end, for the daemon's last word: it has to commit it, and with children of
// the command still being stopped also to wait out their grace time.
constexpr absl::Duration kVerdictTimeout = absl::Seconds(2);
// How often a group is looked at whose leader has ended; nobody tells us of its other members.
constexpr absl::Duration kGroupPoll = absl::Milliseconds(20);

absl::Duration GraceOf(const v1::Policy& policy) {
  return policy.has_grace_ns() ? absl::Nanoseconds(policy.grace_ns()) : kDefaultGrace;
}

bool StopsUs(int signal) { return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU; }

// Stops this process and its group as Ctrl-Z would have, had the command not been in a group of its
// own; so the shell takes the terminal. Returns when somebody continues us, or at once where no
// shell would (an orphaned group is not stopped).
void StopOurGroup() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  struct sigaction before {};
  sigaction(SIGTSTP, &standard, &before);
  (void)kill(0, SIGTSTP);
  sigaction(SIGTSTP, &before, nullptr);
}

}  // namespace

GuardRun::GuardRun(HeldChild child, v1::GuardRequest request)
    : child_(std::move(child)), request_(std::move(request)) {
  request_.set_pid(child_.pid());
}

int GuardRun::Run(const ConnectOptions& connect) {
  const SignalEvents signals({SIGINT, SIGTERM, SIGHUP, SIGTSTP},
                             [this](int number) { events_.Push(Signalled{number}); });
  std::thread watcher([this] { WatchChild(); });
  const absl::StatusOr<Connection> connection = Connect(connect);
  std::optional<int> code;
  if (connection.ok()) {
    connection_ = &*connection;
    GuardCall call(
        *connection, request_, [this](v1::Job job) { events_.Push(Answered{std::move(job)}); },
        [this](absl::Status status) { events_.Push(CallEnded{std::move(status)}); });
    code = AwaitRoom();
    if (!code) {
      AwaitCommand();
      AwaitVerdict();
      code = ExitCode();
    }
  } else {
    code = Fail(connection.status());
  }
  child_.Discard();
  watcher.join();
  return *code;
}

void GuardRun::WatchChild() {
  while (true) {
    int status = 0;
    if (waitpid(child_.pid(), &status, WUNTRACED) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    events_.Push(ChildChanged{status});
    if (!WIFSTOPPED(status)) return;
  }
}

// ---- Waiting for room ----

std::optional<int> GuardRun::AwaitRoom() {
  while (true) {
    const std::optional<GuardEvent> event =
        events_.Pop(child_status_ ? kVerdictTimeout : absl::InfiniteDuration());
    if (!event) {
      progress_.Clear();
      Note("the command's process was ended while it waited for room");
      return std::max(ExitCodeOfWait(*child_status_), kExitOther);
    }
    if (const auto* answered = std::get_if<Answered>(&*event)) {
      job_ = answered->job;
      if (job_.state() == v1::JOB_STATE_PENDING) {
        progress_.Waiting(job_);
        continue;
      }
      progress_.Clear();
      if (IsEnd(job_.state())) return TellNoRoom();
      LetGo();
      OnAnswer(job_);  // it may be STOPPING already
      return std::nullopt;
    }
    if (const auto* ended = std::get_if<CallEnded>(&*event)) {
      progress_.Clear();
      if (!ended->status.ok()) return Fail(NamingOptions(ended->status));
      return Fail(absl::UnavailableError("the daemon ended the call before there was room"));
    }
    if (const auto* signalled = std::get_if<Signalled>(&*event)) {
      if (signalled->number == SIGTSTP) {
        progress_.Clear();
        StopOurGroup();
        continue;
      }
      progress_.Clear();
      return ExitOfSignal(signalled->number);
    }
    if (const auto* changed = std::get_if<ChildChanged>(&*event)) {
      // The daemon may have admitted it and stopped it at once, and its word be still under way.
      if (!WIFSTOPPED(changed->wait_status)) child_status_ = changed->wait_status;
    }
  }
}

std::optional<int> GuardRun::TellNoRoom() {
  if (job_.state() != v1::JOB_STATE_NO_ROOM) {
    Note(EndLine(job_));
    return std::max(ExitCodeOf(job_), kExitOther);
  }
  Note(job_.reason_text().empty() ? "no room before the start timeout"
                                  : std::string(job_.reason_text()));
  return kExitNoRoom;
}

// ---- Running ----

void GuardRun::LetGo() {
  if (terminal_.Interactive() && terminal_.Ours()) terminal_.Give(child_.pid());
  start_errno_ = child_.LetGo();
  if (start_errno_ != 0) {
    Note(absl::StrCat("cannot run ", request_.arguments(0), ": ", std::strerror(start_errno_)));
  }
}

void GuardRun::AwaitCommand() {
  while (!CommandEnded()) {
    const std::optional<GuardEvent> event = events_.Pop(NextTimeout());
    if (absl::Now() >= escalate_at_) Escalate();
    if (!event) continue;
    if (const auto* answered = std::get_if<Answered>(&*event)) OnAnswer(answered->job);
    if (const auto* ended = std::get_if<CallEnded>(&*event)) OnCallEnded(ended->status);
    if (const auto* signalled = std::get_if<Signalled>(&*event)) OnSignal(signalled->number);
    if (const auto* changed = std::get_if<ChildChanged>(&*event)) OnChild(changed->wait_status);
  }
  if (WIFSIGNALED(*child_status_)) {
    terminal_.TakeBackWithModes();
  } else {
    terminal_.TakeBack();
  }
}

// When we were asked to end, nothing of the command's group may be left; else only the command
// itself counts, as in a shell.
bool GuardRun::CommandEnded() const {
  if (!child_status_) return false;
  return interrupted_ == 0 || kill(-child_.pid(), 0) != 0;
}

absl::Duration GuardRun::NextTimeout() const {
  const absl::Duration until = std::max(escalate_at_ - absl::Now(), absl::ZeroDuration());
  return child_status_ ? std::min(until, kGroupPoll) : until;
}

void GuardRun::OnAnswer(v1::Job job) {
  job_ = std::move(job);
  const bool suspended = job_.state() == v1::JOB_STATE_SUSPENDED;
  if (suspended && !told_suspended_) Note(absl::StrCat("suspended: ", ReasonLine(job_)));
  told_suspended_ = suspended;
  const bool stopping =
      job_.state() == v1::JOB_STATE_STOPPING || job_.state() == v1::JOB_STATE_OUT_OF_MEMORY ||
      job_.state() == v1::JOB_STATE_TIMEOUT || job_.state() == v1::JOB_STATE_CANCELLED;
  if (!stopping || told_stop_) return;
  told_stop_ = true;
  Note(absl::StrCat("stopped: ", ReasonLine(job_)));
}

void GuardRun::OnCallEnded(const absl::Status& status) {
  call_ended_ = true;
  if (IsEnd(job_.state()) || child_status_) return;
  // That it left needs no more words; why it ended the call while it lives on does.
  const std::string why = status.ok() || absl::IsUnavailable(status)
                              ? "the daemon went away"
                              : std::string(status.message());
  Note(absl::StrCat(why, "; the command runs on, and is watched again once a daemon runs"));
}

void GuardRun::OnChild(int wait_status) {
  if (WIFSTOPPED(wait_status)) {
    OnChildStopped(WSTOPSIG(wait_status));
    return;
  }
  child_status_ = wait_status;
}

void GuardRun::OnChildStopped(int signal) {
  if (!StopsUs(signal)) return;  // SIGSTOP is between the command and who sent it
  if (signal != SIGTSTP && !terminal_.given() && terminal_.Ours()) {
    // It only needs the terminal, which we kept for a pager that seems to need it less.
    terminal_.Give(child_.pid());
    (void)kill(-child_.pid(), SIGCONT);
    return;
  }
  const bool had_terminal = terminal_.given();
  terminal_.TakeBack();
  StopOurGroup();
  if (had_terminal && terminal_.Ours()) terminal_.Give(child_.pid());
  (void)kill(-child_.pid(), SIGCONT);
}

// Ctrl-Z stops the command, whose stop then stops us; everything else ends it, and what comes a
// second time goes a step further.
void GuardRun::OnSignal(int number) {
  if (number == SIGTSTP) {
    (void)kill(-child_.pid(), SIGTSTP);
    return;
  }
  if (interrupted_ == 0) {
    interrupted_ = number;
    next_signal_ = number;
  }
  Escalate();
}

// The signal that we got, then SIGTERM, then SIGKILL, a grace time apart.
void GuardRun::Escalate() {
  (void)kill(-child_.pid(), next_signal_);
  (void)kill(-child_.pid(), SIGCONT);  // or a stopped one would not see it
  if (next_signal_ == SIGKILL) {
    escalate_at_ = absl::Now() + kGroupPoll;  // until it is gone
    return;
  }
  next_signal_ = next_signal_ == SIGTERM ? SIGKILL : SIGTERM;
  escalate_at_ = absl::Now() + GraceOf(request_.policy());
}

// ---- After its end ----

void GuardRun::Report() {
  v1::ReportExitRequest request;
  request.set_id(job_.id());
  if (WIFSIGNALED(*child_status_)) {
    request.set_signal(WTERMSIG(*child_status_));
  } else {
    request.set_exit_code(WEXITSTATUS(*child_status_));
  }
  if (start_errno_ != 0) request.set_start_errno(start_errno_);
  // FAILED_PRECONDITION: the daemon saw the end before we told it. Without a daemon there is nobody
  // to tell, and the code is the command's all the same.
  (void)ReportExit(*connection_, request);
}

void GuardRun::AwaitVerdict() {
  if (call_ended_ && !IsEnd(job_.state())) return;
  Report();
  absl::Time until = absl::Now() + kVerdictTimeout;
  if (told_stop_) until += GraceOf(request_.policy());
  while (!IsEnd(job_.state()) && !call_ended_) {
    const absl::Duration left = until - absl::Now();
    if (left <= absl::ZeroDuration()) return;
    const std::optional<GuardEvent> event = events_.Pop(left);
    if (!event) return;
    if (const auto* answered = std::get_if<Answered>(&*event)) OnAnswer(answered->job);
    if (std::holds_alternative<CallEnded>(*event)) call_ended_ = true;
    // A user who is asked to wait for the daemon's word may leave.
    if (const auto* signalled = std::get_if<Signalled>(&*event)) {
      if (signalled->number == SIGTSTP) continue;
      if (interrupted_ == 0) interrupted_ = signalled->number;
      return;
    }
  }
}

int GuardRun::ExitCode() const {
  if (interrupted_ != 0) return ExitOfSignal(interrupted_);
  switch (job_.reason()) {
    case v1::REASON_SWAP_BUDGET:
    case v1::REASON_SWAP_LIMIT:
    case v1::REASON_LOW_MEMORY:
      return kExitOutOfMemory;
    // The command may have exited with 0 when it was told to end.
    case v1::REASON_CANCELLED:
    case v1::REASON_TIMEOUT:
      return kExitOther;
    default:
      return ExitCodeOfWait(*child_status_);
  }
}

}  // namespace stageload::ctl
