// The recording of a guarded command (`guard --trace`): what the daemon tells of its process, in
// the file of a trace, beside the guard's own call.
//
// Nothing of it disturbs the command: what cannot be recorded is said on stderr, and the run goes
// on.
//
// Threading: one thread makes it and calls everything; the daemon's answers are written on a thread
// of its own.
#ifndef STAGELOAD_CLIENT_CTL_GUARD_TRACE_H_
#define STAGELOAD_CLIENT_CTL_GUARD_TRACE_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/trace_writer.h"
#include "client/ctl/connection.h"
#include "client/ctl/recording.h"
#include "client/ctl/watch_call.h"

namespace stageload::ctl {

class GuardTrace {
 public:
  // Makes the file at once, so that a wrong name is known before the command waits for room.
  // AlreadyExists where there is one with something in it.
  static absl::StatusOr<std::unique_ptr<GuardTrace>> Create(const std::string& path);
  GuardTrace(const GuardTrace&) = delete;
  GuardTrace& operator=(const GuardTrace&) = delete;
  ~GuardTrace();  // removes the file of a command that was never recorded

  // Returns once the first sample is written, so that a held command can be let go after it, or
  // when it does not come within a second.
  void Begin(const Connection& connection, Recording::Subject subject);
  // With the daemon that came after the one that went away. No-op before Begin.
  void GoOn(const Connection& connection);
  // `wait_status` is the command's. Says in a line what was recorded.
  void End(int wait_status);

 private:
  GuardTrace(std::string path, TraceWriter writer)
      : path_(std::move(path)), writer_(std::move(writer)) {}
  void Watch(const Connection& connection);
  void OnAnswer(int call, v1::WatchProcessResponse answer);
  void OnEnd(int call, const absl::Status& status);

  const std::string path_;
  Recording::Subject subject_;
  std::unique_ptr<WatchCall> call_;  // of the newest daemon

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<TraceWriter> writer_;   // until the first sample
  std::optional<Recording> recording_;  // from then on
  int calls_ = 0;                       // the last is the one that counts
  bool watching_ = false;               // its end has not come
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_GUARD_TRACE_H_
