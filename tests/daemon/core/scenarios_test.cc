// Situations that users of such tools got burnt by, each under its number. What takes real
// processes to show is end to end, in tests/e2e and tests/daemon/jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/error_reason.h"
#include "daemon/core/charge_ledger.h"
#include "daemon/core/scheduler.h"
#include "tests/daemon/core/scheduler_fixture.h"

namespace stageload::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Scenario : public SchedulerTest {
 protected:
  std::vector<std::string> NotesOf(const Effects& effects) {
    std::vector<std::string> kinds;
    for (const Note& note : All<Note>(effects)) kinds.push_back(note.kind);
    return kinds;
  }
  // A client that runs as process 1000 + its id and holds `footprint`.
  int Running(const Policy& policy, Bytes footprint) {
    const int id = static_cast<int>(Value(All<Accepted>(Submitting(policy)).at(0).id));
    Start(id);
    Holds(id, footprint);
    return id;
  }
  // Job 1 held half of the 30 GiB that were there; the level of job 2, which declares nothing, is
  // there all the time.
  void FifteenGigabytesEndAndAnotherComes() {
    Available(GiB(30));
    Sample();
    Running(Policy{}, GiB(15));
    Available(GiB(15));
    Sample();
    Step(Exited{JobId{1}, {0, {}, {}}, 0});
    usage_.clear();
    Submitting(Policy{});
  }
  Policy Declares(Bytes memory) {
    Policy policy;
    policy.memory = memory;
    return policy;
  }
};

// ---- Admission ----

TEST_F(Scenario, S01_SecondOfTwoJobsWaitsThroughoutWhileTheFirstHasNotAllocatedYet) {
  Sample();
  SubmitMemory(GiB(10));
  EXPECT_THAT(All<core::Start>(SubmitMemory(GiB(10))), IsEmpty());
  Start(1);
  for (int i = 0; i < 60; ++i) {  // 30 s
    Holds(1, MiB(5));
    Sample();
    ASSERT_EQ(StateOf(2), JobState::kPending);
    ASSERT_THAT(BlockersOf(2), ElementsAre(BlockerKind::kMemory));
  }
  Holds(1, GiB(10));
  Available(GiB(6));
  Sample();
  EXPECT_EQ(StateOf(2), JobState::kPending);
  ASSERT_THAT(BlockersOf(2), ElementsAre(BlockerKind::kLevel, BlockerKind::kMemory));
  Step(Exited{JobId{1}, {0, {}, {}}});
  usage_.clear();
  Available(GiB(16));
  EXPECT_EQ(All<core::Start>(Sample()).size(), 1u);
  EXPECT_EQ(StateOf(2), JobState::kRunning);
}

TEST_F(Scenario, S02_RequestEqualToTheRoomStartsAndOneThatCanNeverFitIsRefusedWithTheArithmetic) {
  config_.reserve = GiB(2);
  Restart(config_);
  Sample();
  SubmitMemory(GiB(14));  // 16 available, 2 kept free
  EXPECT_EQ(StateOf(1), JobState::kRunning);
  Restart(config_);
  Sample();
  SubmitMemory(GiB(14) + Bytes(1));
  EXPECT_EQ(StateOf(1), JobState::kPending);
  SubmitMemory(GiB(30));
  EXPECT_NE(scheduler_->Find(JobId{2}), nullptr);
  const auto refused = All<Refused>(SubmitMemory(GiB(30) + Bytes(1)));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(ReasonOf(refused[0].status), kNeverFits);
  EXPECT_THAT(std::string(refused[0].status.message()),
              HasSubstr("the machine has 32 GiB, of which 2 GiB is kept free"));
}

