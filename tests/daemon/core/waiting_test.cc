// What a request waits for, and what people can change about it: the held queue, other terms, the
// record of its wait, another try after a reboot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error_reason.h"
#include "tests/daemon/core/scheduler_fixture.h"

namespace stageload::core {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class WaitingTest : public SchedulerTest {
 protected:
  int Submitted(const Submit& submit) {
    Submit event = submit;
    event.token = ++token_;
    if (event.name.empty()) event.name = "train";
    return static_cast<int>(Value(All<Accepted>(Step(event)).at(0).id));
  }
  int Declaring(Bytes memory) {
    Submit submit;
    submit.policy.memory = memory;
    return Submitted(submit);
  }
  std::optional<absl::Duration> WaitedFor(const JobRecord& record, BlockerKind kind) {
    for (const Waited& waited : record.waited) {
      if (waited.kind == kind) return waited.time;
    }
    return std::nullopt;
  }
  const JobRecord& Row(int id) { return *scheduler_->Find(JobId{id}); }
};

// ---- Another config ----

TEST_F(WaitingTest, WhatALargerPoolHasRoomForStartsAtOnce) {
  config_.memory_pool = GiB(4);
  Restart(config_);
  Sample();
  const int first = Declaring(GiB(3));
  const int second = Declaring(GiB(3));
  Sample();
  EXPECT_EQ(StateOf(first), JobState::kRunning);
  EXPECT_EQ(BlockersOf(second).at(0), BlockerKind::kMemory);
  config_.memory_pool = GiB(6);
  const Effects effects = Step(ConfigChanged{config_});
  EXPECT_EQ(All<core::Start>(effects).at(0).id, JobId{second});
}

TEST_F(WaitingTest, ASmallerPoolStopsNobodyAndLetsNobodyIn) {
  Sample();
  const int running = Declaring(GiB(3));
  Sample();
  config_.memory_pool = GiB(2);
  const Effects effects = Step(ConfigChanged{config_});
  EXPECT_THAT(All<Signal>(effects), IsEmpty());
  EXPECT_EQ(StateOf(running), JobState::kRunning);
  const int next = Declaring(GiB(1));
  Sample();
  EXPECT_EQ(BlockersOf(next).at(0), BlockerKind::kMemory);
}

TEST_F(WaitingTest, OneThatIsLargerThanTheNewPoolSaysSoAndStandsInNobodysWay) {
  Step(HoldQueueAsked{"not yet"});
  const int large = Declaring(GiB(3));
  config_.memory_pool = GiB(2);
  config_.max_bypass = 0;
  Step(ConfigChanged{config_});
  Step(ReleaseQueueAsked{});
  Sample();
  const auto blockers = scheduler_->BlockersOf(now_, JobId{large});
  ASSERT_THAT(blockers, SizeIs(1));
  EXPECT_EQ(blockers[0].text, "needs 3 GiB, which never fits into the pool of 2 GiB (memory_pool)");

  const int small = Declaring(GiB(1));
  Sample();
  EXPECT_EQ(StateOf(small), JobState::kRunning);
  EXPECT_THAT(BlockersOf(Declaring(GiB(2))), ElementsAre(BlockerKind::kMemory)) << "it is first";

  config_.memory_pool.reset();
  EXPECT_THAT(All<core::Start>(Step(ConfigChanged{config_})), Not(IsEmpty()));
  EXPECT_EQ(StateOf(large), JobState::kRunning) << "in its turn again";
}

TEST_F(WaitingTest, OneOfTheDaemonBeforeThatNoLongerFitsStandsInNobodysWay) {
  JobRecord large;
  large.id = JobId{1};
  large.submit_time = now_.wall;
  large.policy.memory = GiB(3);
  config_.memory_pool = GiB(2);
  config_.max_bypass = 0;
  Restart(config_, 2);
  Step(Restored{large});
  Sample();
  const int small = Declaring(GiB(1));
  Sample();
  EXPECT_EQ(StateOf(small), JobState::kRunning);
  EXPECT_EQ(StateOf(1), JobState::kPending);
}

TEST_F(WaitingTest, GroupLimitsOpenAndCloseTheWayWhenTheyChange) {
  config_.group_limits = {{"gpu", 1}};
  Restart(config_);
  Sample();
  Submit submit;
  submit.policy.memory = GiB(1);
  submit.group = "gpu";
  const int first = Submitted(submit);
  const int second = Submitted(submit);
  Sample();
  EXPECT_EQ(StateOf(first), JobState::kRunning);
  EXPECT_EQ(BlockersOf(second).at(0), BlockerKind::kGroup);

  config_.group_limits = {{"gpu", 2}};
  EXPECT_EQ(All<core::Start>(Step(ConfigChanged{config_})).at(0).id, JobId{second});
  const int third = Submitted(submit);
  EXPECT_EQ(BlockersOf(third).at(0), BlockerKind::kGroup);

  config_.group_limits.clear();
  EXPECT_EQ(All<core::Start>(Step(ConfigChanged{config_})).at(0).id, JobId{third});

  // One that nobody had named before fills up with those that run in it already.
  config_.group_limits = {{"gpu", 3}};
  Step(ConfigChanged{config_});
  EXPECT_EQ(BlockersOf(Submitted(submit)).at(0), BlockerKind::kGroup);
}

TEST_F(WaitingTest, AShorterQueueForgetsNobody) {
  Step(HoldQueueAsked{"no"});
  const int first = Declaring(GiB(1));
  const int second = Declaring(GiB(1));
  config_.max_queued = 1;
  Step(ConfigChanged{config_});
  EXPECT_EQ(StateOf(first), JobState::kPending);
  EXPECT_EQ(StateOf(second), JobState::kPending);
  EXPECT_THAT(All<Refused>(SubmitMemory(GiB(1))), SizeIs(1));
}

// ---- The held queue ----

TEST_F(WaitingTest, AHeldQueueStartsNoJobUntilItIsReleasedAndSaysWhy) {
  Sample();
  const Effects held = Step(HoldQueueAsked{"disk swap tonight"});
  EXPECT_EQ(All<QueueHeld>(held).at(0).text, "disk swap tonight");
  const int id = Declaring(GiB(1));
  Sample();
  EXPECT_EQ(StateOf(id), JobState::kPending);
  const auto blockers = scheduler_->BlockersOf(now_, JobId{id});
  ASSERT_THAT(blockers, SizeIs(1));
  EXPECT_EQ(blockers[0].kind, BlockerKind::kQueueHeld);
  EXPECT_THAT(blockers[0].text, HasSubstr("disk swap tonight"));

  const Effects released = Step(ReleaseQueueAsked{});
  EXPECT_EQ(All<QueueHeld>(released).at(0).text, std::nullopt);
  EXPECT_EQ(All<core::Start>(released).at(0).id, JobId{id});
}

TEST_F(WaitingTest, WhatRunsAndGuardsGoOnWhileTheQueueIsHeld) {
  Sample();
  const int running = Declaring(GiB(1));
  Step(HoldQueueAsked{"x"});
  EXPECT_EQ(StateOf(running), JobState::kRunning);
  Sample();
  Submit guard;
  guard.kind = JobKind::kGuard;
  guard.policy.memory = GiB(1);
  EXPECT_EQ(StateOf(Submitted(guard)), JobState::kRunning);
}

TEST_F(WaitingTest, HoldingAHeldQueueOrReleasingAFreeOneChangesNothing) {
  EXPECT_THAT(Step(ReleaseQueueAsked{}), IsEmpty());
  Step(HoldQueueAsked{"first"});
  EXPECT_THAT(Step(HoldQueueAsked{"second"}), IsEmpty());
  EXPECT_EQ(scheduler_->queue_held(), "first");
}

TEST_F(WaitingTest, AStartTimeoutStandsStillWhileTheQueueOrTheJobIsHeld) {
  Sample();
  Submit submit;
  submit.policy.memory = GiB(15);
  submit.policy.start_timeout = absl::Minutes(10);
  Declaring(GiB(12));
  const int id = Submitted(submit);
  Wait(absl::Minutes(4));
  Step(HoldQueueAsked{"x"});
  Sample(absl::Hours(8));
  Step(ReleaseQueueAsked{});
  EXPECT_EQ(StateOf(id), JobState::kPending);
  Step(HoldAsked{JobId{id}});
  Sample(absl::Hours(8));
  Step(ReleaseAsked{JobId{id}});
  Sample(absl::Minutes(5));
  EXPECT_EQ(StateOf(id), JobState::kPending) << "9 of 10 minutes have passed";
  const auto end = Ended(Sample(absl::Minutes(1)));
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->state, JobState::kNoRoom);
}

