// The whole state machine, one rule at a time. Situations are in scenarios_test.cc.
#include "daemon/core/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error_reason.h"
#include "tests/daemon/core/scheduler_fixture.h"

namespace stageload::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(SchedulerTest, SubmitIsSavedThenAcceptedThenStarted) {
  Sample();
  const Effects effects = SubmitMemory(GiB(1));
  ASSERT_GE(effects.size(), 2u);
  ASSERT_TRUE(std::holds_alternative<Save>(effects[0]));
  EXPECT_TRUE(std::get<Save>(effects[0]).added);
  ASSERT_TRUE(std::holds_alternative<Accepted>(effects[1]));
  EXPECT_EQ(std::get<Accepted>(effects[1]).id, JobId{1});
  ASSERT_EQ(All<core::Start>(effects).size(), 1u);
  EXPECT_EQ(StateOf(1), JobState::kRunning);
}

TEST_F(SchedulerTest, ThirdJobWaitsForThePoolAndStartsWhenOneEnds) {
  Config config;
  config.memory_pool = MiB(2560);
  Restart(config);
  Sample();
  for (int i = 0; i < 3; ++i) SubmitMemory(GiB(1));
  EXPECT_EQ(StateOf(2), JobState::kRunning);
  EXPECT_EQ(StateOf(3), JobState::kPending);
  EXPECT_THAT(BlockersOf(3), ElementsAre(BlockerKind::kMemory));
  const Effects effects = Step(Exited{JobId{1}, {0, {}, {}}});
  EXPECT_EQ(Ended(effects)->state, JobState::kCompleted);
  EXPECT_EQ(StateOf(3), JobState::kRunning);
}

TEST_F(SchedulerTest, OneLargerThanTheMachineIsRefusedAtSubmit) {
  Sample();
  const Effects effects = SubmitMemory(GiB(40));
  ASSERT_EQ(All<Refused>(effects).size(), 1u);
  EXPECT_EQ(ReasonOf(All<Refused>(effects)[0].status), kNeverFits);
  EXPECT_THAT(All<Save>(effects), IsEmpty());
}

TEST_F(SchedulerTest, HigherPriorityGoesFirstThenWhoCameFirst) {
  for (const int priority : {0, 5, 0, 9}) {
    Policy policy;
    policy.priority = priority;
    Submitting(policy);  // nothing starts: there is no sample yet
  }
  std::vector<std::int64_t> places;
  for (const int id : {1, 2, 3, 4, 9}) places.push_back(scheduler_->queue().PlaceOf(JobId{id}));
  EXPECT_THAT(places, ElementsAre(3, 2, 4, 1, 0));
  EXPECT_THAT(BlockersOf(1), ElementsAre(BlockerKind::kStale, BlockerKind::kOrder));
  EXPECT_THAT(BlockersOf(4), ElementsAre(BlockerKind::kStale));
}

TEST_F(SchedulerTest, OneThatDeclaresNothingNeverPassesOneThatWaitsForMemory) {
  Sample();
  SubmitMemory(GiB(10));
  SubmitMemory(GiB(12));
  Submitting(Policy{});
  EXPECT_EQ(StateOf(3), JobState::kPending);
  const auto blockers = scheduler_->BlockersOf(now_, JobId{3});
  ASSERT_EQ(blockers.size(), 1u);
  EXPECT_EQ(blockers[0].kind, BlockerKind::kOrder);
  EXPECT_EQ(blockers[0].needed, 2);
  EXPECT_THAT(blockers[0].text, HasSubstr("job 2 goes first; only one that declares its memory"));
}

TEST_F(SchedulerTest, OneThatFitsPassesOneThatWaitsForMemoryAtMostFiveTimes) {
  Sample();
  SubmitMemory(GiB(10));
  SubmitMemory(GiB(12));  // waits
  for (int i = 0; i < 6; ++i) {
    const Effects effects = SubmitMemory(MiB(100));
    EXPECT_EQ(All<core::Start>(effects).size(), i < 5 ? 1u : 0u) << i;
    if (i >= 5) continue;
    // The count survives a restart.
    bool saved = false;
    for (const Save& save : All<Save>(effects)) {
      saved = saved || (save.record.id == JobId{2} && save.record.bypassed == i + 1);
    }
    EXPECT_TRUE(saved) << i;
  }
  EXPECT_THAT(BlockersOf(2), ElementsAre(BlockerKind::kMemory));
  const auto blockers = scheduler_->BlockersOf(now_, JobId{8});
  ASSERT_EQ(blockers.size(), 1u);
  EXPECT_THAT(blockers[0].text, HasSubstr("it was passed 5 times already"));
  Step(Exited{JobId{1}, {0, {}, {}}, 0});
  EXPECT_EQ(StateOf(2), JobState::kRunning);
}

TEST_F(SchedulerTest, CountOfThoseThatPassedIsKeptOverARestart) {
  JobRecord record;
  record.id = JobId{1};
  record.policy.memory = GiB(20);
  record.bypassed = 5;
  Restart(config_, 2);
  Step(Restored{record});
  Sample();
  SubmitMemory(MiB(100));
  EXPECT_EQ(StateOf(2), JobState::kPending);
}

TEST_F(SchedulerTest, HigherPriorityIsNotPassingAnyone) {
  Sample();
  SubmitMemory(GiB(10));
  SubmitMemory(GiB(12));
  for (int i = 0; i < 7; ++i) {
    Policy policy;
    policy.memory = MiB(100);
    policy.priority = 1;
    Submitting(policy);
    EXPECT_EQ(StateOf(3 + i), JobState::kRunning);
  }
  EXPECT_EQ(scheduler_->Find(JobId{2})->bypassed, 0);
}

TEST_F(SchedulerTest, NothingIsAdmittedOnAStaleSample) {
  Sample();
  Wait(absl::Seconds(5));
  SubmitMemory(GiB(1));
  EXPECT_THAT(BlockersOf(1), ElementsAre(BlockerKind::kStale));
  Sample();
  EXPECT_EQ(StateOf(1), JobState::kRunning);
}