TEST_F(Scenario, S03_NothingIsAdmittedOnASensorThatLiesAndTheQueueGoesOnOnceItIsBack) {
  const HostSample good = host_;
  HostSample lies[6] = {good, good, good, good, good, good};
  lies[0].available = GiB(64);  // of 32
  lies[1].available = Bytes(-1);
  lies[2].level = Percent{std::numeric_limits<double>::quiet_NaN()};
  lies[3].level = Percent{-7};
  lies[4].level.reset();  // unreadable
  lies[5].total = Bytes(0);
  std::int64_t told = 0;
  for (const HostSample& lie : lies) {
    Restart(config_);
    host_ = lie;
    const Effects effects = Sample();
    SubmitMemory(GiB(1));
    EXPECT_EQ(StateOf(1), JobState::kPending);
    ASSERT_THAT(BlockersOf(1), ElementsAre(BlockerKind::kStale));
    EXPECT_THAT(scheduler_->BlockersOf(now_, JobId{1})[0].text, HasSubstr("could not be read"));
    // Said once, however long it lies, and counted each time.
    const auto notes = NotesOf(effects);
    const std::int64_t lied = std::count(notes.begin(), notes.end(), "implausible");
    EXPECT_THAT(NotesOf(Sample()), IsEmpty());
    EXPECT_EQ(scheduler_->implausible(), 2 * lied);
    told += lied;
    host_ = good;
    Sample();
    EXPECT_EQ(StateOf(1), JobState::kRunning);
  }
  EXPECT_EQ(told, 5);  // what is absent is no lie
}

TEST_F(Scenario, S03_RequestWithoutADeclarationNeedsOnlyItsLevel) {
  host_.available.reset();
  Sample();
  Submitting(Policy{});
  EXPECT_EQ(StateOf(1), JobState::kRunning);
}

TEST_F(Scenario, S05_WhatAJobIsChargedForCountsAndNotItsResidentSize) {
  // The reader gives the footprint (Linux: RssAnon + RssShmem + VmSwap); here 1 GiB is resident and
  // 11 GiB compressed or swapped.
  Sample();
  Running(Declares(GiB(12)), GiB(12));
  Sample();
  EXPECT_EQ(scheduler_->Reserved(), Bytes(0));  // all that it declared is held
  EXPECT_EQ(scheduler_->Find(JobId{1})->peak_footprint, GiB(12));
}

TEST_F(Scenario, S06_NothingStartsIntoTheMemoryOfADeadJobBeforeItIsBack) {
  FifteenGigabytesEndAndAnotherComes();
  for (int i = 0; i < 7; ++i) {
    Sample();
    ASSERT_EQ(StateOf(2), JobState::kPending);
    ASSERT_THAT(BlockersOf(2), ElementsAre(BlockerKind::kRecovering));
    EXPECT_THAT(scheduler_->BlockersOf(now_, JobId{2})[0].text,
                HasSubstr("0 B of 15 GiB came back so far since job 1 ended"));
  }
  Available(GiB(29));  // nearly 4 s late
  Sample(absl::Milliseconds(400));
  EXPECT_EQ(StateOf(2), JobState::kRunning);
}

TEST_F(Scenario, S06_WhileMemoryStillComesBackFourSecondsAreNotTheEnd) {
  FifteenGigabytesEndAndAnotherComes();
  for (int i = 1; i <= 13; ++i) {  // half a GiB each half second
    Available(GiB(15) + MiB(512) * i);
    Sample();
    ASSERT_EQ(StateOf(2), JobState::kPending) << i;
  }
  Sample();  // it has stopped rising
  EXPECT_EQ(StateOf(2), JobState::kPending);
  Sample();
  EXPECT_EQ(StateOf(2), JobState::kRunning);
}

TEST_F(Scenario, S07_GapOfTwentySecondsBetweenTwoBusyProcessesIsNotQuietForAMinute) {
  Policy policy;
  policy.busy = {"ollama"};
  Submitting(policy);
  busy_ = {{"ollama", "41 ollama serve"}};
  Sample();
  ASSERT_THAT(BlockersOf(1), ElementsAre(BlockerKind::kBusy));
  EXPECT_THAT(scheduler_->BlockersOf(now_, JobId{1})[0].text, HasSubstr("process 41 ollama serve"));
  busy_ = {{"ollama", ""}};
  for (int i = 0; i < 40; ++i) Sample();  // 20 s of nobody
  busy_ = {{"ollama", "42 ollama serve"}};
  Sample();
  busy_ = {{"ollama", ""}};
  Sample();  // it was there until some moment before this one
  for (int i = 0; i < 119; ++i) {
    Sample();
    ASSERT_EQ(StateOf(1), JobState::kPending) << i;
  }
  EXPECT_EQ(scheduler_->BlockersOf(now_, JobId{1})[0].ends_in, absl::Milliseconds(500));
  Sample();
  EXPECT_EQ(StateOf(1), JobState::kRunning);
}

