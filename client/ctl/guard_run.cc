// The guard's loop.
#include "client/ctl/guard_run.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/options.h"
#include "client/ctl/outcome.h"
#include "client/ctl/own_end.h"
#include "client/ctl/signals.h"

namespace stageload::ctl {
namespace {

constexpr absl::Duration kDefaultGrace = absl::Seconds(5);  // policy.proto
// After the command's end, for the daemon's last word: it has to commit it, and with children of
// the command still being stopped also to wait out their grace time.
constexpr absl::Duration kVerdictTimeout = absl::Seconds(2);
// Also when daemons come and go meanwhile.
constexpr absl::Duration kVerdictAtMost = absl::Seconds(30);
// How the command ended is told after so long, also while others of its group are still there: the
// daemon waits for it no longer than 2 s.
constexpr absl::Duration kReportAfter = absl::Seconds(1);

absl::Duration GraceOf(const v1::Policy& policy) {
  return policy.has_grace_ns() ? absl::Nanoseconds(policy.grace_ns()) : kDefaultGrace;
}

// Of a call that was to go on with a job: this daemon has no such job, or cannot do that yet.
bool DoesNotKnowJob(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsInvalidArgument(status) ||
         absl::IsUnimplemented(status);
}

}  // namespace

GuardRun::GuardRun(HeldChild child, v1::GuardRequest request, std::unique_ptr<GuardTrace> trace)
    : request_(std::move(request)),
      trace_(std::move(trace)),
      command_(
          std::move(child), std::string(request_.arguments(0)), GraceOf(request_.policy()),
          [this](int wait_status) { events_.Push(ChildChanged{wait_status}); },
          [this] { events_.Push(Interrupted{}); }) {
  request_.set_pid(command_.pid());
}

int GuardRun::Run(const ConnectOptions& connect) {
  const SignalEvents signals({SIGINT, SIGTERM, SIGHUP, SIGTSTP},
                             [this](int number) { events_.Push(Signalled{number}); });
  connect_ = connect;
  absl::StatusOr<Connection> connection = Connect(connect);
  std::optional<int> code;
  if (connection.ok()) {
    connection_ = *std::move(connection);
    AskForRoom();
    code = AwaitRoom();
    if (!code) {
      AwaitCommand();
      AwaitVerdict();
      if (trace_) trace_->End(*command_.wait_status());
      code = ExitCode();
    }
    call_.reset();
  } else {
    code = Fail(connection.status());
  }
  command_.Discard();
  next_.reset();
  return *code;
}

// ---- Daemons ----

void GuardRun::AskForRoom() {
  v1::GuardRequest request = request_;
  if (!request.policy().has_start_timeout_ns() && job_.policy().has_start_timeout_ns()) {
    // The default of the daemon that was asked first.
    request.mutable_policy()->set_start_timeout_ns(job_.policy().start_timeout_ns());
  }
  if (request.policy().has_start_timeout_ns()) {
    // Also where an earlier daemon was asked first.
    const absl::Duration left =
        absl::Nanoseconds(request.policy().start_timeout_ns()) - (absl::Now() - asked_);
    request.mutable_policy()->set_start_timeout_ns(absl::ToInt64Nanoseconds(
        calls_ == 0 ? absl::Nanoseconds(request.policy().start_timeout_ns())
                    : std::max(left, absl::Milliseconds(1))));
  }
  resumed_ = false;
  Call(request);
}

void GuardRun::Resume() {
  v1::ResumeGuardRequest request;
  request.set_id(job_.id());
  request.set_pid(request_.pid());
  resumed_ = true;
  Call(request);
}

// Asks anew or resumes; what comes of it are events with the number of this call.
template <typename Request>
void GuardRun::Call(const Request& request) {
  const int call = ++calls_;
  call_ = std::make_unique<GuardCall>(
      connection_, request,
      [this, call](v1::Job job) {
        events_.Push(Answered{call, job});
      },
      [this, call](const absl::Status& status) {
        events_.Push(CallEnded{call, status});
      });
}

// Of a call that another has replaced.
bool GuardRun::IsOld(const GuardEvent& event) const {
  const auto* answered = std::get_if<Answered>(&event);
  const auto* ended = std::get_if<CallEnded>(&event);
  return (answered != nullptr && answered->call != calls_) ||
         (ended != nullptr && ended->call != calls_);
}

void GuardRun::OnLost(const absl::Status& status) {
  call_.reset();
  lost_ = absl::Now();
  ConnectOptions options = connect_;
  // Who told the daemon to leave does not want another, unless he starts it.
  if (!WentAway(status)) options.autostart = false;
  next_ = std::make_unique<NextDaemon>(
      options, [this](Connection found) { events_.Push(DaemonFound{std::move(found)}); });
}

void GuardRun::OnFound(Connection connection) {
  next_.reset();
  connection_ = std::move(connection);
  job_.id() == 0 ? AskForRoom() : Resume();
  if (trace_) trace_->GoOn(connection_);
}

// ---- Waiting for room ----

std::optional<int> GuardRun::AwaitRoom() {
  while (true) {
    absl::Duration timeout = command_.wait_status() ? kVerdictTimeout : absl::InfiniteDuration();
    if (next_) timeout = std::min(timeout, *lost_ + kReconnectWithin - absl::Now());
    std::optional<GuardEvent> event = events_.Pop(std::max(timeout, absl::ZeroDuration()));
    if (!event) {
      progress_.Clear();
      if (!command_.wait_status()) {
        return Fail(absl::UnavailableError(absl::StrCat("no daemon came back within ",
                                                        absl::FormatDuration(kReconnectWithin),
                                                        "; the command was not run")));
      }
      Note("the command's process was ended while it waited for room");
      return std::max(ExitCodeOfWait(*command_.wait_status()), kExitOther);
    }
    if (IsOld(*event)) continue;
    if (const auto* answered = std::get_if<Answered>(&*event)) {
      job_ = answered->job;
      // The config may have another default.
      command_.SetGrace(GraceOf(job_.policy()));
      if (job_.state() == v1::JOB_STATE_PENDING) {
        progress_.Waiting(job_);
        continue;
      }
      progress_.Clear();
      if (resumed_ && job_.reason() == v1::REASON_CLIENT_GONE) {
        AskForRoom();  // the daemon had given us up
        continue;
      }
      if (IsEnd(job_.state())) return TellNoRoom();
      if (trace_) {
        trace_->Begin(connection_,
                      {command_.pid(), {request_.arguments().begin(), request_.arguments().end()}});
      }
      start_errno_ = command_.LetGo();
      OnAnswer(job_);  // it may be STOPPING already
      return std::nullopt;
    }
    if (const auto* ended = std::get_if<CallEnded>(&*event)) {
      progress_.Clear();
      if (const std::optional<int> code = OnCallEndedWaiting(ended->status)) return code;
    }
    if (auto* found = std::get_if<DaemonFound>(&*event)) OnFound(std::move(found->connection));
    if (const auto* signalled = std::get_if<Signalled>(&*event)) {
      if (signalled->number == SIGTSTP) {
        progress_.Clear();
        ForegroundCommand::StopOurGroup();
        continue;
      }
      progress_.Clear();
      return ExitOfOwnSignal(signalled->number);
    }
    if (const auto* changed = std::get_if<ChildChanged>(&*event)) {
      // The daemon may have admitted it and stopped it at once, and its word be still under way.
      if (EndedBy(changed->wait_status)) command_.OnChange(changed->wait_status);
    }
  }
}

// An exit code when that is the end of it.
std::optional<int> GuardRun::OnCallEndedWaiting(const absl::Status& status) {
  if (resumed_ && DoesNotKnowJob(status)) {
    AskForRoom();
    return std::nullopt;
  }
  if (DaemonIsGone(status)) {
    Note("the daemon went away; the next one is asked for room");
    OnLost(status);
    return std::nullopt;
  }
  if (!status.ok()) return Fail(NamingOptions(status, &request_.policy()));
  return Fail(absl::UnavailableError("the daemon ended the call before there was room"));
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

void GuardRun::AwaitCommand() {
  while (!command_.Ended()) {
    std::optional<GuardEvent> event = events_.Pop(command_.NextTimeout());
    command_.OnTime();
    const bool due = command_.wait_status() && absl::Now() > command_.ended_at() + kReportAfter;
    if (due && !reported_ && !next_) Report();
    if (!event || IsOld(*event)) continue;
    if (const auto* answered = std::get_if<Answered>(&*event)) OnAnswer(answered->job);
    if (const auto* ended = std::get_if<CallEnded>(&*event)) OnCallEnded(ended->status);
    if (auto* found = std::get_if<DaemonFound>(&*event)) OnFound(std::move(found->connection));
    if (const auto* signalled = std::get_if<Signalled>(&*event)) {
      command_.OnSignal(signalled->number);
    }
    if (const auto* changed = std::get_if<ChildChanged>(&*event)) {
      command_.OnChange(changed->wait_status);
    }
    if (std::holds_alternative<Interrupted>(*event)) command_.OnInterrupt();
  }
  command_.TakeTerminalBack();
}

void GuardRun::OnAnswer(v1::Job job) {
  job_ = std::move(job);
  command_.SetGrace(GraceOf(job_.policy()));
  const bool suspended = job_.state() == v1::JOB_STATE_SUSPENDED;
  command_.SetSuspended(suspended);
  if (suspended && !told_suspended_) {
    Note(absl::StrCat("suspended: ", ReasonLine(job_), "; `stageloadctl resume ", job_.id(),
                      "` lets it go on"));
  }
  told_suspended_ = suspended;
  const bool stopping =
      job_.state() == v1::JOB_STATE_STOPPING || job_.state() == v1::JOB_STATE_OUT_OF_MEMORY ||
      job_.state() == v1::JOB_STATE_TIMEOUT || job_.state() == v1::JOB_STATE_CANCELLED;
  if (!stopping || told_stop_) return;
  told_stop_ = true;
  Note(absl::StrCat("stopped: ", ReasonLine(job_)));
}

void GuardRun::OnCallEnded(const absl::Status& status) {
  call_.reset();
  if (IsEnd(job_.state())) return;
  if (DaemonIsGone(status)) {
    if (!command_.wait_status()) {
      Note("the daemon went away; the command runs on, and the next daemon is asked to watch it");
    }
    OnLost(status);
  } else if (!command_.wait_status()) {
    const std::string why =
        status.ok() ? "the daemon ended the call" : std::string(status.message());
    Note(absl::StrCat(why, "; the command runs on"));
  }
}

// ---- After its end ----

void GuardRun::Report() {
  v1::ReportExitRequest request;
  request.set_id(job_.id());
  if (WIFSIGNALED(*command_.wait_status())) {
    request.set_signal(WTERMSIG(*command_.wait_status()));
  } else {
    request.set_exit_code(WEXITSTATUS(*command_.wait_status()));
  }
  if (start_errno_ != 0) request.set_start_errno(start_errno_);
  absl::StatusOr<v1::Job> job = ReportExit(connection_, request);
  // FAILED_PRECONDITION: the daemon knew of the end before we told it, and its stream says which.
  reported_ = !DaemonIsGone(job.status());
  if (job.ok() && job->id() == job_.id()) OnAnswer(*std::move(job));
}

// Until when the daemon's last word is waited for.
absl::Time GuardRun::VerdictBy() const {
  absl::Time by = command_.ended_at() + kVerdictTimeout;
  if (told_stop_) by += GraceOf(request_.policy());
  // Who was told to end does not wait for a daemon that may never come.
  if (lost_ && command_.interrupted() == 0) {
    // The next daemon may be about to come, or have come just now.
    by = std::max(*lost_ + kReconnectWithin, command_.ended_at() + 2 * NextDaemon::kSlowPause);
    if (!next_) by = std::max(by, command_.ended_at()) + kVerdictTimeout;
  }
  return std::min(by, command_.ended_at() + kVerdictAtMost);
}

void GuardRun::AwaitVerdict() {
  if (!next_ && !reported_) Report();
  while (!IsEnd(job_.state()) && (call_ || next_)) {
    const absl::Duration left = VerdictBy() - absl::Now();
    if (left <= absl::ZeroDuration()) return;
    std::optional<GuardEvent> event = events_.Pop(left);
    if (!event) return;
    if (IsOld(*event)) continue;
    if (const auto* answered = std::get_if<Answered>(&*event)) OnAnswer(answered->job);
    if (const auto* ended = std::get_if<CallEnded>(&*event)) {
      if (reported_) return;
      OnCallEnded(ended->status);
    }
    if (auto* found = std::get_if<DaemonFound>(&*event)) {
      OnFound(std::move(found->connection));
      if (!reported_) Report();
    }
    // A user who is asked to wait for the daemon's word may leave.
    if (const auto* signalled = std::get_if<Signalled>(&*event)) {
      if (signalled->number == SIGTSTP) continue;
      return;
    }
  }
}

int GuardRun::ExitCode() const {
  if (command_.ignored_ctrl_c()) return command_.ExitCode();
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
      return command_.ExitCode();
  }
}

}  // namespace stageload::ctl