TEST_F(SchedulerTest, StartTimeoutEndsAsNoRoomWithTheLevelRead) {
  Available(GiB(8));  // 25 %
  Sample();
  Policy policy;
  policy.start_timeout = absl::Seconds(2);
  Submitting(policy);
  EXPECT_EQ(scheduler_->NextDeadline(), now_.awake + absl::Seconds(2));
  EXPECT_FALSE(Ended(Sample()));
  Wait(absl::Seconds(1.5));
  const auto record = Ended(Step(Tick{}));
  ASSERT_TRUE(record);
  EXPECT_EQ(record->state, JobState::kNoRoom);
  EXPECT_EQ(record->reason, Reason::kStartTimeout);
  EXPECT_THAT(record->reason_text, HasSubstr("LEVEL: 25 % available, needs 40 %"));
  EXPECT_EQ(scheduler_->pending(), 0);
}

TEST_F(SchedulerTest, StartTimeoutOfZeroStartsNowOrNever) {
  Sample();
  Policy policy;
  policy.start_timeout = absl::ZeroDuration();
  EXPECT_FALSE(Ended(Submitting(policy)));
  EXPECT_EQ(StateOf(1), JobState::kRunning);
  policy.memory = GiB(20);
  const auto record = Ended(Submitting(policy));
  ASSERT_TRUE(record);
  EXPECT_EQ(record->state, JobState::kNoRoom);
  EXPECT_THAT(record->reason_text, HasSubstr("MEMORY: needs 20 GiB"));
}

TEST_F(SchedulerTest, FullQueueIsRefusedWithItsLimit) {
  Config config;
  config.max_queued = 2;
  Restart(config);
  for (int i = 0; i < 2; ++i) SubmitMemory(GiB(1));
  const auto refused = All<Refused>(SubmitMemory(GiB(1)));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(ReasonOf(refused[0].status), kQueueFull);
}

TEST_F(SchedulerTest, SoleJobOverItsSwapBudgetIsStoppedOnceWithTheFigures) {
  Sample();
  Policy policy;
  policy.swap_budget = GiB(1);
  Submitting(policy);
  Start(1);
  Holds(1, GiB(4));
  host_.swap_used = MiB(900);
  EXPECT_THAT(Signals(Sample()), IsEmpty());
  host_.swap_used = GiB(1) + Bytes(1);
  const Effects effects = Sample();
  EXPECT_THAT(Signals(effects), ElementsAre(kTerm));
  EXPECT_EQ(StateOf(1), JobState::kStopping);
  EXPECT_EQ(All<Save>(effects)[0].record.reason, Reason::kSwapBudget);
  EXPECT_THAT(All<Save>(effects)[0].record.reason_text, HasSubstr("over the budget of 1 GiB"));
  EXPECT_THAT(Signals(Sample(absl::Milliseconds(50))), IsEmpty());
  host_.swap_used = Bytes(0);  // given back while it dies
  Sample(absl::Milliseconds(50));
  // Also when only a child was stopped and the parent then exits with 0.
  const auto record = Ended(Step(Exited{JobId{1}, {0, {}, {}}}));
  ASSERT_TRUE(record);
  EXPECT_EQ(record->state, JobState::kOutOfMemory);
  EXPECT_EQ(record->charge, GiB(1) + Bytes(1));
  EXPECT_EQ(record->peak_footprint, GiB(4));
}

TEST_F(SchedulerTest, OwnerIsWarnedOnceAtFourFifthsOfTheBudget) {
  Sample();
  Policy policy;
  policy.swap_budget = GiB(1);
  Submitting(policy);
  Start(1);
  int warnings = 0;
  for (const int mib : {700, 850, 900, 700, 900}) {
    host_.swap_used = MiB(mib);
    for (const Note& note : All<Note>(Sample())) warnings += note.kind == "warned" ? 1 : 0;
  }
  EXPECT_EQ(warnings, 1);
}

TEST_F(SchedulerTest, SwapLimitStopsWhoSetItWhoeverFilledSwap) {
  host_.swap_used = GiB(2);
  Sample();
  Policy policy;
  policy.swap_limit = GiB(11);
  Submitting(policy);
  Start(1);
  host_.swap_used = GiB(10);  // a charge of 8 GiB, just the budget
  Sample();
  host_.swap_used = GiB(8);
  Sample();
  Sample(absl::Seconds(6));  // nothing starts while swap moves
  Policy other;
  other.swap_budget = GiB(100);
  Submitting(other);
  Start(2);
  Holds(1, GiB(1));
  Holds(2, GiB(30));
  Sample();
  host_.swap_used = GiB(11) + Bytes(1);  // most of it the other's
  const auto saves = All<Save>(Sample());
  ASSERT_EQ(saves.size(), 1u);
  EXPECT_EQ(saves[0].record.id, JobId{1});
  EXPECT_EQ(saves[0].record.reason, Reason::kSwapLimit);
  EXPECT_THAT(saves[0].record.reason_text, HasSubstr("is over the limit of 11 GiB"));
}

TEST_F(SchedulerTest, ThatIgnoresTermIsKilledAfterItsGraceAndAgainEachSecond) {
  Sample();
  SubmitMemory(GiB(1));
  Start(1);
  EXPECT_THAT(Signals(Step(CancelAsked{JobId{1}})), ElementsAre(kTerm));
  Wait(absl::Seconds(4.9));
  EXPECT_THAT(Signals(Step(Tick{})), IsEmpty());
  // The same stop asked for again changes nothing about the first.
  EXPECT_THAT(Signals(Step(CancelAsked{JobId{1}})), IsEmpty());
  Wait(absl::Milliseconds(100));
  EXPECT_THAT(Signals(Step(Tick{})), ElementsAre(kKill));
  EXPECT_THAT(Signals(Step(Tick{})), IsEmpty());
  Wait(absl::Seconds(1));
  EXPECT_THAT(Signals(Step(Tick{})), ElementsAre(kKill));
  EXPECT_EQ(Ended(Step(Exited{JobId{1}, {{}, 9, {}}}))->state, JobState::kCancelled);
  EXPECT_EQ(scheduler_->NextDeadline(), std::nullopt);
}

