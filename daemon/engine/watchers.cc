#include "daemon/engine/watchers.h"

#include <algorithm>
#include <utility>

namespace stageload::engine {
namespace {

constexpr absl::Duration kFiguresEvery = absl::Seconds(2);

bool SameKinds(const std::vector<core::Blocker>& a, const std::vector<core::Blocker>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const core::Blocker& x, const core::Blocker& y) { return x.kind == y.kind; });
}

bool SameTexts(const std::vector<core::Blocker>& a, const std::vector<core::Blocker>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const core::Blocker& x, const core::Blocker& y) { return x.text == y.text; });
}

bool IsLast(const absl::StatusOr<JobView>& job) {
  return !job.ok() || core::IsEnd(job->record.state);
}

}  // namespace

bool ToldBlockers::IsNews(const std::vector<core::Blocker>& blockers, absl::Duration now) const {
  if (!SameKinds(blockers_, blockers)) return true;
  return now - told_ >= kFiguresEvery && !SameTexts(blockers_, blockers);
}

void Watchers::Add(Token token, core::JobId id, Engine::OnChange on_change,
                   const absl::StatusOr<JobView>& job) {
  on_change(job);
  if (IsLast(job)) return;
  by_job_[id].watchers[token] = std::move(on_change);
  by_token_[token] = id;
}

void Watchers::Remove(Token token) {
  const auto found = by_token_.find(token);
  if (found == by_token_.end()) return;
  const auto job = by_job_.find(found->second);
  job->second.watchers.erase(token);
  if (job->second.watchers.empty()) by_job_.erase(job);
  by_token_.erase(found);
}

std::vector<core::JobId> Watchers::Ids() const {
  std::vector<core::JobId> ids;
  for (const auto& [id, watched] : by_job_) ids.push_back(id);
  return ids;
}

void Watchers::Tell(core::JobId id, const absl::StatusOr<JobView>& job, absl::Duration now) {
  const auto found = by_job_.find(id);
  if (found == by_job_.end()) return;
  Watched& watched = found->second;
  for (auto& [token, on_change] : watched.watchers) on_change(job);
  if (IsLast(job)) {
    for (const auto& [token, on_change] : watched.watchers) by_token_.erase(token);
    by_job_.erase(found);
    return;
  }
  watched.told.Told(job->blockers, now);
}

bool Watchers::IsNews(core::JobId id, const std::vector<core::Blocker>& blockers,
                      absl::Duration now) const {
  const auto found = by_job_.find(id);
  return found != by_job_.end() && found->second.told.IsNews(blockers, now);
}

void Watchers::EndAll(const absl::Status& status) {
  for (auto& [id, watched] : by_job_) {
    for (auto& [token, on_change] : watched.watchers) on_change(status);
  }
  by_job_.clear();
  by_token_.clear();
}

}  // namespace stageload::engine