TEST_F(Scenario, S08_NextLeaseOfARunningPipelineGoesBeforeANewJob) {
  Sample();
  const int pipeline = Register({});
  Running(Declares(GiB(12)), GiB(12));
  Available(GiB(4));
  Sample();
  Acquiring(pipeline, GiB(10));
  SubmitMemory(GiB(10));
  Step(Exited{JobId{2}, {0, {}, {}}, 0});
  Available(GiB(16));
  usage_.clear();
  const Effects effects = Sample();
  ASSERT_EQ(All<LeaseGranted>(effects).size(), 1u);
  EXPECT_EQ(StateOf(3), JobState::kPending);
}

TEST_F(Scenario, S08_OfTwoPipelinesThatWaitForEachOthersMemoryTheOldestGetsOnForced) {
  Sample();
  const int one = Register({});
  const int two = Register({});
  Acquiring(one, GiB(6));
  Acquiring(two, GiB(6));
  Holds(one, GiB(6));
  Holds(two, GiB(6));
  Available(GiB(5));
  Sample();
  Acquiring(one, GiB(8));
  EXPECT_FALSE(scheduler_->leases().at(LeaseId{3}).granted);  // the other still works
  const auto granted = All<LeaseGranted>(Acquiring(two, GiB(8)));
  ASSERT_EQ(granted.size(), 1u);
  EXPECT_EQ(granted[0].id, LeaseId{3});
  EXPECT_TRUE(granted[0].forced);
}

TEST_F(Scenario, S09_HeldLaterAndFullOnesNeverStandInTheWay) {
  config_.group_limits = {{"gpu", 1}};
  Restart(config_);
  Sample();
  Submit first;
  first.group = "gpu";
  Step(first);
  Submit held;
  held.held = true;
  Step(held);
  Submit later;
  later.begin_time = now_.wall + absl::Hours(1);
  Step(later);
  Submit full;
  full.group = "gpu";
  Step(full);
  Submitting(Policy{});
  EXPECT_THAT(BlockersOf(2), ElementsAre(BlockerKind::kHeld));
  EXPECT_THAT(BlockersOf(3), ElementsAre(BlockerKind::kNotBefore));
  EXPECT_THAT(BlockersOf(4), ElementsAre(BlockerKind::kGroup));
  EXPECT_THAT(scheduler_->BlockersOf(now_, JobId{4})[0].text,
              HasSubstr("1 of at most 1 of group gpu run"));
  EXPECT_EQ(StateOf(5), JobState::kRunning);

  Step(ReleaseAsked{JobId{2}});
  EXPECT_EQ(StateOf(2), JobState::kRunning);
  Step(Exited{JobId{1}, {0, {}, {}}, 0});
  EXPECT_EQ(StateOf(4), JobState::kRunning);
  EXPECT_EQ(scheduler_->BlockersOf(now_, JobId{3})[0].ends_in, absl::Hours(1));
  Sample(absl::Hours(1));
  EXPECT_EQ(StateOf(3), JobState::kRunning);
}

// ---- Stopping ----