TEST_F(SchedulerTest, SwapThatGrowsOnInTheGraceTimeBringsTheKillForward) {
  Sample();
  Policy policy;
  policy.swap_budget = GiB(4);
  Submitting(policy);
  Start(1);
  host_.swap_used = GiB(5);
  EXPECT_THAT(Signals(Sample()), ElementsAre(kTerm));
  host_.swap_used = GiB(6);
  EXPECT_THAT(Signals(Sample(absl::Milliseconds(50))), IsEmpty());
  host_.swap_used = GiB(6) + Bytes(1);
  EXPECT_THAT(Signals(Sample(absl::Milliseconds(50))), ElementsAre(kKill));
}

TEST_F(SchedulerTest, LowLevelStopsOneVictimAndWaitsForItsMemory) {
  Sample();
  Policy policy;
  Submitting(policy);
  Submitting(policy);
  Start(1);
  Start(2);
  Holds(1, GiB(2));
  Holds(2, GiB(9));
  Available(GiB(3));  // 9.4 %
  Sample();
  Sample();
  const Effects effects = Sample();
  ASSERT_THAT(Signals(effects), ElementsAre(kTerm));
  EXPECT_EQ(All<Signal>(effects)[0].id, JobId{2}) << "the larger footprint";
  for (int i = 0; i < 4; ++i) EXPECT_THAT(Signals(Sample()), IsEmpty());
  const auto record = Ended(Step(Exited{JobId{2}, {{}, 15, {}}}));
  EXPECT_EQ(record->state, JobState::kOutOfMemory);
  EXPECT_EQ(record->reason, Reason::kLowMemory);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Signals(Sample()), IsEmpty());
  EXPECT_THAT(Signals(Sample()), ElementsAre(kTerm)) << "2 s later it is still low";
}

TEST_F(SchedulerTest, StopIsNotOverWhilePartOfTheTreeLives) {
  Sample();
  SubmitMemory(GiB(1));
  Start(1);
  Holds(1, GiB(1), 3);
  Sample();
  Step(CancelAsked{JobId{1}});
  EXPECT_FALSE(Ended(Step(Exited{JobId{1}, {{}, 15, {}}, 2})));
  EXPECT_EQ(StateOf(1), JobState::kStopping);
  Holds(1, GiB(1), 2);
  EXPECT_FALSE(Ended(Sample()));
  Wait(absl::Seconds(5));
  EXPECT_THAT(Signals(Step(Tick{})), ElementsAre(kKill));
  Holds(1, Bytes(0), 0);
  const auto record = Ended(Sample());
  ASSERT_TRUE(record);
  EXPECT_EQ(record->state, JobState::kCancelled);
  EXPECT_EQ(record->outcome.signal, 15);
}

TEST_F(SchedulerTest, CancelledBeforeItsProcessIsThereIsStoppedOnceItIs) {
  Sample();
  SubmitMemory(GiB(1));
  EXPECT_THAT(Signals(Step(CancelAsked{JobId{1}})), IsEmpty());
  EXPECT_THAT(Signals(Start(1)), ElementsAre(kTerm));
}

TEST_F(SchedulerTest, CancelOfAWaitingJobEndsItAtOnce) {
  SubmitMemory(GiB(1));
  EXPECT_EQ(Ended(Step(CancelAsked{JobId{1}}))->state, JobState::kCancelled);
  EXPECT_EQ(scheduler_->pending(), 0);
}

TEST_F(SchedulerTest, GuardWhoseCallerWentAwayIsTakenBackOnlyWhileItWaits) {
  Policy policy;
  Submitting(policy, JobKind::kGuard);
  EXPECT_EQ(Ended(Step(ClientGone{JobId{1}}))->reason, Reason::kClientGone);
  Submitting(policy, JobKind::kGuard);
  Sample();
  EXPECT_EQ(StateOf(2), JobState::kRunning);
  EXPECT_FALSE(Ended(Step(ClientGone{JobId{2}})));
  EXPECT_EQ(StateOf(2), JobState::kRunning);
}

TEST_F(SchedulerTest, EndNobodySawIsUnknownAndNeverSuccess) {
  Sample();
  SubmitMemory(GiB(1));
  Start(1);
  const auto record = Ended(Step(Exited{JobId{1}, {}}));
  EXPECT_EQ(record->state, JobState::kUnknown);
  EXPECT_EQ(record->reason, Reason::kLost);
}

TEST_F(SchedulerTest, TreeThatLostItsShimStillHoldsItsMemoryUntilItIsGone) {
  Sample();
  SubmitMemory(GiB(10));
  Start(1);
  Holds(1, GiB(10));
  Sample();
  EXPECT_FALSE(Ended(Step(Exited{JobId{1}, {}, 1})));
  EXPECT_EQ(StateOf(1), JobState::kRunning);
  EXPECT_FALSE(Ended(Sample()));
  Holds(1, Bytes(0), 0);
  EXPECT_EQ(Ended(Sample())->state, JobState::kUnknown);
}

TEST_F(SchedulerTest, CommandThatCouldNotBeStartedFailsWithItsErrno) {
  Sample();
  SubmitMemory(GiB(1));
  Start(1);
  const auto record = Ended(Step(Exited{JobId{1}, {127, {}, 2}}));
  EXPECT_EQ(record->state, JobState::kFailed);
  EXPECT_EQ(record->reason, Reason::kStartFailed);
  EXPECT_EQ(record->outcome.exit_code, 127);
}

