// The calls of JobService that wait.
#include "client/ctl/job_follow.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/ctl/call.h"
#include "client/ctl/errors.h"
#include "client/ctl/outcome.h"
#include "client/ctl/print.h"
#include "stageload/v1/job_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

constexpr std::chrono::milliseconds kRefresh(500);

// Keeps a terminal's figures fresh: WaitJob tells when what blocks changes, not each new reading.
class Refresher {
 public:
  Refresher(const Connection& connection, std::int64_t id, Progress& progress)
      : thread_([this, &connection, id, &progress] { Loop(connection, id, progress); }) {}
  Refresher(const Refresher&) = delete;
  Refresher& operator=(const Refresher&) = delete;
  ~Refresher() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

 private:
  void Loop(const Connection& connection, std::int64_t id, Progress& progress) {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kRefresh, [this] { return done_; })) {
      lock.unlock();
      const absl::StatusOr<v1::Job> job = GetJob(connection, id);
      lock.lock();
      if (done_ || !job.ok() || job->state() != v1::JOB_STATE_PENDING) return;
      progress.Waiting(*job);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the others
};

// Until the daemon goes away.
absl::StatusOr<v1::Job> AwaitOnce(const Connection& connection, std::int64_t id,
                                  const std::function<bool(const v1::Job&)>& enough,
                                  Progress& progress) {
  grpc::ClientContext context;
  v1::WaitJobRequest request;
  request.set_id(id);
  const auto stub = v1::JobService::NewStub(connection.channel);
  const auto reader = stub->WaitJob(&context, request);
  std::unique_ptr<Refresher> refresher;
  v1::WaitJobResponse response;
  while (reader->Read(&response)) {
    if (enough(response.job())) {
      context.TryCancel();
      refresher.reset();
      progress.Clear();
      return response.job();
    }
    if (response.job().state() != v1::JOB_STATE_PENDING) {
      refresher.reset();
      progress.Clear();
      continue;
    }
    progress.Waiting(response.job());
    if (!refresher && progress.terminal()) {
      refresher = std::make_unique<Refresher>(connection, id, progress);
    }
  }
  refresher.reset();
  progress.Clear();
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return FromGrpc(status);
  return absl::InternalError(
      absl::StrCat("the daemon stopped telling about job ", id, " before its end"));
}

// How far a log was read, so that another daemon can go on from there: bytes of output, those that
// were dropped or left out included.
class LogPosition {
 public:
  void Restart() { cursor_ = 0; }
  bool started() const { return seen_ > 0; }
  // Leaves of `piece` what was not seen yet; false when all of it was.
  bool Unseen(v1::ReadLogsResponse& piece) {
    cursor_ += piece.skipped_bytes() + piece.dropped_bytes();
    if (cursor_ <= seen_) piece.set_dropped_bytes(0);
    const auto size = static_cast<std::int64_t>(piece.data().size());
    const std::int64_t known = std::clamp<std::int64_t>(seen_ - cursor_, 0, size);
    cursor_ += size;
    seen_ = std::max(seen_, cursor_);
    if (known == 0) return true;
    piece.mutable_data()->erase(0, static_cast<std::size_t>(known));
    return known < size;
  }

 private:
  std::int64_t cursor_ = 0;  // of this reading
  std::int64_t seen_ = 0;    // of all
};

absl::Status ReadOnce(const Connection& connection, v1::ReadLogsRequest request,
                      LogPosition& position,
                      const std::function<bool(const v1::ReadLogsResponse&)>& sink) {
  // Other lines are the last ones by now; what comes before those that were read is passed over.
  if (position.started()) request.clear_tail_lines();
  grpc::ClientContext context;
  const auto stub = v1::JobService::NewStub(connection.channel);
  const auto reader = stub->ReadLogs(&context, request);
  position.Restart();
  v1::ReadLogsResponse response;
  while (reader->Read(&response)) {
    if (!position.Unseen(response) || sink(response)) continue;
    context.TryCancel();
    return absl::OkStatus();
  }
  return FromGrpc(reader->Finish());
}

}  // namespace

absl::StatusOr<v1::Job> GetJob(const Connection& connection, std::int64_t id) {
  v1::GetJobRequest request;
  request.set_id(id);
  return CallForJob<v1::GetJobRequest, v1::GetJobResponse>(connection,
                                                           &v1::JobService::Stub::GetJob, request);
}

absl::StatusOr<v1::Job> CancelJob(const Connection& connection, std::int64_t id) {
  v1::CancelJobRequest request;
  request.set_id(id);
  return CallForJob<v1::CancelJobRequest, v1::CancelJobResponse>(
      connection, &v1::JobService::Stub::CancelJob, request);
}

absl::StatusOr<v1::Job> AwaitJob(const Connection& connection, std::int64_t id,
                                 const std::function<bool(const v1::Job&)>& enough,
                                 Progress& progress) {
  return AskUntilAnswered(connection, [&](const Connection& current) {
    return AwaitOnce(current, id, enough, progress);
  });
}

absl::StatusOr<v1::Job> AwaitEnd(const Connection& connection, std::int64_t id,
                                 Progress& progress) {
  return AwaitJob(
      connection, id, [](const v1::Job& job) { return IsEnd(job.state()); }, progress);
}

absl::Status ReadLogs(const Connection& connection, const v1::ReadLogsRequest& request,
                      const std::function<bool(const v1::ReadLogsResponse&)>& sink) {
  LogPosition position;
  return AskUntilAnswered(connection, [&](const Connection& current) {
    return ReadOnce(current, request, position, sink);
  });
}

bool CopyPiece(const v1::ReadLogsResponse& piece) {
  if (piece.dropped_bytes() > 0) {
    Note(absl::StrCat(FormatBytes(Bytes(piece.dropped_bytes())), " of output were dropped here"));
  }
  const std::string data(piece.data());
  return piece.stream() == v1::LOG_STREAM_STDERR ? WriteAll(STDERR_FILENO, data) : Out(data);
}

absl::StatusOr<v1::Job> FollowJob(const Connection& connection, std::int64_t id) {
  Progress progress;
  absl::StatusOr<v1::Job> job = AwaitJob(
      connection, id, [](const v1::Job& seen) { return seen.state() != v1::JOB_STATE_PENDING; },
      progress);
  if (!job.ok()) return job;
  v1::ReadLogsRequest request;
  request.set_id(id);
  request.set_follow(true);
  // A job that never started has no log; how it ended is what counts.
  const bool started = job->has_start_time_ns() || !IsEnd(job->state());
  bool copied = true;
  if (started) {
    const absl::Status status =
        ReadLogs(connection, request, [&copied](const v1::ReadLogsResponse& piece) {
          copied = CopyPiece(piece);
          return copied;
        });
    if (!status.ok()) return status;
  }
  job = AwaitEnd(connection, id, progress);
  if (copied || !job.ok()) return job;
  if (const std::string line = EndLine(*job); !line.empty()) Note(line);
  return absl::DataLossError(absl::StrCat("the output of job ", id,
                                          " could not be copied to its end; `stageloadctl logs ",
                                          id, "` has all of it"));
}

int Finish(const absl::StatusOr<v1::Job>& job) {
  if (!job.ok()) return Fail(job.status());
  if (const std::string line = EndLine(*job); !line.empty()) Note(line);
  return ExitCodeOf(*job);
}

}  // namespace stageload::ctl
