// Groups, terminals and signals.
#include "client/ctl/foreground_command.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/ctl/command_path.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/outcome.h"
#include "client/ctl/own_end.h"

namespace stageload::ctl {
namespace {

// How often a group is looked at whose leader has ended; nobody tells us of its other members.
constexpr absl::Duration kGroupPoll = absl::Milliseconds(20);
// After SIGKILL, for the last of a group to go, which one in a call of a hung disk does not.
constexpr absl::Duration kGoneWithin = absl::Seconds(2);
// A Ctrl-C that came so shortly before a stop may have met a command that was stopped already.
constexpr absl::Duration kCtrlCBeforeStop = absl::Milliseconds(500);
// For the daemon's word that it was the one who stopped it.
constexpr absl::Duration kStoppedByAfter = absl::Milliseconds(500);

bool StopsUs(int signal) { return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU; }

}  // namespace

std::optional<HeldChild> HoldCommand(const std::vector<std::string>& argv, int& code) {
  const absl::StatusOr<std::string> found = FindInPath(argv.front());
  if (!found.ok()) {
    Note(std::string(found.status().message()));
    code = kExitCannotStart;
    return std::nullopt;
  }
  absl::StatusOr<HeldChild> child = HeldChild::Fork(argv);
  if (!child.ok()) {
    code = Fail(child.status());
    return std::nullopt;
  }
  // From here on, since the command must have it as it was: what we write to may be a pipe that
  // closes, and that must not take us from the command.
  std::signal(SIGPIPE, SIG_IGN);
  return *std::move(child);
}

ForegroundCommand::ForegroundCommand(HeldChild child, std::string name, absl::Duration grace,
                                     std::function<void(int wait_status)> on_change,
                                     std::function<void()> on_interrupt)
    : child_(std::move(child)),
      group_(child_.pid()),
      name_(std::move(name)),
      grace_(grace),
      on_change_(std::move(on_change)),
      on_interrupt_(std::move(on_interrupt)) {
  watcher_ = std::thread([this] { Watch(); });
}

ForegroundCommand::~ForegroundCommand() {
  child_.Discard();
  watcher_.join();
}

void ForegroundCommand::StopOurGroup() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  struct sigaction before {};
  sigaction(SIGTSTP, &standard, &before);
  (void)kill(0, SIGTSTP);
  sigaction(SIGTSTP, &before, nullptr);
}