TEST_F(Scenario, S10_SoleJobOverItsBudgetIsStoppedOnceWithNumbersAndNotStartedAgain) {
  Sample();
  Running(Policy{}, GiB(20));
  host_.swap_used = GiB(9);
  Effects effects = Sample();
  EXPECT_THAT(Signals(effects), ElementsAre(kTerm));
  const JobRecord stopping = *scheduler_->Find(JobId{1});
  EXPECT_EQ(stopping.reason, Reason::kSwapBudget);
  EXPECT_THAT(stopping.reason_text, HasSubstr("swap charge 9 GiB is over the budget of 8 GiB"));
  EXPECT_THAT(Signals(Sample()), IsEmpty());
  const auto record = Ended(Step(Exited{JobId{1}, {{}, 15, {}}, 0}));
  ASSERT_TRUE(record);
  EXPECT_EQ(record->state, JobState::kOutOfMemory);
  usage_.clear();
  host_.swap_used = Bytes(0);
  Available(GiB(30));
  for (int i = 0; i < 60; ++i) EXPECT_THAT(All<core::Start>(Sample()), IsEmpty());
  EXPECT_EQ(scheduler_->active(), 0);
}

TEST_F(Scenario, S11_SwapOfAnUnmanagedProgramPausesAdmissions) {
  Sample();
  Running(Policy{}, GiB(1));
  for (int i = 1; i <= 4; ++i) {
    host_.swap_used = MiB(100) * i;
    Sample();
  }
  Submitting(Policy{});
  EXPECT_THAT(BlockersOf(2), ElementsAre(BlockerKind::kSwapping));
  for (int i = 0; i < 10; ++i) Sample();
  EXPECT_EQ(StateOf(2), JobState::kRunning);
}

TEST_F(Scenario, S11_JobThatSitsStillIsStoppedByDefaultAndLivesOnWithChargeOwn) {
  for (const ChargeMode mode : {ChargeMode::kSystem, ChargeMode::kOwn}) {
    Restart(config_);
    usage_.clear();
    host_.swap_used = Bytes(0);
    Policy policy;
    policy.charge_mode = mode;
    Sample();
    Running(policy, GiB(1));
    usage_[0].usage.swapped = MiB(10);
    Sample();
    usage_[0].usage.swapped = MiB(110);  // a little of it is its own
    host_.swap_used = GiB(9);
    const Effects effects = Sample();
    if (mode == ChargeMode::kSystem) {
      EXPECT_THAT(Signals(effects), ElementsAre(kTerm));
      EXPECT_THAT(scheduler_->Find(JobId{1})->reason_text,
                  HasSubstr("the machine's swap grew by 9 GiB, its own by 100 MiB"));
    } else {
      EXPECT_THAT(Signals(effects), IsEmpty());
      EXPECT_EQ(scheduler_->ledger().Of(JobId{1}).charge, MiB(100));
      EXPECT_EQ(scheduler_->ledger().unattributed(), GiB(9) - MiB(100));
    }
  }
}

TEST_F(Scenario, S12_OneThatIgnoresTermIsKilledAfterItsGraceAlsoWhenMemoryHasRecovered) {
  Sample();
  Running(Policy{}, GiB(20));
  host_.swap_used = GiB(9);
  Sample();
  host_.swap_used = Bytes(0);
  Available(GiB(30));
  for (int i = 0; i < 9; ++i) EXPECT_THAT(Signals(Sample()), IsEmpty()) << i;
  EXPECT_THAT(Signals(Sample()), ElementsAre(kKill));
  EXPECT_THAT(scheduler_->Find(JobId{1})->reason_text, HasSubstr("its grace time is over"));
}

TEST_F(Scenario, S13_LevelThatSwingsAroundTheThresholdStillActsAndALongCalmDisarms) {
  Sample();
  Running(Declares(GiB(1)), GiB(1));
  int swings = 0;
  for (; swings < 20 && StateOf(1) == JobState::kRunning; ++swings) {
    host_.level = Percent{swings % 2 == 0 ? 8.0 : 12.0};
    Sample();
  }
  EXPECT_EQ(StateOf(1), JobState::kStopping);
  EXPECT_LE(swings, 12);  // 6 s

  Restart(config_);
  host_.level = Percent{50};
  Sample();
  Running(Declares(GiB(1)), GiB(1));
  for (int i = 0; i < 10; ++i) {  // low for one sample, then calm for ten seconds
    host_.level = Percent{8};
    Sample();
    host_.level = Percent{50};
    for (int calm = 0; calm < 20; ++calm) Sample();
  }
  EXPECT_EQ(StateOf(1), JobState::kRunning);
}

