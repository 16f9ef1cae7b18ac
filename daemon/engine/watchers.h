// Who wants to hear of which job.
//
// Threading: the engine's thread.
#ifndef STAGELOAD_DAEMON_ENGINE_WATCHERS_H_
#define STAGELOAD_DAEMON_ENGINE_WATCHERS_H_

#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/engine/engine.h"

namespace stageload::engine {

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
  // Whether what blocks a waiting job is worth telling: other reasons at once, other figures at
  // most every two seconds.
  bool IsNews(core::JobId id, const std::vector<core::Blocker>& blockers, absl::Duration now) const;
  void EndAll(const absl::Status& status);

 private:
  struct Watched {
    std::map<Token, Engine::OnChange> watchers;
    std::vector<core::Blocker> blockers;  // as last told
    absl::Duration told = -absl::InfiniteDuration();
  };

  std::map<core::JobId, Watched> by_job_;
  std::map<Token, core::JobId> by_token_;
};

}  // namespace stageload::engine

#endif  // STAGELOAD_DAEMON_ENGINE_WATCHERS_H_