TEST_F(SchedulerTest, OneThatWaitsFailsWithItsChildrenWhenItCanNeverStart) {
  Submitting({});
  Submit child;
  child.token = ++token_;
  child.after = {JobId{1}};
  Step(child);
  const std::vector<Save> saved = All<Save>(Step(StartFailed{JobId{1}, "its command is lost"}));
  ASSERT_EQ(saved.size(), 2U);
  EXPECT_EQ(saved[0].record.state, JobState::kFailed);
  EXPECT_EQ(saved[0].record.reason, Reason::kStartFailed);
  EXPECT_EQ(saved[0].record.reason_text, "its command is lost");
  EXPECT_EQ(saved[1].record.reason, Reason::kDependencyNever);
  EXPECT_TRUE(scheduler_->queue().empty());
}

TEST_F(SchedulerTest, RequestThatCouldNotBeSavedIsForgottenWithItsReservation) {
  Sample();
  SubmitMemory(GiB(10));
  EXPECT_THAT(Step(NotSaved{JobId{1}}), IsEmpty());
  EXPECT_EQ(scheduler_->active(), 0);
  EXPECT_EQ(scheduler_->Reserved(), Bytes(0));
  SubmitMemory(GiB(10));
  EXPECT_EQ(StateOf(2), JobState::kRunning) << "its id is not used again";
}

TEST_F(SchedulerTest, RunningJobOfTheDaemonBeforeStillCounts) {
  JobRecord record;
  record.id = JobId{1};
  record.state = JobState::kRunning;
  record.policy.memory = GiB(10);
  record.charge = GiB(2);
  scheduler_.emplace(Config{}, JobId{2});
  Step(Restored{record});
  Start(1);
  Sample();
  SubmitMemory(GiB(10));
  EXPECT_EQ(StateOf(2), JobState::kPending);
  EXPECT_EQ(scheduler_->ledger().Of(JobId{1}).charge, GiB(2));
}

TEST_F(SchedulerTest, SessionOfTheDaemonBeforeEndsWithThatReason) {
  JobRecord record;
  record.id = JobId{1};
  record.kind = JobKind::kSession;
  record.state = JobState::kRunning;
  scheduler_.emplace(Config{}, JobId{2});
  Step(Restored{record});
  const auto notes = All<Note>(Step(ClientGone{JobId{1}}));
  ASSERT_THAT(notes, SizeIs(1));
  EXPECT_EQ(notes[0].kind, "ended");
  EXPECT_EQ(notes[0].text, "COMPLETED, as its daemon went; a program that goes on registers again");
}

TEST_F(SchedulerTest, MachineThatWentDownUnderAJobIsNodeFail) {
  JobRecord record;
  record.id = JobId{1};
  record.state = JobState::kRunning;
  Step(Restored{record});
  EXPECT_EQ(Ended(Step(NodeFailed{JobId{1}}))->state, JobState::kNodeFail);
}

TEST_F(SchedulerTest, SamplesFastWhileSomethingIsBeingStopped) {
  Sample();
  EXPECT_EQ(scheduler_->SampleInterval(0), absl::Seconds(1));
  SubmitMemory(GiB(1));
  Start(1);
  EXPECT_EQ(scheduler_->SampleInterval(0), absl::Milliseconds(500));
  Step(CancelAsked{JobId{1}});
  EXPECT_EQ(scheduler_->SampleInterval(0), absl::Milliseconds(50));
}

// ---- What a request waits for besides room ----

TEST_F(SchedulerTest, StartWithoutADeclarationHoldsTheNextForTheSettleTime) {
  config_.settle = absl::Seconds(15);
  Restart(config_);
  Sample();
  Submitting(Policy{});
  SubmitMemory(GiB(1));
  EXPECT_THAT(BlockersOf(2), ElementsAre(BlockerKind::kSettling));
  EXPECT_EQ(scheduler_->NextDeadline(), now_.awake + absl::Seconds(15));
  for (int i = 0; i < 29; ++i) Sample();
  EXPECT_EQ(StateOf(2), JobState::kPending);
  Wait(absl::Milliseconds(500));
  EXPECT_EQ(All<core::Start>(Step(Tick{})).size(), 1u);
}

TEST_F(SchedulerTest, SettleTimeEndsWithTheClientThatDeclaredNothing) {
  config_.settle = absl::Seconds(15);
  Restart(config_);
  Sample();
  Submitting(Policy{});
  SubmitMemory(GiB(1));
  Step(Exited{JobId{1}, {0, {}, {}}, 0});
  EXPECT_EQ(StateOf(2), JobState::kRunning);
}

TEST_F(SchedulerTest, JobStartsOnlyAfterAllOfItsParentsHaveCompleted) {
  Sample();
  SubmitMemory(GiB(1));
  SubmitMemory(GiB(1));
  Submit child;
  child.after = {JobId{1}, JobId{2}};
  Step(child);
  EXPECT_THAT(BlockersOf(3), ElementsAre(BlockerKind::kDependency));
  Step(Exited{JobId{1}, {0, {}, {}}, 0});
  EXPECT_EQ(StateOf(3), JobState::kPending);
  EXPECT_THAT(scheduler_->BlockersOf(now_, JobId{3})[0].text, HasSubstr("starts after job 2"));
  Step(Exited{JobId{2}, {0, {}, {}}, 0});
  EXPECT_EQ(StateOf(3), JobState::kRunning);
}

TEST_F(SchedulerTest, FailureOfAParentCancelsItsChildrenAndTheirs) {
  Sample();
  SubmitMemory(GiB(1));
  for (int parent = 1; parent <= 3; ++parent) {
    Submit child;
    child.after = {JobId{parent}};
    Step(child);
  }
  const Effects effects = Step(Exited{JobId{1}, {1, {}, {}}, 0});
  std::vector<JobId> cancelled;
  for (const Save& save : All<Save>(effects)) {
    if (save.record.reason != Reason::kDependencyNever) continue;
    EXPECT_EQ(save.record.state, JobState::kCancelled);
    cancelled.push_back(save.record.id);
  }
  EXPECT_THAT(cancelled, ElementsAre(JobId{2}, JobId{3}, JobId{4}));
  EXPECT_EQ(scheduler_->pending(), 0);
}

