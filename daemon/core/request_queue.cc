#include "daemon/core/request_queue.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"

namespace stageload::core {

RequestQueue::RequestQueue(std::map<std::string, int> group_limits)
    : group_limits_(std::move(group_limits)) {}

// ---- Coming and going ----

void RequestQueue::Add(const Instant& now, Request request) {
  const JobId id = request.record.id;
  const Rank rank = RankOf(request);
  now_ = now.awake;
  request.waits_since = now.continuous;
  request.waited_saved = now.continuous;
  request.due |= !request.record.begin_time || *request.record.begin_time <= now.wall;
  if (!request.due) begins_.emplace(*request.record.begin_time, id);
  if (request.give_up) give_ups_.emplace(*request.give_up, id);
  for (const JobId parent : request.parents) children_[parent].insert(id);
  busy_.Want(request.record.policy.busy);
  ranks_.insert(rank);
  places_.Insert(rank);
  Request& added = requests_.emplace(id, std::move(request)).first->second;
  if (added.record.held || IsHeldWithAll(added)) StopClock(added);
  Place(added);
}

RequestQueue::Request RequestQueue::Take(JobId id) {
  const auto found = requests_.find(id);
  Request& request = found->second;
  Unplace(request);
  ranks_.erase(RankOf(request));
  places_.Erase(RankOf(request));
  if (!request.due) begins_.erase({*request.record.begin_time, id});
  if (request.give_up) give_ups_.erase({*request.give_up, id});
  for (const JobId parent : request.parents) {
    const auto children = children_.find(parent);
    children->second.erase(id);
    if (children->second.empty()) children_.erase(children);
  }
  busy_.Unwant(request.record.policy.busy);
  Request taken = std::move(request);
  requests_.erase(found);
  return taken;
}

const RequestQueue::Request* RequestQueue::Find(JobId id) const {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : &found->second;
}

JobRecord& RequestQueue::RecordOf(JobId id) { return requests_.at(id).record; }

// ---- Lanes ----

void RequestQueue::Place(Request& request) {
  if (request.lane || request.record.held || !request.parents.empty() || !request.due ||
      IsHeldWithAll(request)) {
    return;
  }
  if (!request.give_up && request.record.policy.start_timeout) {
    request.give_up = now_ + request.give_up_in.value_or(*request.record.policy.start_timeout);
    request.give_up_in.reset();
    give_ups_.emplace(*request.give_up, request.record.id);
  }
  request.lane = LaneFor(request.record.policy, request.record.group);
  Change(*request.lane, [&](Lane& lane) { lane.waiting.insert(RankOf(request)); });
}

void RequestQueue::Unplace(Request& request) {
  if (!request.lane) return;
  const int id = *request.lane;
  request.lane.reset();
  Change(id, [&](Lane& lane) { lane.waiting.erase(RankOf(request)); });
  const Lane& lane = lanes_.at(id);
  if (!lane.waiting.empty()) return;
  quieting_.erase({lane.quiet_at, id});
  const auto group = groups_.find(lane.key.group);
  group->second.lanes.erase(id);
  if (group->second.lanes.empty() && group->second.active == 0) groups_.erase(group);
  lane_of_.erase(lane.key);
  lanes_.erase(id);
}

int RequestQueue::LaneFor(const Policy& policy, const std::string& group) {
  const LaneKey key{group, policy.busy,
                    policy.busy.empty() ? absl::ZeroDuration() : policy.quiet_for};
  const auto [found, added] = lane_of_.emplace(key, next_lane_);
  if (!added) return found->second;
  const int id = next_lane_++;
  groups_[group].lanes.insert(id);
  Lane& lane = lanes_[id];
  lane.key = key;
  lane.full = IsFull(group);
  SetQuiet(id);
  return id;
}

// Makes a change to a lane and keeps its place among the open ones.
void RequestQueue::Change(int id, const std::function<void(Lane&)>& change) {
  Lane& lane = lanes_.at(id);
  if (lane.open() && !lane.waiting.empty()) open_.erase({*lane.waiting.begin(), id});
  change(lane);
  if (lane.open() && !lane.waiting.empty()) open_.emplace(*lane.waiting.begin(), id);
}

void RequestQueue::SetQuiet(int id) {
  const Lane& lane = lanes_.at(id);
  if (lane.key.busy.empty()) return;
  const absl::Duration at = busy_.Of(lane.key.busy, lane.key.quiet_for).at;
  quieting_.erase({lane.quiet_at, id});
  Change(id, [&](Lane& changed) {
    changed.quiet_at = at;
    changed.busy = at > now_;
  });
  if (lane.busy && at < absl::InfiniteDuration()) quieting_.emplace(at, id);
}

std::optional<int> RequestQueue::LimitOf(const std::string& group) const {
  const auto limit = group_limits_.find(group);
  if (group.empty() || limit == group_limits_.end()) return std::nullopt;
  return limit->second;
}

bool RequestQueue::IsFull(const std::string& group) const {
  const std::optional<int> limit = LimitOf(group);
  if (!limit) return false;
  const auto found = groups_.find(group);
  return (found == groups_.end() ? 0 : found->second.active) >= *limit;
}

// ---- What opens and closes the way ----

void RequestQueue::Hold(JobId id, bool held) {
  Request& request = requests_.at(id);
  request.record.held = held;
  if (!held) return Place(request);
  Unplace(request);
  StopClock(request);
}

void RequestQueue::StopClock(Request& request) {
  if (!request.give_up) return;
  give_ups_.erase({*request.give_up, request.record.id});
  request.give_up_in = std::max(absl::ZeroDuration(), *request.give_up - now_);
  request.give_up.reset();
}

void RequestQueue::HoldAll(const Instant& now, std::string why) {
  now_ = now.awake;
  held_ = std::move(why);
  for (auto& [id, request] : requests_) {
    if (!IsHeldWithAll(request)) continue;
    Unplace(request);
    StopClock(request);
    AddWaited(now, request);
    request.waits_for = BlockerKind::kQueueHeld;
  }
}

void RequestQueue::ReleaseAll(const Instant& now) {
  now_ = now.awake;
  held_.reset();
  for (auto& [id, request] : requests_) {
    if (request.record.kind == JobKind::kJob) {
      AddWaited(now, request);
      request.waits_for.reset();
    }
    Place(request);
  }
}

void RequestQueue::SetGroupLimits(std::map<std::string, int> limits) {
  group_limits_ = std::move(limits);
  for (auto& [id, lane] : lanes_) {
    const bool full = IsFull(lane.key.group);
    if (lane.full != full) Change(id, [full](Lane& l) { l.full = full; });
  }
}

void RequestQueue::Occupy(const std::string& name, int change) {
  Group& group = groups_[name];
  group.active += change;
  const bool full = IsFull(name);
  for (const int lane : group.lanes) {
    if (lanes_.at(lane).full != full) Change(lane, [full](Lane& l) { l.full = full; });
  }
  if (group.active == 0 && group.lanes.empty()) groups_.erase(name);
}

void RequestQueue::Observe(absl::Duration now, const std::vector<BusyReading>& readings) {
  now_ = now;
  if (readings.empty()) return;
  busy_.Observe(now, readings);
  for (const auto& [id, lane] : lanes_) SetQuiet(id);
}

void RequestQueue::AdvanceTo(const Instant& now) {
  now_ = now.awake;
  while (!begins_.empty() && begins_.begin()->first <= now.wall) {
    Request& request = requests_.at(begins_.begin()->second);
    begins_.erase(begins_.begin());
    request.due = true;
    Place(request);
  }
  while (!quieting_.empty() && quieting_.begin()->first <= now.awake) {
    const int lane = quieting_.begin()->second;
    quieting_.erase(quieting_.begin());
    Change(lane, [](Lane& l) { l.busy = false; });
  }
}

std::vector<JobId> RequestQueue::ParentCompleted(JobId parent) {
  auto children = children_.extract(parent);
  if (children.empty()) return {};
  for (const JobId child : children.mapped()) {
    Request& request = requests_.at(child);
    request.parents.erase(parent);
    std::erase(request.record.after, parent);
    Place(request);
  }
  return {children.mapped().begin(), children.mapped().end()};
}

std::vector<JobId> RequestQueue::ChildrenOf(JobId parent) const {
  const auto found = children_.find(parent);
  if (found == children_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

void RequestQueue::AddWaited(const Instant& now, Request& request) {
  const absl::Duration time = now.continuous - std::exchange(request.waits_since, now.continuous);
  if (!request.waits_for || time <= absl::ZeroDuration()) return;
  std::vector<Waited>& waited = request.record.waited;
  const auto same = std::find_if(waited.begin(), waited.end(), [&](const Waited& each) {
    return each.kind == *request.waits_for;
  });
  if (same != waited.end()) {
    same->time += time;
  } else {
    waited.push_back({*request.waits_for, time, ""});
  }
}

void RequestQueue::CountWait(const Instant& now, JobId id, const std::vector<Blocker>& blockers) {
  Request& request = requests_.at(id);
  // Never looked at since it came: it has waited for this all the time.
  if (!request.waits_for && !blockers.empty()) request.waits_for = blockers.front().kind;
  AddWaited(now, request);
  if (blockers.empty()) return;
  request.waits_for = blockers.front().kind;
  for (Waited& each : request.record.waited) {
    if (each.kind == blockers.front().kind) each.text = blockers.front().text;
  }
}

std::optional<absl::Duration> RequestQueue::NextChange(const Instant& now) const {
  std::optional<absl::Duration> next;
  if (!quieting_.empty()) next = quieting_.begin()->first;
  if (!begins_.empty()) {
    const absl::Duration at = now.awake + (begins_.begin()->first - now.wall);
    next = std::min(next.value_or(at), at);
  }
  return next;
}

// ---- Questions ----

std::int64_t RequestQueue::PlaceOf(JobId id) const {
  const Request* request = Find(id);
  return request == nullptr ? 0 : places_.Of(RankOf(*request));
}

bool RequestQueue::IsCandidate(JobId id) const {
  const Request* request = Find(id);
  return request != nullptr && request->lane && lanes_.at(*request->lane).open();
}

std::optional<Blocker> RequestQueue::NotBefore(const Instant& now, const Request& request) const {
  if (request.due) return std::nullopt;
  const absl::Time begin = *request.record.begin_time;
  const absl::Duration left = begin - now.wall;
  return Blocker{BlockerKind::kNotBefore, absl::ToDoubleSeconds(now.wall - absl::UnixEpoch()),
                 absl::ToDoubleSeconds(begin - absl::UnixEpoch()),
                 absl::StrCat("not before ",
                              absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", begin, absl::UTCTimeZone()),
                              ", in ", FormatSpan(left)),
                 left};
}

std::optional<Blocker> RequestQueue::Busy(const Instant& now, const Policy& policy) const {
  const BusyWatch::Quiet quiet = busy_.Of(policy.busy, policy.quiet_for);
  if (quiet.at <= now.awake) return std::nullopt;
  Blocker blocker{BlockerKind::kBusy, 0, absl::ToDoubleSeconds(policy.quiet_for), ""};
  if (quiet.unread) {
    blocker.text = "busy programs were not looked for yet";
  } else if (quiet.at == absl::InfiniteDuration()) {
    blocker.text = absl::StrCat("process ", quiet.match, " matches \"", quiet.pattern, "\"");
  } else {
    const absl::Duration since = now.awake - *quiet.last_seen;
    blocker.read = absl::ToDoubleSeconds(since);
    blocker.text = absl::StrCat("quiet for ", FormatSpan(since), " since ",
                                quiet.match.empty() ? "it was first looked for" : quiet.match,
                                ", needs ", FormatSpan(policy.quiet_for));
    blocker.ends_in = quiet.at - now.awake;
  }
  return blocker;
}

std::optional<Blocker> RequestQueue::Full(const std::string& name) const {
  if (!IsFull(name)) return std::nullopt;
  const auto group = groups_.find(name);
  const int active = group == groups_.end() ? 0 : group->second.active;
  const int limit = *LimitOf(name);
  return Blocker{BlockerKind::kGroup, static_cast<double>(active), static_cast<double>(limit),
                 absl::StrCat(active, " of at most ", limit, " of group ", name, " run")};
}

std::vector<Blocker> RequestQueue::OwnBlockersOf(const Instant& now, JobId id) const {
  const Request& request = requests_.at(id);
  std::vector<Blocker> blockers;
  if (request.record.held) {
    blockers.push_back(
        {BlockerKind::kHeld, 1, 0,
         request.record.reason_text.empty()
             ? "held until it is released"
             : absl::StrCat("held until it is released: ", request.record.reason_text)});
  }
  if (IsHeldWithAll(request)) {
    blockers.push_back({BlockerKind::kQueueHeld, 1, 0,
                        absl::StrCat("the queue is held until it is released: ", *held_)});
  }
  if (!request.parents.empty()) {
    const std::string names =
        absl::StrJoin(request.parents, ", ",
                      [](std::string* out, JobId parent) { absl::StrAppend(out, Value(parent)); });
    blockers.push_back(
        {BlockerKind::kDependency, static_cast<double>(request.parents.size()), 0,
         absl::StrCat(request.parents.size() == 1 ? "starts after job " : "starts after jobs ",
                      names)});
  }
  for (const std::optional<Blocker>& blocker :
       {NotBefore(now, request), Busy(now, request.record.policy), Full(request.record.group)}) {
    if (blocker) blockers.push_back(*blocker);
  }
  return blockers;
}

std::vector<JobId> RequestQueue::GivingUp(absl::Duration now) const {
  std::vector<JobId> ids;
  for (const auto& [at, id] : give_ups_) {
    if (at > now) break;
    ids.push_back(id);
  }
  return ids;
}

std::optional<absl::Duration> RequestQueue::NextGiveUp() const {
  if (give_ups_.empty()) return std::nullopt;
  return give_ups_.begin()->first;
}

// ---- Candidates ----

RequestQueue::Candidates::Candidates(const RequestQueue& queue)
    : queue_(queue), head_(queue.open_.begin()) {}

const RequestQueue::Request* RequestQueue::Candidates::Next() {
  // The first of a lane not entered yet, or the next of one that was: whichever ranks first.
  if (head_ != queue_.open_.end() && (entered_.empty() || head_->first < entered_.top().rank)) {
    entered_.push({head_->first, head_->second});
    ++head_;
  }
  if (entered_.empty()) return nullptr;
  const Place place = entered_.top();
  entered_.pop();
  const std::set<Rank>& waiting = queue_.lanes_.at(place.lane).waiting;
  if (const auto next = waiting.upper_bound(place.rank); next != waiting.end()) {
    entered_.push({*next, place.lane});
  }
  return &queue_.requests_.at(place.rank.id);
}

}  // namespace stageload::core
