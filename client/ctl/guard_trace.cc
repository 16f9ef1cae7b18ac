// Answers of the daemon become lines as they come.
#include "client/ctl/guard_trace.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/ctl/errors.h"

namespace stageload::ctl {
namespace {

// The daemon answers a call of this kind with a sample at once.
constexpr std::chrono::seconds kFirstWithin(1);

}  // namespace

absl::StatusOr<std::unique_ptr<GuardTrace>> GuardTrace::Create(const std::string& path) {
  absl::StatusOr<TraceWriter> writer = TraceWriter::Create(path, TraceWriter::Existing::kRefuse);
  if (!writer.ok()) return writer.status();
  return std::unique_ptr<GuardTrace>(new GuardTrace(path, *std::move(writer)));
}

GuardTrace::~GuardTrace() {
  call_.reset();
  if (writer_) writer_->Discard();
}

void GuardTrace::Begin(const Connection& connection, Recording::Subject subject) {
  subject_ = std::move(subject);
  Watch(connection);
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kFirstWithin, [this] { return recording_ || !watching_; });
  if (!recording_ && watching_) {
    Note("the daemon is slow to tell of the command; its trace begins later");
  }
}

void GuardTrace::GoOn(const Connection& connection) {
  if (call_) Watch(connection);
}

void GuardTrace::Watch(const Connection& connection) {
  call_.reset();
  int call = 0;
  {
    const std::lock_guard lock(mutex_);
    call = ++calls_;
    watching_ = true;
  }
  v1::WatchProcessRequest request;
  request.set_pid(subject_.pid);
  request.set_interval_ns(absl::ToInt64Nanoseconds(Recording::kInterval));
  call_ = std::make_unique<WatchCall>(
      connection, request,
      [this, call](v1::WatchProcessResponse answer) { OnAnswer(call, std::move(answer)); },
      [this, call](const absl::Status& status) { OnEnd(call, status); });
}

void GuardTrace::OnAnswer(int call, v1::WatchProcessResponse answer) {
  const std::lock_guard lock(mutex_);
  if (call != calls_) return;
  if (recording_) {
    recording_->Add(answer);
  } else if (answer.has_sample()) {
    recording_.emplace(Recording::Begin(*std::exchange(writer_, std::nullopt), Recording::kInterval,
                                        subject_, answer));
    changed_.notify_all();
  }
}

void GuardTrace::OnEnd(int call, const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (call != calls_) return;
  watching_ = false;
  changed_.notify_all();
  if (status.ok()) return;
  if (DaemonIsGone(status)) {
    if (recording_) recording_->Interrupted("the daemon went away");
    return;
  }
  Note(absl::StrCat(std::string(status.message()), "; the command is recorded no further"));
}

void GuardTrace::End(int wait_status) {
  {
    std::unique_lock lock(mutex_);
    if (recording_) recording_->CommandEnded(wait_status);
    const bool told = changed_.wait_for(lock, absl::ToChronoMilliseconds(Recording::kLastWord),
                                        [this] { return !watching_; });
    if (!told && recording_) recording_->Unanswered();
    ++calls_;  // what comes now is too late
  }
  call_.reset();
  if (!recording_) {
    Note(absl::StrCat("nothing was recorded to ", path_));
    return;
  }
  recording_->End();
  Note(recording_->Line());
}

}  // namespace stageload::ctl