TEST_F(SchedulerTest, ChainOfAHundredThousandThatCanNeverStartEndsInOneStep) {
  config_.max_queued = 200'000;
  Restart(config_);
  SubmitMemory(GiB(1));
  for (int parent = 1; parent <= 100'000; ++parent) {
    Submit child;
    child.after = {JobId{parent}};
    Step(child);
  }
  Step(CancelAsked{JobId{1}});
  EXPECT_EQ(scheduler_->pending(), 0);
}

TEST_F(SchedulerTest, ParentThatNeverWasIsRefused) {
  Submit child;
  child.after = {JobId{77}};
  const auto refused = All<Refused>(Step(child));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(FieldOf(refused[0].status), "terms.after");
}

TEST_F(SchedulerTest, RestoredChildLearnsHowItsParentEnded) {
  JobRecord child;
  child.id = JobId{5};
  child.after = {JobId{3}, JobId{4}};
  Restart(config_, 6);
  Step(Restored{child, {{JobId{3}, JobState::kCompleted}, {JobId{4}, JobState::kCompleted}}});
  Sample();
  EXPECT_EQ(StateOf(5), JobState::kRunning);
  Restart(config_, 6);
  const Effects effects =
      Step(Restored{child, {{JobId{3}, JobState::kCompleted}, {JobId{4}, std::nullopt}}});
  EXPECT_EQ(Ended(effects)->reason, Reason::kDependencyNever);
  EXPECT_THAT(Ended(effects)->reason_text, HasSubstr("after job 4, which is gone"));
}

TEST_F(SchedulerTest, BusyProgramMustHaveBeenLookedForBeforeAnyoneStarts) {
  Policy policy;
  policy.busy = {"ollama"};
  Submitting(policy);
  Sample();
  EXPECT_THAT(scheduler_->BusyPatterns(), ElementsAre("ollama"));
  EXPECT_THAT(BlockersOf(1), ElementsAre(BlockerKind::kBusy));
  busy_ = {{"ollama", ""}};
  Sample();
  EXPECT_EQ(StateOf(1), JobState::kPending);  // what ran before the first look is not known
  for (int i = 0; i < 120; ++i) Sample();
  EXPECT_EQ(StateOf(1), JobState::kRunning);
  EXPECT_THAT(scheduler_->BusyPatterns(), IsEmpty());
}

TEST_F(SchedulerTest, DrainHoldsStartsUntilItIsOver) {
  Sample();
  Step(DrainAsked{true});
  SubmitMemory(GiB(1));
  EXPECT_THAT(BlockersOf(1), ElementsAre(BlockerKind::kDraining));
  Step(DrainAsked{false});
  EXPECT_EQ(StateOf(1), JobState::kRunning);
}

TEST_F(SchedulerTest, StartTimeoutCountsFromWhenNothingOfItsOwnHoldsIt) {
  Available(GiB(1));
  Sample();
  Submit submit;
  submit.policy.start_timeout = absl::Seconds(2);
  submit.held = true;
  Step(submit);
  Sample(absl::Seconds(10));
  EXPECT_EQ(StateOf(1), JobState::kPending);
  Step(ReleaseAsked{JobId{1}});
  EXPECT_EQ(scheduler_->NextDeadline(), now_.awake + absl::Seconds(2));
  Wait(absl::Seconds(2));
  EXPECT_EQ(Ended(Step(Tick{}))->state, JobState::kNoRoom);
}

// ---- Leases ----

TEST_F(SchedulerTest, LeaseIsGrantedWhenItFitsAndItsMemoryIsSpokenFor) {
  Sample();
  const int pipeline = Register({});
  const Effects effects = Acquiring(pipeline, GiB(10));
  ASSERT_EQ(All<LeaseQueued>(effects).size(), 1u);
  ASSERT_EQ(All<LeaseGranted>(effects).size(), 1u);
  EXPECT_FALSE(All<LeaseGranted>(effects)[0].forced);
  EXPECT_EQ(scheduler_->Reserved(), GiB(10));
  SubmitMemory(GiB(4));
  EXPECT_THAT(BlockersOf(2), ElementsAre(BlockerKind::kMemory));
  Step(LeaseReleased{All<LeaseGranted>(effects)[0].id});
  EXPECT_EQ(scheduler_->Reserved(), GiB(4));
  EXPECT_EQ(StateOf(2), JobState::kRunning);
}

TEST_F(SchedulerTest, LeaseComesOnTopOfWhatItsClientHolds) {
  Sample();
  const int pipeline = Register({});
  Holds(pipeline, GiB(3));
  Sample();
  Acquiring(pipeline, GiB(5));
  EXPECT_EQ(scheduler_->Reserved(), GiB(5));
  Holds(pipeline, GiB(7));
  Sample();
  EXPECT_EQ(scheduler_->Reserved(), GiB(1));
}

TEST_F(SchedulerTest, LeaseWithoutRoomInTimeIsDeniedWithTheFigures) {
  Available(GiB(4));
  Sample();
  Policy eager;
  eager.wait_free = Percent{0};
  Submitting(eager);  // one that waits for no lease, so none is forced
  const int pipeline = Register({});
  Acquiring(pipeline, GiB(10), absl::Seconds(2));
  EXPECT_THAT(scheduler_->BlockersOf(now_, LeaseId{1}), testing::SizeIs(2));
  Wait(absl::Seconds(2));
  const auto denied = All<LeaseDenied>(Step(Tick{}));
  ASSERT_EQ(denied.size(), 1u);
  EXPECT_EQ(ReasonOf(denied[0].status), kAdmissionTimeout);
  EXPECT_THAT(std::string(denied[0].status.message()), HasSubstr("needs 10 GiB"));
  EXPECT_TRUE(scheduler_->leases().empty());
}