// ---- After a reboot ----

TEST_F(WaitingTest, AfterARebootUnderAJobTheQueueIsHeldSoThatItDoesNotTakeTheMachineDownAgain) {
  Sample();
  const int down = Declaring(GiB(1));
  const int waits = Declaring(GiB(12));  // beside the first there is no room for it
  Start(down);
  const JobRecord first = Row(down);
  const JobRecord second = Row(waits);
  Restart(config_, 10);
  Step(Restored{first});
  Step(Restored{second});
  const Effects effects = Step(NodeFailed{JobId{down}});
  EXPECT_EQ(Ended(effects)->state, JobState::kNodeFail);
  ASSERT_THAT(All<QueueHeld>(effects), SizeIs(1));
  EXPECT_THAT(*All<QueueHeld>(effects)[0].text, HasSubstr("job 1 (train)"));
  Sample();
  EXPECT_EQ(StateOf(waits), JobState::kPending);

  // The daemon after that finds it held still.
  const JobRecord third = Row(waits);
  Restart(config_, 10);
  Step(QueueHeldRestored{"the machine went down while job 1 (train) ran"});
  Step(Restored{third});
  Sample();
  EXPECT_THAT(BlockersOf(waits), Contains(BlockerKind::kQueueHeld));
  EXPECT_THAT(All<core::Start>(Step(ReleaseQueueAsked{})), SizeIs(1));
}

