// A command that we run for the user here, between its start and its end: it has the terminal where
// we had it, Ctrl-Z stops us with it, and a signal that asks us to end ends it first. See DESIGN
// section 7.
//
// Threading: one thread makes it and calls everything; `on_change` and `on_interrupt` come from
// threads of its own and are to be handed back to that one as OnChange and OnInterrupt.
#ifndef STAGELOAD_CLIENT_CTL_FOREGROUND_COMMAND_H_
#define STAGELOAD_CLIENT_CTL_FOREGROUND_COMMAND_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "client/ctl/held_child.h"
#include "client/ctl/interrupt_watch.h"
#include "client/ctl/process_group.h"
#include "client/ctl/terminal.h"

namespace stageload::ctl {

// Why no recording of a command can go to "-".
inline constexpr char kStdoutIsTheCommands[] =
    "stdout is the command's; name a file, or another descriptor, as in /dev/fd/3 with 3>run.jsonl";

// The command held back, to be let go by a ForegroundCommand. Where it cannot be run, says why on
// stderr and gives `code` the exit code.
std::optional<HeldChild> HoldCommand(const std::vector<std::string>& argv, int& code);

class ForegroundCommand {
 public:
  // `grace`: from one signal that it does not heed to the next that is harder.
  ForegroundCommand(HeldChild child, std::string name, absl::Duration grace,
                    std::function<void(int wait_status)> on_change,
                    std::function<void()> on_interrupt);
  ForegroundCommand(const ForegroundCommand&) = delete;
  ForegroundCommand& operator=(const ForegroundCommand&) = delete;
  ~ForegroundCommand();  // ends it unstarted; waits for the end of one that was started

  pid_t pid() const { return child_.pid(); }

  // Starts it; says on stderr when it cannot be executed, and returns the errno.
  int LetGo();
  // From the next signal on.
  void SetGrace(absl::Duration grace) { grace_ = grace; }
  // Ends it unstarted.
  void Discard() { child_.Discard(); }

  // Of waitpid: a stop, that it goes on, or its end.
  void OnChange(int wait_status);
  // Whether stageload keeps it stopped, so that nobody else is to have it go on.
  void SetSuspended(bool suspended) { suspended_ = suspended; }
  // SIGINT, SIGTERM, SIGHUP or SIGTSTP that we got.
  void OnSignal(int number);
  // Ctrl-C while it has the terminal.
  void OnInterrupt();
  // To be called at least after NextTimeout().
  void OnTime();
  absl::Duration NextTimeout() const;

  // When we were asked to end, nothing of the command's group may be left but zombies; else only
  // the command itself counts, as in a shell.
  bool Ended();
  // Once it has ended.
  void TakeTerminalBack();

  // Of waitpid, once the command itself has ended, and when that was.
  const std::optional<int>& wait_status() const { return wait_status_; }
  absl::Time ended_at() const { return ended_at_; }
  // The first signal that asked us to end; 0 is none.
  int interrupted() const { return interrupted_; }
  // Whether that was a Ctrl-C which the command ignored.
  bool ignored_ctrl_c() const { return ignored_ctrl_c_; }
  // What we exit with for its end, once the terminal is back: its own code, and where SIGINT ended
  // it we die of that.
  int ExitCode() const;

  // Stops this process and its group as Ctrl-Z would have, had the command not been in a group of
  // its own; so the shell takes the terminal. Returns when somebody continues us, or at once where
  // no shell would (an orphaned group is not stopped).
  static void StopOurGroup();

 private:
  void Watch();
  void OnStopped(int signal);
  void OnContinued();
  void GiveTerminal();
  void EndInterruptWatch();
  void Escalate();

  HeldChild child_;
  ProcessGroup group_;
  std::string name_;
  absl::Duration grace_;
  std::function<void(int)> on_change_;
  std::function<void()> on_interrupt_;
  Terminal terminal_;
  std::unique_ptr<InterruptWatch> interrupts_;  // while the command has it

  std::optional<int> wait_status_;
  absl::Time ended_at_;
  int interrupted_ = 0;
  bool ignored_ctrl_c_ = false;
  bool ctrl_c_ = false;  // while it had the terminal
  absl::Time ctrl_c_at_ = absl::InfinitePast();
  bool stopped_ = false;  // by SIGSTOP, while it had the terminal, which we have since
  bool suspended_ = false;
  absl::Time tell_stopped_at_ = absl::InfiniteFuture();
  int next_signal_ = 0;  // for the command's group, at `escalate_at_`
  absl::Time escalate_at_ = absl::InfiniteFuture();
  absl::Time killed_ = absl::InfiniteFuture();
  std::thread watcher_;  // of the child's stops and its end
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_FOREGROUND_COMMAND_H_