TEST_F(SchedulerTest, LeasesEndWithTheirClient) {
  Sample();
  const int one = Register({});
  const int two = Register({});
  Acquiring(one, GiB(10));
  Acquiring(two, GiB(10));
  EXPECT_EQ(scheduler_->leases().size(), 2u);
  Step(ClientGone{JobId{two}});  // while it waits
  EXPECT_EQ(scheduler_->leases().size(), 1u);
  Step(ClientGone{JobId{one}});  // while it holds
  EXPECT_TRUE(scheduler_->leases().empty());
  EXPECT_EQ(scheduler_->Reserved(), Bytes(0));
  EXPECT_EQ(scheduler_->active(), 0);
}

TEST_F(SchedulerTest, SessionThatLeavesWhileSuspendedGoesOnSinceNobodyCouldResumeIt) {
  Sample();
  const int pipeline = Register({});
  Step(SuspendAsked{JobId{pipeline}});
  const Effects effects = Step(ClientGone{JobId{pipeline}});
  EXPECT_THAT(Signals(effects), ElementsAre(Signal::Kind::kContinue));
  EXPECT_EQ(Ended(effects)->state, JobState::kCompleted);
  EXPECT_EQ(Ended(effects)->reason, Reason::kNone);
}

TEST_F(SchedulerTest, LeaseThatCanNeverFitIsRefusedAtOnce) {
  Sample();
  const int pipeline = Register({});
  const auto refused = All<Refused>(Acquiring(pipeline, GiB(40)));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(ReasonOf(refused[0].status), kNeverFits);
  // As its request calls it, which has no policy.
  EXPECT_EQ(FieldOf(refused[0].status), "memory_bytes");
  EXPECT_THAT(std::string(refused[0].status.message()),
              testing::StartsWith("memory_bytes: 40 GiB never fits"));
  EXPECT_EQ(All<Refused>(Acquiring(pipeline, Bytes(0))).size(), 1u);
  EXPECT_EQ(All<Refused>(Acquiring(99, GiB(1))).size(), 1u);
}

TEST_F(SchedulerTest, ForcedLeaseWaitsForTheLevelAboveKillFree) {
  Available(GiB(4));  // 12.5 %, and 15 % is asked for
  Sample();
  const int pipeline = Register({});
  Acquiring(pipeline, GiB(10));
  EXPECT_FALSE(scheduler_->leases().at(LeaseId{1}).granted);
  Available(GiB(5));
  const auto granted = All<LeaseGranted>(Sample());
  ASSERT_EQ(granted.size(), 1u);
  EXPECT_TRUE(granted[0].forced);
}

// ---- Stopping ----

TEST_F(SchedulerTest, OverBudgetSuspendsWhoAskedForThatAndAResumeMakesTheBudgetWhole) {
  Sample();
  Policy policy;
  policy.swap_budget = GiB(2);
  policy.on_over_budget = OverBudget::kSuspend;
  Submitting(policy);
  Start(1);
  host_.swap_used = GiB(3);
  Effects effects = Sample();
  EXPECT_THAT(Signals(effects), ElementsAre(Signal::Kind::kSuspend));
  EXPECT_EQ(StateOf(1), JobState::kSuspended);
  EXPECT_THAT(scheduler_->Find(JobId{1})->reason_text, HasSubstr("swap charge 3 GiB is over"));
  host_.swap_used = GiB(6);  // its pages go on being swapped out by others
  EXPECT_THAT(Signals(Sample()), IsEmpty());
  effects = Step(ResumeAsked{JobId{1}});
  EXPECT_THAT(Signals(effects), ElementsAre(Signal::Kind::kContinue));
  host_.swap_used = GiB(7);
  EXPECT_THAT(Signals(Sample()), IsEmpty());
  EXPECT_EQ(StateOf(1), JobState::kRunning);
  host_.swap_used = GiB(8) + Bytes(1);
  EXPECT_THAT(Signals(Sample()), ElementsAre(Signal::Kind::kSuspend));
}

TEST_F(SchedulerTest, OverBudgetOnlyWarnsWhoAskedForThat) {
  Sample();
  Policy policy;
  policy.on_over_budget = OverBudget::kWarn;
  Submitting(policy);
  Start(1);
  host_.swap_used = GiB(9);
  const Effects effects = Sample();
  EXPECT_THAT(Signals(effects), IsEmpty());
  ASSERT_EQ(All<Note>(effects).size(), 1u);
  EXPECT_EQ(All<Note>(effects)[0].kind, "warned");
  host_.swap_used = GiB(10);
  EXPECT_THAT(All<Note>(Sample()), IsEmpty());  // once
}

TEST_F(SchedulerTest, SessionIsAskedToStopAndSignalledOnlyIfItAllowedThat) {
  for (const bool may_signal : {false, true}) {
    Restart(config_);
    host_.swap_used = Bytes(0);
    Sample();
    const int pipeline = Register({}, may_signal);
    host_.swap_used = GiB(8) + MiB(1);
    Effects effects = Sample();
    ASSERT_EQ(All<StopRequested>(effects).size(), 1u);
    EXPECT_EQ(All<StopRequested>(effects)[0].reason, Reason::kSwapBudget);
    EXPECT_THAT(Signals(effects), IsEmpty());
    Wait(absl::Seconds(5));
    effects = Step(Tick{});
    if (!may_signal) {
      EXPECT_THAT(Signals(effects), IsEmpty());
      ASSERT_EQ(All<Note>(effects).size(), 1u);
      EXPECT_EQ(All<Note>(effects)[0].kind, "stuck");
    } else {
      EXPECT_THAT(Signals(effects), ElementsAre(kTerm));
      Wait(absl::Seconds(5));
      EXPECT_THAT(Signals(Step(Tick{})), ElementsAre(kKill));
    }
    EXPECT_EQ(Ended(Step(ClientGone{JobId{pipeline}}))->state, JobState::kOutOfMemory);
  }
}

