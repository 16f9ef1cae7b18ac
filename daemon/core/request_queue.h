// Starts that wait, in the order in which they may go, with everything in place that makes the next
// ones quick to find among 100,000. A start that waits for something of its own (held, a job before
// it, its begin time, a full group, a busy program) is never in the way of others: it is not among
// the candidates until that is over.
//
// Candidates stand in lanes, one for each pair of group and busy patterns in use. A lane opens and
// closes as a whole, so a group that fills up or a program that appears costs the same however many
// wait behind it.
//
// Threading: one owner; no I/O, no clock.
#ifndef STAGELOAD_DAEMON_CORE_REQUEST_QUEUE_H_
#define STAGELOAD_DAEMON_CORE_REQUEST_QUEUE_H_

#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/instant.h"
#include "daemon/core/blocker.h"
#include "daemon/core/busy_watch.h"
#include "daemon/core/ids.h"
#include "daemon/core/job.h"
#include "daemon/core/rank.h"

namespace stageload::core {

class RequestQueue {
 public:
  struct Request {
    JobRecord record;
    // Instant::awake. Left out, its start timeout counts from when nothing of its own but a group
    // or a busy program holds it.
    std::optional<absl::Duration> give_up;
    std::set<JobId> parents;  // of record.after, those that have not ended
    bool due = false;         // its begin time was reached, whatever the clock says since
    // What was left of its start timeout when it was held, or the queue was.
    std::optional<absl::Duration> give_up_in;
    // What it waits for since it was last looked at (Instant::continuous); absent before that.
    std::optional<BlockerKind> waits_for;
    absl::Duration waits_since;
    absl::Duration waited_saved;  // Instant::continuous, when its row was last written
    std::optional<int> lane;      // while nothing of its own but the lane's holds it
  };

  // `group_limits` as in Config.
  explicit RequestQueue(std::map<std::string, int> group_limits);

  void Add(const Instant& now, Request request);
  Request Take(JobId id);  // must be there
  const Request* Find(JobId id) const;
  JobRecord& RecordOf(JobId id);  // for what does not decide its place
  bool empty() const { return requests_.empty(); }
  int size() const { return static_cast<int>(requests_.size()); }

  // What opens and closes the way. The start timeout of what is held stands still.
  void Hold(JobId id, bool held);
  // All jobs at once, also those to come.
  void HoldAll(const Instant& now, std::string why);
  void ReleaseAll(const Instant& now);
  const std::optional<std::string>& held() const { return held_; }  // why
  void SetGroupLimits(std::map<std::string, int> limits);
  void Occupy(const std::string& group, int change);  // a client of it started (1) or ended (-1)
  void Observe(absl::Duration now, const std::vector<BusyReading>& readings);
  void AdvanceTo(const Instant& now);  // begin times and quiet times that have come
  // The parent ended well: its children, which are returned, wait for one fewer.
  std::vector<JobId> ParentCompleted(JobId parent);
  std::vector<JobId> ChildrenOf(JobId parent) const;  // that wait for it

  // The next moment at which AdvanceTo() would change something, as Instant::awake.
  std::optional<absl::Duration> NextChange(const Instant& now) const;
  std::vector<std::string> BusyPatterns() const { return busy_.Patterns(); }

  // Puts the time since the last look down to what it waited for then; from now on it waits for the
  // first of `blockers`.
  void CountWait(const Instant& now, JobId id, const std::vector<Blocker>& blockers);
  bool WasSavedSince(JobId id, absl::Duration then) const {  // Instant::continuous
    return requests_.at(id).waited_saved > then;
  }
  void MarkSaved(JobId id, absl::Duration now) { requests_.at(id).waited_saved = now; }

  // Everything of its own that keeps it from being a candidate.
  std::vector<Blocker> OwnBlockersOf(const Instant& now, JobId id) const;
  bool IsCandidate(JobId id) const;

  // All that wait, in order.
  const std::set<Rank>& ranks() const { return ranks_; }
  // The place in that order, from 1; 0 for one that does not wait.
  std::int64_t PlaceOf(JobId id) const;
  // Those whose give-up time has come, and the next such time.
  std::vector<JobId> GivingUp(absl::Duration now) const;
  std::optional<absl::Duration> NextGiveUp() const;

  // Walks the candidates in order: O(log n) a step. Valid until the queue changes.
  class Candidates {
   public:
    explicit Candidates(const RequestQueue& queue);
    const Request* Next();  // null at the end

   private:
    struct Place {
      Rank rank;
      int lane = 0;
      friend bool operator>(const Place& a, const Place& b) { return a.rank > b.rank; }
    };
    const RequestQueue& queue_;
    std::set<std::pair<Rank, int>>::const_iterator head_;  // of lanes not entered yet
    std::priority_queue<Place, std::vector<Place>, std::greater<>> entered_;
  };

 private:
  struct LaneKey {
    std::string group;
    std::vector<std::string> busy;
    absl::Duration quiet_for;
    friend bool operator<(const LaneKey& a, const LaneKey& b) {
      return std::tie(a.group, a.busy, a.quiet_for) < std::tie(b.group, b.busy, b.quiet_for);
    }
  };
  struct Lane {
    LaneKey key;
    std::set<Rank> waiting;                               // never empty
    bool full = false;                                    // its group
    absl::Duration quiet_at = -absl::InfiniteDuration();  // Instant::awake
    bool busy = false;
    bool open() const { return !full && !busy; }
  };
  struct Group {
    int active = 0;
    std::set<int> lanes;
  };

  static Rank RankOf(const Request& request) {
    return {request.record.policy.priority, request.record.id};
  }
  void Place(Request& request);    // into its lane, if nothing of its own holds it
  void Unplace(Request& request);  // out of its lane, if it is in one
  int LaneFor(const Policy& policy, const std::string& group);
  void Change(int lane, const std::function<void(Lane&)>& change);
  void SetQuiet(int lane);
  std::optional<int> LimitOf(const std::string& group) const;
  bool IsFull(const std::string& group) const;
  std::optional<Blocker> NotBefore(const Instant& now, const Request& request) const;
  std::optional<Blocker> Busy(const Instant& now, const Policy& policy) const;
  std::optional<Blocker> Full(const std::string& group) const;

  bool IsHeldWithAll(const Request& request) const {
    return held_ && request.record.kind == JobKind::kJob;
  }
  void StopClock(Request& request);
  static void AddWaited(const Instant& now, Request& request);

  std::map<std::string, int> group_limits_;
  std::optional<std::string> held_;
  std::map<JobId, Request> requests_;
  std::set<Rank> ranks_;
  Places places_;
  std::set<std::pair<absl::Duration, JobId>> give_ups_;
  std::set<std::pair<absl::Time, JobId>> begins_;  // not due yet
  std::map<JobId, std::set<JobId>> children_;      // parent -> who waits for it

  absl::Duration now_ = -absl::InfiniteDuration();  // Instant::awake of the last change
  BusyWatch busy_;
  std::map<std::string, Group> groups_;
  std::map<LaneKey, int> lane_of_;
  std::map<int, Lane> lanes_;
  std::set<std::pair<Rank, int>> open_;                // by the first of each open lane
  std::set<std::pair<absl::Duration, int>> quieting_;  // lanes that will be quiet, by when
  int next_lane_ = 0;
};

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_REQUEST_QUEUE_H_
