// The order in which starts may go, and what opens and closes the way.
#include "daemon/core/request_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stageload::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Instant kNow{absl::Seconds(100), absl::Seconds(100), absl::UnixEpoch()};

RequestQueue::Request Wants(int id, int priority = 0, const std::string& group = "",
                            std::vector<std::string> busy = {}) {
  RequestQueue::Request request;
  request.record.id = JobId{id};
  request.record.policy.priority = priority;
  request.record.policy.busy = std::move(busy);
  request.record.group = group;
  return request;
}

std::vector<int> CandidatesOf(const RequestQueue& queue) {
  std::vector<int> ids;
  RequestQueue::Candidates candidates(queue);
  while (const auto* request = candidates.Next()) {
    ids.push_back(static_cast<int>(Value(request->record.id)));
  }
  return ids;
}

Instant After(absl::Duration time) {
  return {kNow.awake + time, kNow.continuous + time, kNow.wall + time};
}

TEST(RequestQueue, CandidatesComeByPriorityThenArrivalAcrossAllLanes) {
  RequestQueue queue({});
  queue.Add(kNow, Wants(1, 0, "a"));
  queue.Add(kNow, Wants(2, 5));
  queue.Add(kNow, Wants(3, 0, "b"));
  queue.Add(kNow, Wants(4, 0, "a"));
  queue.Add(kNow, Wants(5, 9, "b"));
  queue.Add(kNow, Wants(6, -1));
  EXPECT_THAT(CandidatesOf(queue), ElementsAre(5, 2, 1, 3, 4, 6));
  queue.Take(JobId{1});
  EXPECT_THAT(CandidatesOf(queue), ElementsAre(5, 2, 3, 4, 6));
}

TEST(RequestQueue, FullGroupClosesItsLanesAndNoOther) {
  RequestQueue queue({{"gpu", 2}});
  for (const int id : {1, 2, 3}) queue.Add(kNow, Wants(id, 0, "gpu"));
  queue.Add(kNow, Wants(4, 0, "cpu"));
  queue.Occupy("gpu", 1);
  EXPECT_THAT(CandidatesOf(queue), ElementsAre(1, 2, 3, 4));
  queue.Occupy("gpu", 1);
  EXPECT_THAT(CandidatesOf(queue), ElementsAre(4));
  queue.Add(kNow, Wants(5, 9, "gpu"));  // comes to a lane that is closed
  EXPECT_THAT(CandidatesOf(queue), ElementsAre(4));
  queue.Occupy("gpu", -1);
  EXPECT_THAT(CandidatesOf(queue), ElementsAre(5, 1, 2, 3, 4));
}

TEST(RequestQueue, GroupThatFilledUpBeforeAnyoneWaitedIsFullForWhoComes) {
  RequestQueue queue({{"gpu", 1}});
  queue.Occupy("gpu", 1);
  queue.Add(kNow, Wants(1, 0, "gpu"));
  EXPECT_THAT(CandidatesOf(queue), IsEmpty());
  EXPECT_EQ(queue.OwnBlockersOf(kNow, JobId{1})[0].kind, BlockerKind::kGroup);
}

TEST(RequestQueue, BusyProgramClosesOnlyTheLanesThatWaitForIt) {
  RequestQueue queue({});
  queue.Add(kNow, Wants(1, 0, "", {"ollama"}));
  queue.Add(kNow, Wants(2, 0, "", {"ollama", "comfy"}));
  queue.Add(kNow, Wants(3, 0, "", {"comfy"}));
  queue.Add(kNow, Wants(4));
  EXPECT_THAT(CandidatesOf(queue), ElementsAre(4));  // nobody has looked yet
  queue.Observe(kNow.awake, {{"comfy", ""}, {"ollama", "9 ollama"}});
  queue.AdvanceTo(After(absl::Minutes(1)));
  EXPECT_THAT(CandidatesOf(queue), ElementsAre(3, 4));
  const Instant later = After(absl::Seconds(61));
  queue.AdvanceTo(later);
  queue.Observe(later.awake, {{"comfy", ""}, {"ollama", ""}});
  EXPECT_THAT(CandidatesOf(queue), ElementsAre(3, 4));
  EXPECT_EQ(queue.NextChange(later), later.awake + absl::Minutes(1));
  queue.AdvanceTo(After(absl::Seconds(121)));
  EXPECT_THAT(CandidatesOf(queue), ElementsAre(1, 2, 3, 4));
}

