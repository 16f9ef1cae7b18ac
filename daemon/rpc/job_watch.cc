#include "daemon/rpc/job_watch.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "daemon/rpc/convert.h"
#include "daemon/rpc/write_loop.h"

namespace stageload::rpc {
namespace {

using core::JobId;

// How many jobs are asked for at once: the engine does nothing else meanwhile.
constexpr std::size_t kAtOnce = 100;

class JobWatch final : public WriteLoop<v1::WatchJobsResponse> {
 public:
  static void Start(StreamCall<v1::WatchJobsResponse> call, engine::Engine* engine,
                    const v1::WatchJobsRequest& request) {
    std::shared_ptr<JobWatch> watch(new JobWatch(call.call(), engine));
    watch->Keep(watch);
    for (const std::int64_t id : request.known_ids()) watch->changed_.insert(JobId{id});
    engine->WatchAll(watch->token_, [watch](absl::StatusOr<std::vector<JobId>> ids) {
      watch->Changed(std::move(ids));
    });
  }

 private:
  JobWatch(Call& call, engine::Engine* engine)
      : WriteLoop(call, AtEnd::kLeaveIt), engine_(engine), token_(engine->NewWatchToken()) {}

  void Changed(absl::StatusOr<std::vector<JobId>> ids) {
    Lock lock = Locked();
    if (!ids.ok()) return EndWith(lock, ids.status());
    changed_.insert(ids->begin(), ids->end());
    Pump(lock);
  }

  bool Take(v1::WatchJobsResponse& message) override {
    if (ready_.empty()) return false;
    message = std::move(ready_.front());
    ready_.pop_front();
    return true;
  }

  // Asks for the next of those that have changed.
  void Idle(Lock& lock) override {
    if (changed_.empty() || asking_) return;
    const auto end = std::next(changed_.begin(),
                               static_cast<std::ptrdiff_t>(std::min(kAtOnce, changed_.size())));
    const std::vector<JobId> ids(changed_.begin(), end);
    changed_.erase(changed_.begin(), end);
    asking_ = true;
    const auto self = std::static_pointer_cast<JobWatch>(kept());
    lock.unlock();
    engine_->GetSome(ids, [self, ids](const absl::StatusOr<std::vector<engine::JobView>>& jobs) {
      self->Answered(ids, jobs);
    });
  }

  void Answered(const std::vector<JobId>& asked,
                const absl::StatusOr<std::vector<engine::JobView>>& jobs) {
    Lock lock = Locked();
    asking_ = false;
    if (!jobs.ok()) return EndWith(lock, jobs.status());
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

  void Gone() override { engine_->UnwatchAll(token_); }

  engine::Engine* const engine_;
  const engine::Engine::WatchToken token_;
  std::set<JobId> changed_;  // and not asked for yet
  std::deque<v1::WatchJobsResponse> ready_;
  bool asking_ = false;
};

}  // namespace

void WatchJobs(StreamCall<v1::WatchJobsResponse> call, engine::Engine* engine,
               const v1::WatchJobsRequest& request) {
  JobWatch::Start(call, engine, request);
}

}  // namespace stageload::rpc
