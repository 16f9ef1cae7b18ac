// One recording from its first sample to its last: of a command that is run here, or of a process
// that runs already.
//
// A command is held back until the first answer has come, so the first sample is before its first
// instruction. Signals, the command's changes and the daemon's answers come as events to one loop.
// When the daemon goes away, the next one is asked to go on.
//
// Threading: one thread makes it and calls Run; it makes the threads that feed the loop.
#ifndef STAGELOAD_CLIENT_CTL_RECORD_RUN_H_
#define STAGELOAD_CLIENT_CTL_RECORD_RUN_H_

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/trace_writer.h"
#include "client/ctl/connection.h"
#include "client/ctl/event_queue.h"
#include "client/ctl/foreground_command.h"
#include "client/ctl/next_daemon.h"
#include "client/ctl/process_handle.h"
#include "client/ctl/recording.h"
#include "client/ctl/watch_call.h"

namespace stageload::ctl {

struct RecordOptions {
  std::string path;  // "-" is stdout
  TraceWriter::Existing existing = TraceWriter::Existing::kRefuse;
  absl::Duration interval;
  bool quiet = false;
};

class RecordRun {
 public:
  // Of `argv`, whose process is `child`: forked before anything that has a thread.
  RecordRun(RecordOptions options, HeldChild child, std::vector<std::string> argv);
  // Of a process that runs already.
  RecordRun(RecordOptions options, pid_t pid);
  RecordRun(const RecordRun&) = delete;
  RecordRun& operator=(const RecordRun&) = delete;

  // The exit code: the command's, if there is one.
  int Run(const ConnectOptions& connect);

 private:
  struct Told {
    int call;
    v1::WatchProcessResponse answer;
  };
  using Event = std::variant<ChildChanged, Signalled, Told, CallEnded, DaemonFound, Interrupted>;

  // Each phase is a loop over events.
  std::optional<int> AwaitFirst();  // an exit code when nothing is recorded
  void AwaitEnd();
  void AwaitLastWord();

  bool Over();
  void OnEvent(const Event& event);
  void OnSignal(int number);
  void OnCallEnded(const absl::Status& status);
  std::optional<int> BeginWith(const v1::WatchProcessResponse& answer);
  void Watch(Connection connection);
  absl::Duration NextTimeout() const;
  int ExitCode();

  const RecordOptions options_;
  Recording::Subject subject_;
  EventQueue<Event> events_;
  std::optional<ForegroundCommand> command_;
  std::optional<ProcessHandle> process_;  // where there is no command
  std::optional<Recording> recording_;    // once there is a sample

  ConnectOptions connect_;
  int calls_ = 0;                     // the last is the one that counts
  std::unique_ptr<WatchCall> call_;   // null while there is no daemon
  std::unique_ptr<NextDaemon> next_;  // while one is looked for
  bool watched_to_end_ = false;       // nothing is left of what is recorded, or it cannot be read
  int stopped_by_ = 0;                // the signal that ended a recording of a process
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_RECORD_RUN_H_