void ForegroundCommand::Watch() {
  while (true) {
    int status = 0;
    if (waitpid(child_.pid(), &status, WUNTRACED | WCONTINUED) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    on_change_(status);
    if (EndedBy(status)) return;
  }
}

int ForegroundCommand::LetGo() {
  if (terminal_.Interactive() && terminal_.Ours()) GiveTerminal();
  const int error = child_.LetGo();
  if (error != 0) Note(absl::StrCat("cannot run ", name_, ": ", std::strerror(error)));
  return error;
}

void ForegroundCommand::GiveTerminal() {
  terminal_.Give(child_.pid());
  if (!terminal_.given() || interrupts_) return;
  interrupts_ = std::make_unique<InterruptWatch>(child_.pid(), on_interrupt_);
}

void ForegroundCommand::EndInterruptWatch() {
  if (interrupts_ && interrupts_->End()) ctrl_c_ = true;
  interrupts_.reset();
}

bool ForegroundCommand::Ended() {
  if (!wait_status_) return false;
  return interrupted_ == 0 || !group_.Runs() || absl::Now() > killed_ + kGoneWithin;
}

void ForegroundCommand::TakeTerminalBack() {
  EndInterruptWatch();
  if (wait_status_ && WIFSIGNALED(*wait_status_)) {
    terminal_.TakeBackWithModes();
  } else {
    terminal_.TakeBack();
  }
}

absl::Duration ForegroundCommand::NextTimeout() const {
  const absl::Duration until =
      std::max(std::min(escalate_at_, tell_stopped_at_) - absl::Now(), absl::ZeroDuration());
  return wait_status_ ? std::min(until, kGroupPoll) : until;
}

void ForegroundCommand::OnTime() {
  if (absl::Now() >= escalate_at_) Escalate();
  if (absl::Now() < tell_stopped_at_) return;
  tell_stopped_at_ = absl::InfiniteFuture();
  if (!stopped_ || suspended_) return;
  Note(absl::StrCat(name_, " was stopped (SIGSTOP): Ctrl-Z and then `fg`, or `kill -CONT -",
                    child_.pid(), "`, lets it go on; Ctrl-C ends it"));
}

void ForegroundCommand::OnChange(int wait_status) {
  if (WIFSTOPPED(wait_status)) {
    OnStopped(WSTOPSIG(wait_status));
    return;
  }
  if (WIFCONTINUED(wait_status)) {
    OnContinued();
    return;
  }
  wait_status_ = wait_status;
  ended_at_ = absl::Now();
}

void ForegroundCommand::OnStopped(int signal) {
  if (!StopsUs(signal)) {
    // SIGSTOP is between the command and who sent it; but no key would act on a terminal whose
    // foreground group is stopped. No shell stops us here, as the command may go on at any time.
    if (!terminal_.given()) return;
    terminal_.TakeBackWithModes();
    stopped_ = true;
    tell_stopped_at_ = absl::Now() + kStoppedByAfter;
    if (absl::Now() - ctrl_c_at_ < kCtrlCBeforeStop) OnSignal(SIGINT);
    return;
  }
  if (signal != SIGTSTP && !terminal_.given() && terminal_.Ours()) {
    // It only needs the terminal, which we kept for a pager that seems to need it less.
    GiveTerminal();
    (void)kill(-child_.pid(), SIGCONT);
    return;
  }
  const bool had_terminal = terminal_.given();
  terminal_.TakeBack();
  StopOurGroup();
  if (had_terminal && terminal_.Ours()) GiveTerminal();
  (void)kill(-child_.pid(), SIGCONT);
}

void ForegroundCommand::OnContinued() {
  if (!std::exchange(stopped_, false)) return;
  if (interrupted_ == 0 && terminal_.Ours()) GiveTerminal();
}

// Ctrl-Z stops the command, whose stop then stops us; everything else ends it, and what comes a
// second time goes a step further.
void ForegroundCommand::OnSignal(int number) {
  if (number == SIGTSTP && stopped_) {
    StopOurGroup();
    if (!suspended_) (void)kill(-child_.pid(), SIGCONT);
    return;
  }
  if (number == SIGTSTP) {
    (void)kill(-child_.pid(), SIGTSTP);
    return;
  }
  if (interrupted_ == 0) {
    EndInterruptWatch();  // nothing of its group may be left, and so nothing of ours
    interrupted_ = number;
    next_signal_ = number;
  }
  Escalate();
}

// The terminal has sent SIGINT to the command's group and not to us. A command that ignores it goes
// on to what follows at once.
void ForegroundCommand::OnInterrupt() {
  ctrl_c_ = true;
  ctrl_c_at_ = absl::Now();
  if (stopped_) return OnSignal(SIGINT);  // it may handle it, and cannot
  if (interrupted_ != 0 || wait_status_ || !IgnoresInterrupt(child_.pid())) return;
  EndInterruptWatch();
  interrupted_ = SIGINT;
  ignored_ctrl_c_ = true;
  next_signal_ = SIGTERM;
  Escalate();
}

int ForegroundCommand::ExitCode() const {
  const bool killed = WIFSIGNALED(*wait_status_);
  if (ignored_ctrl_c_) return kDieOfInterruptWithGroup;
  if (killed && WTERMSIG(*wait_status_) == SIGINT) {
    return ctrl_c_ ? kDieOfInterruptWithGroup : kDieOfInterrupt;
  }
  if (killed && interrupted_ == SIGINT) return kDieOfInterrupt;  // it did not heed ours
  return ExitCodeOfWait(*wait_status_);
}

// The signal that we got, then SIGTERM, then SIGKILL, a grace time apart.
void ForegroundCommand::Escalate() {
  (void)kill(-child_.pid(), next_signal_);
  (void)kill(-child_.pid(), SIGCONT);  // or a stopped one would not see it
  if (next_signal_ == SIGKILL) {
    killed_ = std::min(killed_, absl::Now());
    escalate_at_ = absl::Now() + kGroupPoll;  // until it is gone
    return;
  }
  next_signal_ = next_signal_ == SIGTERM ? SIGKILL : SIGTERM;
  escalate_at_ = absl::Now() + grace_;
}

}  // namespace stageload::ctl