TEST_F(Scenario, S14_NothingIsChargedRatedOrStoppedOverASleep) {
  Sample();
  Policy policy;
  policy.swap_limit = GiB(10);
  policy.time_limit = absl::Minutes(10);
  Running(policy, GiB(1));
  Sample();
  Sleep(absl::Minutes(30));
  host_.swap_used = GiB(12);  // hibernation
  host_.level = Percent{5};
  Effects effects = Sample();
  EXPECT_THAT(Signals(effects), IsEmpty());
  EXPECT_THAT(NotesOf(effects), ElementsAre("gap"));
  EXPECT_EQ(scheduler_->ledger().Of(JobId{1}).charge, Bytes(0));
  EXPECT_EQ(StateOf(1), JobState::kRunning);  // 30 min asleep are not 10 min of running
  Submitting(Policy{});
  EXPECT_THAT(BlockersOf(2), testing::Contains(BlockerKind::kWaking));
  EXPECT_THAT(BlockersOf(2), testing::Not(testing::Contains(BlockerKind::kSwapping)));
  // What still holds at the next sample counts.
  effects = Sample();
  EXPECT_EQ(scheduler_->Find(JobId{1})->reason, Reason::kSwapLimit);
}

TEST_F(Scenario, S14_NothingIsChargedOrStoppedAfterThreeMinutesWithoutASample) {
  Sample();
  Running(Policy{}, GiB(1));
  Sample();
  host_.swap_used = GiB(12);
  host_.level = Percent{5};
  const Effects effects = Sample(absl::Minutes(3));
  EXPECT_THAT(Signals(effects), IsEmpty());
  EXPECT_EQ(scheduler_->ledger().Of(JobId{1}).charge, Bytes(0));
  host_.level = Percent{50};
  Sample();
  EXPECT_EQ(StateOf(1), JobState::kRunning);
}

TEST_F(Scenario, S14_DelayThatFellDueInASleepRunsOnce) {
  Sample();
  Submit later;
  later.begin_time = now_.wall + absl::Minutes(10);
  Step(later);
  Sleep(absl::Minutes(30));
  Sample();
  EXPECT_EQ(StateOf(1), JobState::kPending);  // WAKING
  int starts = 0;
  for (int i = 0; i < 20; ++i) starts += static_cast<int>(All<core::Start>(Sample()).size());
  EXPECT_EQ(starts, 1);
  // Nor again when the clock is set back.
  now_.wall -= absl::Hours(1);
  for (int i = 0; i < 20; ++i) EXPECT_THAT(All<core::Start>(Sample()), IsEmpty());
}

TEST_F(Scenario, S15_PidThatWasUsedAgainIsNotTheProcessThatWasMeant) {
  EXPECT_TRUE(IsStill({412, 7}, {412, 7}));
  EXPECT_FALSE(IsStill({412, 7}, {412, 8}));
  EXPECT_FALSE(IsStill({412, 7}, {413, 7}));
}

TEST_F(Scenario, S16_CancelledJobThatIsSuspendedGoesOnFirst) {
  Sample();
  Running(Policy{}, GiB(1));
  EXPECT_THAT(Signals(Step(SuspendAsked{JobId{1}})), ElementsAre(Signal::Kind::kSuspend));
  EXPECT_THAT(Signals(Step(CancelAsked{JobId{1}})), ElementsAre(Signal::Kind::kContinue, kTerm));
}

TEST_F(Scenario, S17_SameStopAskedForTwiceIsOneStopWithOneGraceTime) {
  Sample();
  Running(Policy{}, GiB(1));
  EXPECT_THAT(Signals(Step(CancelAsked{JobId{1}})), ElementsAre(kTerm));
  const auto deadline = scheduler_->NextDeadline();
  Wait(absl::Seconds(2));
  const Effects effects = Step(CancelAsked{JobId{1}});
  EXPECT_THAT(Signals(effects), IsEmpty());
  EXPECT_THAT(All<Save>(effects), IsEmpty());
  EXPECT_EQ(scheduler_->NextDeadline(), deadline);
}