TEST_F(WaitingTest, AJobToBeRequeuedWaitsAgainHeldAsIfItHadNeverRun) {
  Sample();
  Submit submit;
  submit.policy.memory = GiB(2);
  submit.requeue = true;
  submit.request_id = "r1";
  submit.notify = true;
  const int id = Submitted(submit);
  Start(id);
  Holds(id, GiB(2));
  Sample();
  const JobRecord ran = Row(id);
  ASSERT_TRUE(ran.root.has_value());
  Restart(config_, 10);
  Step(Restored{ran});
  const Effects effects = Step(NodeFailed{JobId{id}});
  EXPECT_FALSE(Ended(effects).has_value());
  ASSERT_EQ(StateOf(id), JobState::kPending);
  const JobRecord again = All<Save>(effects).back().record;
  EXPECT_TRUE(again.held);
  EXPECT_EQ(again.request_id, "r1");
  EXPECT_TRUE(again.requeue && again.notify);
  EXPECT_EQ(again.policy, ran.policy);
  EXPECT_EQ(again.submit_time, ran.submit_time);
  EXPECT_FALSE(again.root || again.start_time || again.peak_footprint);
  EXPECT_EQ(again.boot_id, "");
  usage_.clear();
  Sample();
  const auto blockers = scheduler_->BlockersOf(now_, JobId{id});
  EXPECT_EQ(blockers.at(0).kind, BlockerKind::kHeld);
  EXPECT_THAT(blockers.at(0).text, HasSubstr("the machine went down"));

  Step(ReleaseQueueAsked{});
  EXPECT_EQ(StateOf(id), JobState::kPending);
  const Effects released = Step(ReleaseAsked{JobId{id}});
  EXPECT_THAT(All<core::Start>(released), SizeIs(1));
  EXPECT_EQ(Row(id).reason_text, "");
}

TEST_F(WaitingTest, AJobThatWasBeingStoppedIsNotQueuedAgainByAReboot) {
  Sample();
  Submit submit;
  submit.requeue = true;
  const int id = Submitted(submit);
  Start(id);
  Step(CancelAsked{JobId{id}});
  const JobRecord stopping = Row(id);
  Restart(config_, 10);
  Step(Restored{stopping});
  EXPECT_EQ(Ended(Step(NodeFailed{JobId{id}}))->state, JobState::kNodeFail);
}

// A job that ended in time while no daemon was there has not run out of its time.
TEST_F(WaitingTest, ARestartStopsNothingForItsTimeLimitBeforeItIsKnownWhetherItStillRuns) {
  Sample();
  Submit submit;
  submit.policy.time_limit = absl::Seconds(4);
  const int id = Submitted(submit);
  Start(id);
  const JobRecord ran = Row(id);
  const absl::Time started = now_.wall;
  Wait(absl::Seconds(60));
  Restart(config_, 10);
  EXPECT_THAT(All<Save>(Step(Restored{ran})), IsEmpty());
  EXPECT_FALSE(scheduler_->NextDeadline().has_value());
  Exited exited{JobId{id}, {0, {}, {}}, 0};
  exited.end_time = started + absl::Seconds(2);
  const auto end = Ended(Step(exited));
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->state, JobState::kCompleted);
  EXPECT_EQ(end->end_time, started + absl::Seconds(2)) << "not when it was found";
}

