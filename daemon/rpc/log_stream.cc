#include "daemon/rpc/log_stream.h"

#include <grpcpp/alarm.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "daemon/rpc/status.h"

namespace stageload::rpc {
namespace {

constexpr std::chrono::milliseconds kLookAgain{100};

// Of a job that was started, and so had one.
bool IsGone(const std::string& folder) {
  std::error_code ignored;  // what cannot be looked at may be there
  return std::filesystem::status(folder, ignored).type() == std::filesystem::file_type::not_found;
}

// Its steps (a look at the log, a write, a rest) follow one another, each started by the one
// before, so only what OnCancel and the job's watcher touch is shared.
class LogStream final : public StreamReactions {
 public:
  static void Start(StreamCall<v1::ReadLogsResponse> call, engine::Engine* engine,
                    OpenStreams& streams, core::JobId id, const LogQuery& query) {
    std::shared_ptr<LogStream> stream(new LogStream(call.call(), engine, streams, id, query));
    stream->self_ = stream;
    call.call().Bind(stream.get());
    stream->key_ = streams.Add([weak = std::weak_ptr<LogStream>(stream)](const auto&) {
      if (const auto open = weak.lock()) open->Break();
    });
    engine->Get(id,
                [stream](absl::StatusOr<engine::JobView> job) { stream->Open(std::move(job)); });
  }

  void OnWriteDone(bool ok) override {
    if (!ok) cancelled_ = true;
    Next();
  }

  void OnCancel() override {
    cancelled_ = true;
    Wake();
  }

  void OnDone() override {
    if (token_) engine_->Unwatch(*token_);
    streams_.Remove(key_);
    const std::shared_ptr<LogStream> self = std::move(self_);
  }

 private:
  LogStream(Call& call, engine::Engine* engine, OpenStreams& streams, core::JobId id,
            const LogQuery& query)
      : call_(call), engine_(engine), streams_(streams), id_(id), query_(query) {}

  void Open(absl::StatusOr<engine::JobView> job) {
    if (!job.ok()) return call_.Finish(ToGrpc(job.status()));
    if (job->record.kind == core::JobKind::kGuard) {
      return call_.Finish(ToGrpc(absl::FailedPreconditionError(
          absl::StrCat("job ", core::Value(id_),
                       " is a guarded command; its output went to its own terminal"))));
    }
    reader_.emplace(job->folder, query_.stream, query_.tail_lines);
    folder_ = job->folder;
    has_log_ = job->pid || (core::IsEnd(job->record.state) && job->record.start_time);
    if (query_.follow) {
      token_ = engine_->NewWatchToken();
      engine_->Watch(*token_, id_,
                     [stream = self_](const absl::StatusOr<engine::JobView>& changed) {
                       if (!changed.ok()) return stream->Break();
                       if (changed->pid) stream->has_log_ = true;
                       if (!core::IsEnd(changed->record.state)) return;
                       stream->ended_ = true;
                       stream->Wake();
                     });
    } else {
      ended_ = true;
    }
    // Not here: this is the engine's thread, and a log may lie on a slow disk.
    Rest(std::chrono::milliseconds(0));
  }

  void Next() {
    if (cancelled_) {
      return call_.Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the caller went away"));
    }
    // Before the log: one that grows faster than it is read must not hold up the end.
    if (broken_) {
      return call_.Finish(
          ToGrpc(WithReason(absl::UnavailableError("the daemon is shutting down"), kShuttingDown)));
    }
    // Read before the log is: what was written before the end is then in it.
    const bool ended = ended_;
    absl::StatusOr<std::optional<jobs::LogPiece>> piece = reader_->Next();
    if (!piece.ok()) return call_.Finish(ToGrpc(piece.status()));
    if (piece->has_value()) {
      has_log_ = true;
      return Write(*std::move(*piece));
    }
    if (has_log_ && IsGone(folder_)) {
      return call_.Finish(ToGrpc(absl::DataLossError(
          absl::StrCat("the log of job ", core::Value(id_), " is gone: there is no ", folder_,
                       ", which was removed, or could not be made at its start"))));
    }
    if (ended) return call_.Finish(grpc::Status::OK);
    Rest(kLookAgain);
  }

  void Write(jobs::LogPiece piece) {
    v1::ReadLogsResponse response;
    response.set_stream(piece.stream == jobs::LogStream::kStderr ? v1::LOG_STREAM_STDERR
                                                                 : v1::LOG_STREAM_STDOUT);
    response.set_time_ns(absl::ToUnixNanos(piece.time));
    response.set_dropped_bytes(piece.dropped.count());
    response.set_skipped_bytes(piece.skipped.count());
    response.set_data(piece.data.data(), piece.data.size());
    call_.Write(Serialized(response));
  }

  // What ends the stream is looked at in Next(), and by nobody else.
  void Break() {
    broken_ = true;
    Wake();
  }

  // Ends a rest; nothing else is waited for here.
  void Wake() {
    std::shared_ptr<grpc::Alarm> alarm;  // cancelled outside the lock, which its ringing may take
    {
      const std::lock_guard<std::mutex> lock(alarm_mutex_);
      alarm = alarm_;
    }
    if (alarm) alarm->Cancel();
  }

  void Rest(std::chrono::milliseconds duration) {
    // The alarm may ring, and all be over, before this returns.
    const std::shared_ptr<LogStream> self = self_;
    const std::lock_guard<std::mutex> lock(alarm_mutex_);
    // What came before the alarm was set must not wait for it to ring by itself.
    const bool now = cancelled_ || broken_;
    const auto at =
        std::chrono::system_clock::now() + (now ? std::chrono::milliseconds(0) : duration);
    // A new one each time: the old one may be ringing, which is how we got here.
    alarm_ = std::make_shared<grpc::Alarm>();
    alarm_->Set(at, [this](bool) { Next(); });
  }

  Call& call_;
  engine::Engine* const engine_;
  OpenStreams& streams_;
  const core::JobId id_;
  const LogQuery query_;
  std::shared_ptr<LogStream> self_;  // until OnDone
  std::uint64_t key_ = 0;
  std::optional<jobs::LogReader> reader_;
  std::string folder_;
  std::atomic<bool> has_log_ = false;
  std::optional<engine::Engine::WatchToken> token_;
  std::atomic<bool> ended_ = false;
  std::atomic<bool> broken_ = false;
  std::atomic<bool> cancelled_ = false;
  std::mutex alarm_mutex_;
  std::shared_ptr<grpc::Alarm> alarm_;
};

jobs::LogStream ToLogStream(v1::LogStream stream) {
  if (stream == v1::LOG_STREAM_STDOUT) return jobs::LogStream::kStdout;
  if (stream == v1::LOG_STREAM_STDERR) return jobs::LogStream::kStderr;
  return jobs::LogStream::kBoth;
}

}  // namespace

absl::StatusOr<LogQuery> ToLogQuery(const v1::ReadLogsRequest& request) {
  LogQuery query;
  query.stream = ToLogStream(request.stream());
  query.follow = request.follow();
  if (request.has_tail_lines()) {
    if (request.tail_lines() < 0) {
      return WithReason(
          absl::InvalidArgumentError(absl::StrCat("tail_lines: ", request.tail_lines(),
                                                  " is no number of lines; give 0 or more")),
          kInvalidField, "tail_lines");
    }
    query.tail_lines = request.tail_lines();
  }
  return query;
}

void StreamLog(StreamCall<v1::ReadLogsResponse> call, engine::Engine* engine, OpenStreams& streams,
               core::JobId id, const LogQuery& query) {
  LogStream::Start(call, engine, streams, id, query);
}

}  // namespace stageload::rpc