TEST_F(SchedulerTest, VictimThatCannotBeSignalledIsReportedOnceAndTheNextIsTakenInTheSameStep) {
  Sample();
  SubmitMemory(GiB(1));
  SubmitMemory(GiB(1));
  Start(1);
  Start(2);
  Holds(1, GiB(2));
  Holds(2, GiB(3));
  Sample();
  Available(GiB(3));  // 9.4 %
  for (int i = 0; i < 3; ++i) Sample();
  EXPECT_EQ(StateOf(2), JobState::kStopping);
  const Effects effects = Step(SignalRefused{JobId{2}, "1 of 1 processes"});
  EXPECT_EQ(StateOf(1), JobState::kStopping);
  const auto signals = All<Signal>(effects);
  ASSERT_EQ(signals.size(), 1u);
  EXPECT_EQ(signals[0].id, JobId{1});
  int stuck = 0;
  for (const Note& note : All<Note>(effects)) stuck += note.kind == "stuck";
  for (const Note& note : All<Note>(Step(SignalRefused{JobId{2}, "again"}))) {
    stuck += note.kind == "stuck";
  }
  EXPECT_EQ(stuck, 1);
}

TEST_F(SchedulerTest, OneThatSigkillDoesNotEndLetsTheNextBeTaken) {
  Sample();
  SubmitMemory(GiB(1));
  SubmitMemory(GiB(1));
  Start(1);
  Start(2);
  Holds(1, GiB(2));
  Holds(2, GiB(3));
  Sample();
  Available(GiB(3));
  for (int i = 0; i < 3; ++i) Sample();
  EXPECT_EQ(StateOf(2), JobState::kStopping);
  // 5 s of grace, and 5 s after SIGKILL.
  for (int i = 0; i < 19; ++i) Sample();
  EXPECT_EQ(StateOf(1), JobState::kRunning);
  for (int i = 0; i < 3; ++i) Sample();
  EXPECT_EQ(StateOf(1), JobState::kStopping);
}

TEST_F(SchedulerTest, DryRunDecidesAndTellsTheSameAndSignalsNobody) {
  config_.dry_run = true;
  Restart(config_);
  Sample();
  Submitting(Policy{});
  Start(1);
  host_.swap_used = GiB(9);
  Effects effects = Sample();
  EXPECT_THAT(Signals(effects), IsEmpty());
  ASSERT_EQ(All<Note>(effects).size(), 1u);
  EXPECT_EQ(All<Note>(effects)[0].kind, "would_stop");
  EXPECT_THAT(All<Note>(effects)[0].text, HasSubstr("dry run: SWAP_BUDGET: swap charge 9 GiB"));
  EXPECT_EQ(StateOf(1), JobState::kRunning);
  EXPECT_THAT(All<Note>(Sample()), IsEmpty());  // once
  // What a user asks for is done.
  EXPECT_THAT(Signals(Step(CancelAsked{JobId{1}})), ElementsAre(kTerm));
}

TEST_F(SchedulerTest, GraceTimeOfAStopGoesOnOverARestart) {
  JobRecord record;
  record.id = JobId{1};
  record.state = JobState::kStopping;
  record.reason = Reason::kSwapBudget;
  record.boot_id = "boot";
  record.stop_awake = now_.awake - absl::Seconds(3);
  Restart(config_, 2);
  Step(Restored{record});
  EXPECT_THAT(Signals(Start(1)), ElementsAre(kTerm));  // it may never have been sent
  Wait(absl::Seconds(2));
  EXPECT_THAT(Signals(Step(Tick{})), ElementsAre(kKill));
}

TEST_F(SchedulerTest, ChargeGoesOnOverARestart) {
  Sample();
  Submitting(Policy{});
  Start(1);
  host_.swap_used = GiB(5);
  const auto saves = All<Save>(Sample());
  ASSERT_EQ(saves.size(), 1u);  // a charge that moved is written down
  EXPECT_EQ(saves[0].record.charge, GiB(5));
  Restart(config_, 2);
  Step(Restored{saves[0].record});
  Start(1);
  host_.swap_used = GiB(8) + MiB(1);  // it went on while nobody looked
  const Effects effects = Sample(absl::Seconds(3));
  EXPECT_EQ(scheduler_->ledger().Of(JobId{1}).charge, GiB(8) + MiB(1));
  EXPECT_THAT(Signals(effects), ElementsAre(kTerm));
}

TEST_F(SchedulerTest, SwapThatGrewOverASleepIsNotChargedByTheNextDaemonEither) {
  Sample();
  Submitting(Policy{});
  Start(1);
  host_.swap_used = GiB(1);
  const auto saves = All<Save>(Sample());
  ASSERT_EQ(saves.size(), 1u);
  Restart(config_, 2);
  Sleep(absl::Minutes(30));
  Step(Restored{saves[0].record});
  Start(1);
  host_.swap_used = GiB(12);
  EXPECT_THAT(Signals(Sample()), IsEmpty());
  EXPECT_EQ(scheduler_->ledger().Of(JobId{1}).charge, GiB(1));
}

TEST_F(SchedulerTest, SuspensionThatMayNotHaveBeenCarriedOutIsSentAgain) {
  JobRecord record;
  record.id = JobId{1};
  record.state = JobState::kSuspended;
  Restart(config_, 2);
  Step(Restored{record});
  EXPECT_THAT(Signals(Start(1)), ElementsAre(Signal::Kind::kSuspend));
}