TEST_F(WaitingTest, AfterARestartOneThatStillRunsIsStoppedForItsTimeLimitAsSoonAsItIsFound) {
  Sample();
  Submit submit;
  submit.policy.time_limit = absl::Seconds(4);
  const int id = Submitted(submit);
  Start(id);
  const JobRecord ran = Row(id);
  Wait(absl::Seconds(60));
  Restart(config_, 10);
  Step(Restored{ran});
  Start(id);
  EXPECT_EQ(StateOf(id), JobState::kStopping);
}

TEST_F(WaitingTest, AStartTimeoutThatPassedWithoutADaemonLeavesTimeForOneLook) {
  Sample();
  Submit submit;
  submit.policy.memory = GiB(1);
  submit.policy.start_timeout = absl::Minutes(1);
  submit.held = true;
  const int id = Submitted(submit);
  JobRecord row = Row(id);
  row.held = false;
  Wait(absl::Hours(8));
  Restart(config_, 10);
  Step(Restored{row});
  EXPECT_EQ(StateOf(id), JobState::kPending);
  Sample();
  EXPECT_EQ(StateOf(id), JobState::kRunning);
}

// ---- Other terms ----

TEST_F(WaitingTest, AHigherPriorityMovesAWaitingJobForward) {
  Sample();
  Declaring(GiB(12));
  const int first = Declaring(GiB(10));
  const int second = Declaring(GiB(10));
  Policy policy = Row(second).policy;
  policy.priority = 5;
  EXPECT_TRUE(scheduler_->CheckUpdate(Row(second), policy).ok());
  const Effects effects = Step(UpdateAsked{JobId{second}, policy});
  EXPECT_EQ(All<Save>(effects).at(0).record.policy.priority, 5);
  EXPECT_EQ(scheduler_->queue().PlaceOf(JobId{first}), 2);
  EXPECT_EQ(scheduler_->queue().PlaceOf(JobId{second}), 1);
}

TEST_F(WaitingTest, ALowerDeclarationLetsAWaitingJobStartAtOnce) {
  Sample();
  Declaring(GiB(10));
  const int id = Declaring(GiB(10));
  Policy policy = Row(id).policy;
  policy.memory = GiB(2);
  EXPECT_THAT(All<core::Start>(Step(UpdateAsked{JobId{id}, policy})), SizeIs(1));
}

TEST_F(WaitingTest, OtherTermsDoNotLengthenAStartTimeoutUnlessTheySaySo) {
  Sample();
  Declaring(GiB(12));
  Submit submit;
  submit.policy.memory = GiB(15);
  submit.policy.start_timeout = absl::Minutes(10);
  const int id = Submitted(submit);
  Sample(absl::Minutes(9));
  Policy policy = Row(id).policy;
  policy.priority = 1;
  Step(UpdateAsked{JobId{id}, policy});
  EXPECT_EQ(Ended(Sample(absl::Minutes(1)))->state, JobState::kNoRoom);
}

TEST_F(WaitingTest, ARunningJobMayGetAnotherBudgetAndIsMeasuredByIt) {
  Sample();
  Submit submit;
  submit.policy.swap_budget = GiB(1);
  const int id = Submitted(submit);
  Start(id);
  Holds(id, GiB(4));
  Sample();
  Policy policy = Row(id).policy;
  policy.swap_budget = GiB(4);
  ASSERT_TRUE(scheduler_->CheckUpdate(Row(id), policy).ok());
  Step(UpdateAsked{JobId{id}, policy});
  host_.swap_used = GiB(3);
  Sample();
  EXPECT_EQ(StateOf(id), JobState::kRunning);
  host_.swap_used = GiB(5);
  Sample();
  EXPECT_EQ(StateOf(id), JobState::kStopping);
}

TEST_F(WaitingTest, WhatOnlyAWaitingJobCanChangeIsRefusedByItsFieldForOneThatRuns) {
  Sample();
  const int id = Declaring(GiB(1));
  Policy policy = Row(id).policy;
  policy.memory = GiB(2);
  const absl::Status status = scheduler_->CheckUpdate(Row(id), policy);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), kWrongState);
  EXPECT_EQ(FieldOf(status), "policy.memory_bytes");
}

