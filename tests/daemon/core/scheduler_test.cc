// The whole state machine, stepped by hand over a machine of 32 GB with 16 GB free unless said.
#include "daemon/core/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error_reason.h"

namespace stageload::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SchedulerTest : public testing::Test {
 protected:
  SchedulerTest() {
    host_.total = GiB(32);
    host_.swap_used = Bytes(0);
    host_.pressure = Pressure::kNormal;
    Available(GiB(16));
    Restart({});
  }

  void Restart(Config config) { scheduler_.emplace(config, JobId{1}); }
  void Available(Bytes bytes) {
    host_.available = bytes;
    host_.level = Percent{100 * bytes.AsDouble() / GiB(32).AsDouble()};
  }
  void Holds(int id, Bytes footprint, int processes = 1) {
    for (ClientUsage& usage : usage_) {
      if (Value(usage.id) == id) {
        usage.usage.footprint = footprint;
        usage.processes = processes;
        return;
      }
    }
    usage_.push_back({JobId{id}, {footprint, std::nullopt}, processes});
  }

  Effects Step(const Event& event) { return scheduler_->Step(now_, event); }
  Effects Wait(absl::Duration duration) {
    now_.awake += duration;
    now_.continuous += duration;
    now_.wall += duration;
    return {};
  }
  Effects Sample(absl::Duration after = absl::Milliseconds(500)) {
    Wait(after);
    return Step(SampleTaken{{host_, usage_}});
  }
  Effects Submitting(const Policy& policy, JobKind kind = JobKind::kJob) {
    Submit submit;
    submit.token = ++token_;
    submit.kind = kind;
    submit.name = "train";
    submit.policy = policy;
    return Step(submit);
  }
  Effects SubmitMemory(Bytes memory) {
    Policy policy;
    policy.memory = memory;
    return Submitting(policy);
  }
  Effects Start(int id) { return Step(Started{JobId{id}, ProcessIdentity{1000 + id, 1}, "boot"}); }
  JobState StateOf(int id) const {
    const JobRecord* record = scheduler_->Find(JobId{id});
    return record == nullptr ? JobState::kUnknown : record->state;
  }
  std::vector<BlockerKind> BlockersOf(int id) const {
    std::vector<BlockerKind> kinds;
    for (const Blocker& blocker : scheduler_->BlockersOf(now_, JobId{id})) {
      kinds.push_back(blocker.kind);
    }
    return kinds;
  }

  template <typename E>
  static std::vector<E> All(const Effects& effects) {
    std::vector<E> found;
    for (const Effect& effect : effects) {
      if (const auto* e = std::get_if<E>(&effect)) found.push_back(*e);
    }
    return found;
  }
  static std::vector<Signal::Kind> Signals(const Effects& effects) {
    std::vector<Signal::Kind> kinds;
    for (const Signal& signal : All<Signal>(effects)) kinds.push_back(signal.kind);
    return kinds;
  }
  // The end row that `effects` save, if any.
  static std::optional<JobRecord> Ended(const Effects& effects) {
    for (const Save& save : All<Save>(effects)) {
      if (IsEnd(save.record.state)) return save.record;
    }
    return std::nullopt;
  }

  HostSample host_;
  std::vector<ClientUsage> usage_;
  Instant now_{absl::Seconds(1000), absl::Seconds(1000), absl::UnixEpoch() + absl::Hours(1)};
  std::uint64_t token_ = 0;
  std::optional<Scheduler> scheduler_;
};

constexpr auto kTerm = Signal::Kind::kTerminate;
constexpr auto kKill = Signal::Kind::kKill;

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

TEST_F(SchedulerTest, TwoTenGigabyteJobsNeverStartIntoTheSameSixteen) {
  Sample();
  SubmitMemory(GiB(10));
  EXPECT_THAT(All<core::Start>(SubmitMemory(GiB(10))), IsEmpty());
  Start(1);
  // The first allocates only after 30 s; the second waits with MEMORY throughout.
  for (int i = 0; i < 60; ++i) {
    Holds(1, MiB(5));
    Sample();
    ASSERT_EQ(StateOf(2), JobState::kPending);
    ASSERT_THAT(BlockersOf(2), ElementsAre(BlockerKind::kMemory));
  }
  Holds(1, GiB(10));
  Available(GiB(6));
  Sample();
  EXPECT_EQ(StateOf(2), JobState::kPending);
  Step(Exited{JobId{1}, {0, {}, {}}});
  usage_.clear();
  Available(GiB(16));
  EXPECT_EQ(All<core::Start>(Sample()).size(), 1u);
  EXPECT_EQ(StateOf(2), JobState::kRunning);
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
  EXPECT_THAT(scheduler_->QueuePositions({JobId{1}, JobId{2}, JobId{3}, JobId{4}, JobId{9}}),
              ElementsAre(3, 2, 4, 1, 0));
  EXPECT_THAT(BlockersOf(1), ElementsAre(BlockerKind::kStale, BlockerKind::kOrder));
  EXPECT_THAT(BlockersOf(4), ElementsAre(BlockerKind::kStale));
}

TEST_F(SchedulerTest, NobodyPassesTheFirstWhileItIsBlockedForMemory) {
  Sample();
  SubmitMemory(GiB(10));
  SubmitMemory(GiB(12));
  SubmitMemory(GiB(1));
  EXPECT_EQ(StateOf(3), JobState::kPending);
  const auto blockers = scheduler_->BlockersOf(now_, JobId{3});
  ASSERT_EQ(blockers.size(), 1u);
  EXPECT_EQ(blockers[0].kind, BlockerKind::kOrder);
  EXPECT_EQ(blockers[0].needed, 2);
  EXPECT_THAT(blockers[0].text, HasSubstr("job 2 goes first"));
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