TEST_F(SchedulerTest, ResumeThatMayNotHaveBeenCarriedOutIsSentAgain) {
  JobRecord record;
  record.id = JobId{1};
  record.state = JobState::kRunning;
  Restart(config_, 2);
  Step(Restored{record});
  EXPECT_THAT(Signals(Start(1)), ElementsAre(Signal::Kind::kContinue));
  SubmitMemory(GiB(1));
  Sample();
  EXPECT_THAT(Signals(Start(2)), IsEmpty());
}

TEST_F(SchedulerTest, MomentsOfAnAdmissionBeforeAnotherBootDoNotCount) {
  JobRecord record;  // admitted, but no process of it was ever seen
  record.id = JobId{1};
  record.state = JobState::kRunning;
  record.policy.time_limit = absl::Seconds(60);
  record.started_awake = absl::Hours(100);
  record.charge_awake = absl::Hours(100);
  record.swap_at_charge = GiB(9);
  Restart(config_, 2);
  Step(Restored{record});
  Start(1);
  EXPECT_EQ(scheduler_->NextDeadline(), now_.awake + absl::Seconds(60));
  Sample();
  EXPECT_EQ(scheduler_->ledger().Of(JobId{1}).charge, Bytes(0));
}

TEST_F(SchedulerTest, SettleTimeGoesOnOverARestart) {
  config_.settle = absl::Seconds(15);
  Restart(config_);
  Sample();
  Submitting(Policy{});
  Start(1);
  const JobRecord record = *scheduler_->Find(JobId{1});
  Wait(absl::Seconds(5));
  Restart(config_, 2);
  Step(Restored{record});
  Sample();
  SubmitMemory(GiB(1));
  EXPECT_THAT(BlockersOf(2), ElementsAre(BlockerKind::kSettling));
  Sample(absl::Seconds(10));
  EXPECT_EQ(StateOf(2), JobState::kRunning);
}

TEST_F(SchedulerTest, SuspensionThatIsRefusedIsTakenBack) {
  Sample();
  SubmitMemory(GiB(1));
  Start(1);
  Step(SuspendAsked{JobId{1}});
  EXPECT_EQ(StateOf(1), JobState::kSuspended);
  Step(SignalRefused{JobId{1}, "not permitted"});
  EXPECT_EQ(StateOf(1), JobState::kRunning);
}

// ---- Learned peaks ----

TEST_F(SchedulerTest, RunTeachesItsProfileWhatItTookEvenIfNoFootprintShowsIt) {
  Sample();
  Submit submit;
  submit.profile = "qwen";
  Step(submit);
  Start(1);
  Holds(1, MiB(100));  // parked weights
  Available(GiB(4));
  host_.swap_used = GiB(1);
  Sample();
  const auto learned = All<Learned>(Step(Exited{JobId{1}, {0, {}, {}}, 0}));
  ASSERT_EQ(learned.size(), 1u);
  EXPECT_EQ(learned[0].profile, "qwen");
  EXPECT_EQ(learned[0].run.footprint, MiB(100));
  EXPECT_EQ(learned[0].run.true_peak, GiB(13));  // 16 - 4 + 1

  usage_.clear();
  Available(GiB(16));
  Sample(absl::Seconds(6));
  submit.policy.memory_auto = true;
  const Effects effects = Step(submit);
  ASSERT_EQ(All<core::Start>(effects).size(), 0u);
  EXPECT_THAT(scheduler_->BlockersOf(now_, JobId{2})[0].text, HasSubstr("needs 14.3 GiB"));
}

TEST_F(SchedulerTest, RunTooShortToBeSampledTeachesNothing) {
  Sample();
  Submit submit;
  submit.profile = "quick";
  Step(submit);
  Start(1);
  EXPECT_THAT(All<Learned>(Step(Exited{JobId{1}, {0, {}, {}}, 0})), IsEmpty());
  submit.policy.memory_auto = true;
  Step(submit);
  EXPECT_EQ(scheduler_->Find(JobId{2})->policy.memory, std::nullopt);  // unknown, not 0
}

TEST_F(SchedulerTest, RunThatOnceHadCompanyIsNeverAloneAgainNotEvenForTheNextDaemon) {
  Sample();
  SubmitMemory(GiB(1));
  Start(1);
  const Effects effects = SubmitMemory(GiB(1));
  std::vector<JobId> saved;
  for (const Save& save : All<Save>(effects)) {
    if (save.record.state == JobState::kRunning && !save.record.alone) {
      saved.push_back(save.record.id);
    }
  }
  EXPECT_THAT(saved, ElementsAre(JobId{1}, JobId{2}));
  Step(Exited{JobId{2}, {0, {}, {}}, 0});
  Holds(1, GiB(1));
  Available(GiB(4));
  Sample();
  EXPECT_EQ(scheduler_->Find(JobId{1})->true_peak, std::nullopt);
}

TEST_F(SchedulerTest, RunBesideOthersTeachesItsFootprintOnly) {
  Sample();
  Submit submit;
  submit.profile = "qwen";
  submit.policy.memory = GiB(1);
  Step(submit);
  SubmitMemory(GiB(1));
  Start(1);
  Holds(1, MiB(900));
  Sample();
  const auto learned = All<Learned>(Step(Exited{JobId{1}, {0, {}, {}}, 0}));
  ASSERT_EQ(learned.size(), 1u);
  EXPECT_EQ(learned[0].run.footprint, MiB(900));
  EXPECT_EQ(learned[0].run.true_peak, std::nullopt);
}

TEST_F(SchedulerTest, EqualEventsGiveEqualEffects) {
  const auto run = [this] {
    Restart({});
    now_ = Instant{absl::Seconds(1000), absl::Seconds(1000), absl::UnixEpoch()};
    std::string log;
    for (int i = 0; i < 50; ++i) {
      host_.swap_used = MiB(100 * i);
      for (const Effects& effects : {Sample(), SubmitMemory(GiB(1 + i % 5)), Start(i)}) {
        for (const Note& note : All<Note>(effects)) log += note.kind + note.text + '\n';
      }
    }
    return log;
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace stageload::core