TEST_F(Scenario, S18_ProcessThatVanishedWhileTheTableWasReadLeavesTheOthersConsidered) {
  Sample();
  Running(Declares(GiB(1)), GiB(1));
  Running(Declares(GiB(1)), GiB(2));
  Running(Declares(GiB(1)), GiB(3));
  Sample();
  usage_.erase(usage_.begin() + 1);  // job 2 could not be read
  Available(GiB(3));
  for (int i = 0; i < 3; ++i) Sample();
  EXPECT_EQ(StateOf(3), JobState::kStopping);
  EXPECT_EQ(StateOf(2), JobState::kRunning);
}

// ---- Jobs ----

TEST_F(Scenario, S24_ChildOfAJobThatHadFailedBeforeTheSubmitIsCancelledWithThatReason) {
  Sample();
  Submit child;
  child.after = {JobId{44}};
  child.ended_parents = {{JobId{44}, JobState::kFailed}};
  const Effects effects = Step(child);
  ASSERT_EQ(All<Accepted>(effects).size(), 1u);
  const auto record = Ended(effects);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->state, JobState::kCancelled);
  EXPECT_EQ(record->reason, Reason::kDependencyNever);
  EXPECT_THAT(record->reason_text, HasSubstr("after job 44, which ended as FAILED"));

  child.ended_parents = {{JobId{44}, JobState::kCompleted}};
  EXPECT_EQ(All<core::Start>(Step(child)).size(), 1u);
}

TEST_F(Scenario, S24_AParentThatHasCompletedIsNotKeptAndMayBeForgotten) {
  Sample();
  Submit child;
  child.after = {JobId{44}};
  child.ended_parents = {{JobId{44}, JobState::kCompleted}};
  child.held = true;
  for (const Save& save : All<Save>(Step(child))) EXPECT_THAT(save.record.after, IsEmpty());

  // It completed while there was no daemon.
  JobRecord record;
  record.id = JobId{50};
  record.held = true;
  record.after = {JobId{44}};
  const auto saves = All<Save>(Step(Restored{record, {{JobId{44}, JobState::kCompleted}}}));
  ASSERT_EQ(saves.size(), 1u);
  EXPECT_THAT(saves[0].record.after, IsEmpty());
}

TEST_F(Scenario, S26_TimeSuspendedDoesNotCountAgainstTheTimeLimit) {
  Sample();
  Policy policy = Declares(GiB(1));
  policy.time_limit = absl::Seconds(60);
  Running(policy, GiB(1));
  Sample(absl::Seconds(30));
  EXPECT_THAT(Signals(Step(SuspendAsked{JobId{1}})), ElementsAre(Signal::Kind::kSuspend));
  EXPECT_EQ(scheduler_->NextDeadline(), std::nullopt);
  EXPECT_EQ(scheduler_->Reserved(), Bytes(0));
  for (int i = 0; i < 100; ++i) Sample(absl::Seconds(10));
  EXPECT_EQ(StateOf(1), JobState::kSuspended);
  // Also over a restart of the daemon in between.
  const JobRecord record = *scheduler_->Find(JobId{1});
  Restart(config_, 2);
  Step(Restored{record});
  Start(1);
  EXPECT_THAT(Signals(Step(ResumeAsked{JobId{1}})), ElementsAre(Signal::Kind::kContinue));
  EXPECT_EQ(scheduler_->NextDeadline(), now_.awake + absl::Seconds(30));
  Wait(absl::Seconds(29.9));
  EXPECT_THAT(Signals(Step(Tick{})), IsEmpty());
  Wait(absl::Seconds(0.1));
  EXPECT_THAT(Signals(Step(Tick{})), ElementsAre(kTerm));
  EXPECT_EQ(Ended(Step(Exited{JobId{1}, {{}, 15, {}}, 0}))->state, JobState::kTimeout);
}

}  // namespace
}  // namespace stageload::core
