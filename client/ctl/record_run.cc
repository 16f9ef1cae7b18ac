// The recording's loop.
#include "client/ctl/record_run.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/options.h"
#include "client/ctl/outcome.h"
#include "client/ctl/own_end.h"
#include "client/ctl/signals.h"

namespace stageload::ctl {
namespace {

// From one signal that the command does not heed to the next that is harder.
constexpr absl::Duration kGrace = absl::Seconds(5);
// How often a process is looked at that no daemon watches.
constexpr absl::Duration kPoll = absl::Milliseconds(200);

}  // namespace

RecordRun::RecordRun(RecordOptions options, HeldChild child, std::vector<std::string> argv)
    : options_(std::move(options)) {
  subject_.pid = child.pid();
  command_.emplace(
      std::move(child), argv.front(), kGrace,
      [this](int wait_status) { events_.Push(ChildChanged{wait_status}); },
      [this] { events_.Push(Interrupted{}); });
  subject_.command = std::move(argv);
}

RecordRun::RecordRun(RecordOptions options, pid_t pid) : options_(std::move(options)) {
  subject_.pid = pid;
  process_.emplace(pid);
}

int RecordRun::Run(const ConnectOptions& connect) {
  std::vector<int> numbers = {SIGINT, SIGTERM, SIGHUP};
  if (command_) numbers.push_back(SIGTSTP);
  const SignalEvents signals(numbers, [this](int number) { events_.Push(Signalled{number}); });
  connect_ = connect;
  absl::StatusOr<Connection> connection = Connect(connect);
  std::optional<int> code;
  if (connection.ok()) {
    Watch(*std::move(connection));
    code = AwaitFirst();
    if (!code) {
      AwaitEnd();
      if (command_) AwaitLastWord();
      code = ExitCode();
    }
    call_.reset();
  } else {
    code = Fail(connection.status());
  }
  next_.reset();
  if (command_) command_->Discard();
  return *code;
}

void RecordRun::Watch(Connection connection) {
  next_.reset();
  const int call = ++calls_;
  v1::WatchProcessRequest request;
  request.set_pid(subject_.pid);
  request.set_interval_ns(absl::ToInt64Nanoseconds(options_.interval));
  call_ = std::make_unique<WatchCall>(
      connection, request,
      [this, call](v1::WatchProcessResponse answer) {
        events_.Push(Told{call, std::move(answer)});
      },
      [this, call](const absl::Status& status) {
        events_.Push(CallEnded{call, status});
      });
}

// ---- Before the first sample ----

std::optional<int> RecordRun::AwaitFirst() {
  while (true) {
    const std::optional<Event> event = events_.Pop(absl::InfiniteDuration());
    if (const auto* told = std::get_if<Told>(&*event)) {
      if (told->answer.has_sample()) return BeginWith(told->answer);
    }
    if (const auto* ended = std::get_if<CallEnded>(&*event)) {
      if (!ended->status.ok()) return Fail(NamingOptions(ended->status));
      return Fail(absl::NotFoundError(
          absl::StrCat("process ", subject_.pid, " ended before it was read once")));
    }
    if (const auto* signalled = std::get_if<Signalled>(&*event)) {
      if (signalled->number != SIGTSTP) return ExitOfOwnSignal(signalled->number);
      ForegroundCommand::StopOurGroup();
    }
    if (const auto* changed = std::get_if<ChildChanged>(&*event)) {
      if (!EndedBy(changed->wait_status)) continue;
      command_->OnChange(changed->wait_status);
      Note("the command's process was ended before it was started");
      return std::max(ExitCodeOfWait(changed->wait_status), kExitOther);
    }
  }
}

std::optional<int> RecordRun::BeginWith(const v1::WatchProcessResponse& answer) {
  absl::StatusOr<TraceWriter> writer = options_.path == "-"
                                           ? TraceWriter::To(STDOUT_FILENO, "stdout")
                                           : TraceWriter::Create(options_.path, options_.existing);
  if (absl::IsAlreadyExists(writer.status())) {
    return Fail(absl::AlreadyExistsError(
        absl::StrCat(std::string(writer.status().message()), "; --force writes over it")));
  }
  if (!writer.ok()) return Fail(writer.status());
  recording_.emplace(Recording::Begin(*std::move(writer), options_.interval, subject_, answer));
  if (command_) (void)command_->LetGo();
  return std::nullopt;
}

// ---- Recording ----

bool RecordRun::Over() {
  if (command_) return command_->Ended();
  return watched_to_end_ || stopped_by_ != 0 || recording_->reader_gone();
}

absl::Duration RecordRun::NextTimeout() const {
  if (command_) return command_->NextTimeout();
  return next_ ? kPoll : absl::InfiniteDuration();
}

void RecordRun::AwaitEnd() {
  while (!Over()) {
    const std::optional<Event> event = events_.Pop(NextTimeout());
    if (command_) command_->OnTime();
    if (event) OnEvent(*event);
    // Its descendants, if it has some, could not be found by a daemon that has not seen it.
    if (next_ && process_ && process_->Ended()) {
      Note("the process ended while there was no daemon");
      watched_to_end_ = true;
    }
  }
  if (command_) command_->TakeTerminalBack();
}

void RecordRun::OnEvent(const Event& event) {
  if (const auto* told = std::get_if<Told>(&event)) {
    if (told->call == calls_) recording_->Add(told->answer);
  }
  if (const auto* ended = std::get_if<CallEnded>(&event)) {
    if (ended->call == calls_) OnCallEnded(ended->status);
  }
  if (const auto* found = std::get_if<DaemonFound>(&event)) Watch(found->connection);
  if (const auto* signalled = std::get_if<Signalled>(&event)) OnSignal(signalled->number);
  if (const auto* changed = std::get_if<ChildChanged>(&event)) {
    command_->OnChange(changed->wait_status);
  }
  if (std::holds_alternative<Interrupted>(event)) command_->OnInterrupt();
}

void RecordRun::OnSignal(int number) {
  if (command_) {
    command_->OnSignal(number);
  } else {
    stopped_by_ = number;
  }
}

void RecordRun::OnCallEnded(const absl::Status& status) {
  call_.reset();
  const bool command_runs = command_ && !command_->wait_status();
  if (!DaemonIsGone(status)) {
    watched_to_end_ = true;
    if (!status.ok() && (command_runs || process_)) {
      Note(absl::StrCat(std::string(status.message()), "; it is recorded no further"));
    }
    return;
  }
  if (command_ && !command_runs) return;
  Note("the daemon went away; the recording goes on with the next one");
  recording_->Interrupted("the daemon went away");
  ConnectOptions options = connect_;
  // Who told the daemon to leave does not want another, unless he starts it.
  if (!WentAway(status)) options.autostart = false;
  next_ = std::make_unique<NextDaemon>(
      options, [this](Connection found) { events_.Push(DaemonFound{std::move(found)}); });
}

// ---- After the end ----

void RecordRun::AwaitLastWord() {
  recording_->CommandEnded(*command_->wait_status());
  const absl::Time until = command_->ended_at() + Recording::kLastWord;
  while (call_ && !watched_to_end_) {
    const absl::Duration left = until - absl::Now();
    const std::optional<Event> event = events_.Pop(std::max(left, absl::ZeroDuration()));
    if (!event) return recording_->Unanswered();
    // A daemon that stops us signals the command first, and its word may be behind both signals.
    if (!std::holds_alternative<Signalled>(*event)) OnEvent(*event);
  }
}

int RecordRun::ExitCode() {
  recording_->End();
  if (!options_.quiet && (command_ || !recording_->reader_gone())) Note(recording_->Line());
  if (!command_) return recording_->incomplete() ? kExitOther : kExitOk;
  return command_->ExitCode();
}

}  // namespace stageload::ctl
