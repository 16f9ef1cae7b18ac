// Who wants to hear of which job.
//
// Threading: the engine's thread.
#ifndef STAGELOAD_DAEMON_ENGINE_WATCHERS_H_
#define STAGELOAD_DAEMON_ENGINE_WATCHERS_H_

#include <map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/core/blocker.h"
#include "daemon/engine/engine.h"

namespace stageload::engine {

// What one who waits was last told of what blocks it.
class ToldBlockers {
 public:
  // Whether it is worth telling again: other reasons at once, other figures at most every two
  // seconds.
  bool IsNews(const std::vector<core::Blocker>& blockers, absl::Duration now) const;
  void Told(std::vector<core::Blocker> blockers, absl::Duration now) {
    blockers_ = std::move(blockers);
    told_ = now;
  }

 private:
  std::vector<core::Blocker> blockers_;
  absl::Duration told_ = -absl::InfiniteDuration();
};

class Watchers {
 public:
  using Token = Engine::WatchToken;

  // Tells the new watcher how the job is now.
  void Add(Token token, core::JobId id, Engine::OnChange on_change,
           const absl::StatusOr<JobView>& job);
  void Remove(Token token);
  bool Watches(core::JobId id) const { return by_job_.count(id) > 0; }
  std::vector<core::JobId> Ids() const;

  // Tells all watchers of the job. An error or an end state is the last that they hear.
  void Tell(core::JobId id, const absl::StatusOr<JobView>& job, absl::Duration now);
  // Whether what blocks a waiting job is worth telling its watchers.
  bool IsNews(core::JobId id, const std::vector<core::Blocker>& blockers, absl::Duration now) const;
  void EndAll(const absl::Status& status);

 private:
  struct Watched {
    std::map<Token, Engine::OnChange> watchers;
    ToldBlockers told;
  };

  std::map<core::JobId, Watched> by_job_;
  std::map<Token, core::JobId> by_token_;
};

}  // namespace stageload::engine

#endif  // STAGELOAD_DAEMON_ENGINE_WATCHERS_H_