TEST(RequestQueue, PatternNobodyWaitsForAnyMoreIsNotLookedFor) {
  RequestQueue queue({});
  queue.Add(kNow, Wants(1, 0, "", {"a", "b"}));
  queue.Add(kNow, Wants(2, 0, "", {"b"}));
  EXPECT_THAT(queue.BusyPatterns(), ElementsAre("a", "b"));
  queue.Take(JobId{1});
  EXPECT_THAT(queue.BusyPatterns(), ElementsAre("b"));
  queue.Take(JobId{2});
  EXPECT_THAT(queue.BusyPatterns(), IsEmpty());
}

TEST(RequestQueue, BeginTimeIsWallTimeAndOnceItHasComeItHasCome) {
  RequestQueue queue({});
  RequestQueue::Request later = Wants(1);
  later.record.begin_time = kNow.wall + absl::Seconds(10);
  queue.Add(kNow, std::move(later));
  EXPECT_EQ(queue.NextChange(kNow), kNow.awake + absl::Seconds(10));
  Instant set_forward = kNow;
  set_forward.wall += absl::Hours(1);
  queue.AdvanceTo(set_forward);
  EXPECT_THAT(CandidatesOf(queue), ElementsAre(1));
  queue.AdvanceTo(kNow);  // and set back
  EXPECT_THAT(CandidatesOf(queue), ElementsAre(1));
}

TEST(RequestQueue, OneThatWaitsForSeveralThingsIsACandidateOnlyAfterTheLast) {
  RequestQueue queue({{"gpu", 1}});
  queue.Occupy("gpu", 1);
  RequestQueue::Request request = Wants(9, 0, "gpu");
  request.record.held = true;
  request.record.begin_time = kNow.wall + absl::Seconds(1);
  request.parents = {JobId{3}};
  queue.Add(kNow, std::move(request));
  EXPECT_EQ(queue.OwnBlockersOf(kNow, JobId{9}).size(), 4u);
  queue.Hold(JobId{9}, false);
  queue.ParentCompleted(JobId{3});
  queue.AdvanceTo(After(absl::Seconds(1)));
  EXPECT_FALSE(queue.IsCandidate(JobId{9}));
  queue.Occupy("gpu", -1);
  EXPECT_TRUE(queue.IsCandidate(JobId{9}));
  queue.Hold(JobId{9}, true);
  EXPECT_FALSE(queue.IsCandidate(JobId{9}));
  EXPECT_THAT(queue.ChildrenOf(JobId{3}), IsEmpty());
}

TEST(RequestQueue, EmptyLanesLeaveNothingBehindThatOpensOrCloses) {
  RequestQueue queue({{"gpu", 1}});
  for (int round = 0; round < 3; ++round) {
    queue.Add(kNow, Wants(round + 1, 0, "gpu", {"ollama"}));
    queue.Observe(kNow.awake, {{"ollama", "1 ollama"}});
    queue.Observe(kNow.awake, {{"ollama", ""}});
    queue.Take(JobId{round + 1});
    EXPECT_EQ(queue.NextChange(kNow), std::nullopt);
    queue.Occupy("gpu", 1);
    queue.Occupy("gpu", -1);
    EXPECT_THAT(CandidatesOf(queue), IsEmpty());
  }
}

}  // namespace
}  // namespace stageload::core
