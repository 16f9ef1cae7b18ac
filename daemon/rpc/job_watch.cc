#include "daemon/rpc/job_watch.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "daemon/rpc/convert.h"
#include "daemon/rpc/status.h"

namespace stageload::rpc {
namespace {

using core::JobId;

// How many jobs are asked for at once: the engine does nothing else meanwhile.
constexpr std::size_t kAtOnce = 100;

class JobWatch final : public grpc::ServerWriteReactor<v1::WatchJobsResponse> {
 public:
  static JobWatch* Start(engine::Engine* engine, const v1::WatchJobsRequest& request) {
    std::shared_ptr<JobWatch> watch(new JobWatch(engine));
    watch->self_ = watch;
    for (const std::int64_t id : request.known_ids()) watch->changed_.insert(JobId{id});
    engine->WatchAll(watch->token_, [watch](absl::StatusOr<std::vector<JobId>> ids) {
      watch->Changed(std::move(ids));
    });
    return watch.get();
  }

  void OnWriteDone(bool ok) override {
    std::unique_lock<std::mutex> lock(mutex_);
    in_flight_ = false;
    if (!ok) cancelled_ = true;
    Pump(lock);
  }

  void OnCancel() override {
    std::unique_lock<std::mutex> lock(mutex_);
    cancelled_ = true;
    Pump(lock);
  }

  void OnDone() override {
    engine_->UnwatchAll(token_);
    const std::shared_ptr<JobWatch> self = std::move(self_);
  }

 private:
  explicit JobWatch(engine::Engine* engine) : engine_(engine), token_(engine->NewWatchToken()) {}

  void Changed(absl::StatusOr<std::vector<JobId>> ids) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!ids.ok()) {
      end_ = ids.status();
    } else {
      changed_.insert(ids->begin(), ids->end());
    }
    Pump(lock);
  }

  void Answered(const std::vector<JobId>& asked,
                const absl::StatusOr<std::vector<engine::JobView>>& jobs) {
    std::unique_lock<std::mutex> lock(mutex_);
    asking_ = false;
    if (!jobs.ok()) {
      end_ = jobs.status();
      return Pump(lock);
    }
    std::set<JobId> missing(asked.begin(), asked.end());
    for (const engine::JobView& job : *jobs) {
      missing.erase(job.record.id);
      *ready_.emplace_back().mutable_job() = ToProto(job);
    }
    for (const JobId id : missing) {
      v1::WatchJobsResponse& response = ready_.emplace_back();
      response.mutable_job()->set_id(core::Value(id));
      response.set_deleted(true);
    }
    Pump(lock);
  }

  // One write or one question at a time; Finish once, with no write in flight. Releases the lock
  // before it calls out.
  void Pump(std::unique_lock<std::mutex>& lock) {
    if (finished_ || in_flight_) return;
    if (cancelled_ || end_) {
      finished_ = true;
      const grpc::Status status =
          cancelled_ ? grpc::Status(grpc::StatusCode::CANCELLED, "the caller left") : ToGrpc(*end_);
      lock.unlock();
      Finish(status);
    } else if (!ready_.empty()) {
      message_ = std::move(ready_.front());
      ready_.pop_front();
      in_flight_ = true;
      lock.unlock();
      StartWrite(&message_);
    } else if (!changed_.empty() && !asking_) {
      Ask(lock);
    }
  }

  void Ask(std::unique_lock<std::mutex>& lock) {
    const auto end = std::next(changed_.begin(),
                               static_cast<std::ptrdiff_t>(std::min(kAtOnce, changed_.size())));
    const std::vector<JobId> ids(changed_.begin(), end);
    changed_.erase(changed_.begin(), end);
    asking_ = true;
    const std::shared_ptr<JobWatch> self = self_;
    lock.unlock();
    engine_->GetSome(ids, [self, ids](const absl::StatusOr<std::vector<engine::JobView>>& jobs) {
      self->Answered(ids, jobs);
    });
  }

  engine::Engine* const engine_;
  const engine::Engine::WatchToken token_;
  std::mutex mutex_;
  std::shared_ptr<JobWatch> self_;  // until OnDone
  std::set<JobId> changed_;         // and not asked for yet
  std::deque<v1::WatchJobsResponse> ready_;
  v1::WatchJobsResponse message_;
  std::optional<absl::Status> end_;
  bool asking_ = false;
  bool in_flight_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
};

}  // namespace

grpc::ServerWriteReactor<v1::WatchJobsResponse>* WatchJobs(engine::Engine* engine,
                                                           const v1::WatchJobsRequest& request) {
  return JobWatch::Start(engine, request);
}

}  // namespace stageload::rpc