TEST_F(WaitingTest, TermsThatCouldNeverFitAreRefusedForAWaitingJobToo) {
  Sample();
  Declaring(GiB(12));
  const int id = Declaring(GiB(10));
  Policy policy = Row(id).policy;
  policy.memory = GiB(64);
  EXPECT_EQ(ReasonOf(scheduler_->CheckUpdate(Row(id), policy)), kNeverFits);
}

// A clock that was set back may not make a job wait again that was due.
TEST_F(WaitingTest, AJobWhoseBeginTimeWasReachedStaysDueWhenItGetsOtherTerms) {
  Sample();
  Declaring(GiB(12));
  Submit submit;
  submit.policy.memory = GiB(10);
  submit.begin_time = now_.wall + absl::Minutes(1);
  const int id = Submitted(submit);
  Sample(absl::Minutes(2));
  now_.wall -= absl::Hours(1);
  Policy policy = Row(id).policy;
  policy.priority = 1;
  Step(UpdateAsked{JobId{id}, policy});
  EXPECT_THAT(BlockersOf(id), Not(Contains(BlockerKind::kNotBefore)));
}

// ---- What it waited for ----

TEST_F(WaitingTest, TheTimeThatAJobWaitedIsPutDownToWhatItWaitedFor) {
  Sample();
  const int first = Declaring(GiB(12));
  Submit submit;
  submit.policy.memory = GiB(10);
  submit.held = true;
  const int id = Submitted(submit);
  Sample(absl::Minutes(3));
  Step(ReleaseAsked{JobId{id}});
  for (int i = 0; i < 4; ++i) Sample(absl::Seconds(30));
  const Effects effects = Step(Exited{JobId{first}, {0, {}, {}}, 0});
  ASSERT_THAT(All<core::Start>(effects), SizeIs(1));
  const JobRecord& row = Row(id);
  EXPECT_EQ(WaitedFor(row, BlockerKind::kHeld), absl::Minutes(3));
  EXPECT_EQ(WaitedFor(row, BlockerKind::kMemory), absl::Minutes(2));
  EXPECT_THAT(row.waited.back().text, HasSubstr("12 GiB"));
}

TEST_F(WaitingTest, SleepCountsAsWaiting) {
  Sample();
  Declaring(GiB(12));
  const int id = Declaring(GiB(10));
  Sample(absl::Seconds(1));
  Sleep(absl::Hours(2));
  Sample(absl::Seconds(1));
  EXPECT_EQ(WaitedFor(Row(id), BlockerKind::kMemory), absl::Hours(2) + absl::Seconds(2));
}

TEST_F(WaitingTest, OneThatIsAdmittedAtOnceWaitedForNothing) {
  Sample();
  EXPECT_THAT(Row(Declaring(GiB(1))).waited, IsEmpty());
}

TEST_F(WaitingTest, WhatWasWaitedForIsWrittenDownNowAndThenAndGoesOnInTheNextDaemon) {
  Sample();
  const int first = Declaring(GiB(12));
  const int id = Declaring(GiB(10));
  std::optional<JobRecord> saved;
  for (int i = 0; i < 14; ++i) {
    for (const Save& save : All<Save>(Sample(absl::Seconds(30)))) {
      if (save.record.id == JobId{id}) saved = save.record;
    }
  }
  ASSERT_TRUE(saved.has_value());
  const absl::Duration before = *WaitedFor(*saved, BlockerKind::kMemory);
  EXPECT_GE(before, absl::Minutes(4));
  const JobRecord running = Row(first);
  Restart(config_, 10);
  Step(Restored{running});
  Step(Restored{*saved});
  Sample(absl::Seconds(1));
  Sample(absl::Seconds(59));
  EXPECT_EQ(WaitedFor(Row(id), BlockerKind::kMemory), before + absl::Minutes(1));
}

// ---- Profiles ----

TEST_F(WaitingTest, AForgottenProfileDeclaresNothingAnyMore) {
  Step(ProfileRestored{"train", {JobId{1}, GiB(5), std::nullopt}});
  ASSERT_TRUE(scheduler_->profiles().Estimate("train").has_value());
  EXPECT_EQ(All<Forgotten>(Step(ForgetProfileAsked{"train"})).at(0).profile, "train");
  EXPECT_FALSE(scheduler_->profiles().Estimate("train").has_value());
}

}  // namespace
}  // namespace stageload::core
