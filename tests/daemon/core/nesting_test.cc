// A guard inside a job or inside what another guards is a part of it, and never waits for it.
#include "daemon/core/nesting.h"

#include "tests/daemon/core/scheduler_fixture.h"

namespace stageload::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// 32 GiB, of which 16 are free and 3.2 are kept so.
class NestingTest : public SchedulerTest {
 protected:
  int Guarding(std::optional<Bytes> memory, std::optional<int> inside = std::nullopt,
               const std::string& group = "") {
    Policy policy = policy_;
    policy.memory = memory;
    Submit submit;
    submit.token = ++token_;
    submit.kind = JobKind::kGuard;
    submit.name = "generate";
    submit.group = group;
    submit.policy = policy;
    if (inside) submit.inside = JobId{*inside};
    return static_cast<int>(Value(All<Accepted>(Step(submit)).at(0).id));
  }
  // One that runs and holds so much.
  int Outer(std::optional<Bytes> memory, Bytes held = MiB(10), const std::string& group = "") {
    Sample();
    const int id = Guarding(memory, std::nullopt, group);
    EXPECT_EQ(StateOf(id), JobState::kRunning);
    Start(id);
    Holds(id, held);
    Sample();
    return id;
  }
  void End(int id) {
    Step(Exited{JobId{id}, Outcome{.exit_code = 0, .signal = {}, .start_errno = {}}});
  }

  Policy policy_;
};

TEST_F(NestingTest, WithinWhatTheOuterDeclaredItStartsAtOnceAndReservesNothingMore) {
  const int outer = Outer(GiB(12));
  const Bytes reserved = scheduler_->Reserved();
  const int inner = Guarding(GiB(10), outer);
  EXPECT_EQ(StateOf(inner), JobState::kRunning);
  EXPECT_EQ(scheduler_->Reserved(), reserved);
  // What it takes of that is no longer to come.
  Holds(inner, GiB(8));
  Available(GiB(8));
  Sample();
  EXPECT_EQ(scheduler_->Reserved(), reserved - GiB(8));
}

TEST_F(NestingTest, WhatNeverFitsBesidesWhatASessionAroundItDeclaredIsRefused) {
  config_.memory_pool = GiB(14);
  Restart(config_);
  Sample();
  Policy policy;
  policy.memory = GiB(6);
  const int session = Register(policy);
  EXPECT_EQ(StateOf(Guarding(GiB(8), session)), JobState::kRunning);
  Submit submit;
  submit.token = ++token_;
  submit.kind = JobKind::kGuard;
  submit.policy.memory = GiB(9);
  submit.inside = JobId{session};
  const auto refused = All<Refused>(Step(submit));
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].status.message(),
            "policy.memory_bytes: 9 GiB besides 6 GiB that is declared already never fits into the "
            "pool of 14 GiB (memory_pool)");
}

TEST_F(NestingTest, BeyondWhatTheOuterDeclaredItNeedsRoomForTheRest) {
  config_.memory_pool = GiB(14);
  Restart(config_);
  const int outer = Outer(GiB(10));
  const int other = Guarding(GiB(2));
  ASSERT_EQ(StateOf(other), JobState::kRunning);
  const int inner = Guarding(GiB(13), outer);
  EXPECT_EQ(StateOf(inner), JobState::kPending) << "3 GiB more, and 2 are left in the pool";
  EXPECT_EQ(StateOf(Guarding(GiB(10), outer)), JobState::kRunning);
}

TEST_F(NestingTest, TwoInsideOneShareItsDeclaration) {
  config_.memory_pool = GiB(12);
  Restart(config_);
  const int outer = Outer(GiB(12));
  const int other = Outer(std::nullopt);
  EXPECT_EQ(StateOf(Guarding(GiB(8), outer)), JobState::kRunning);
  const int second = Guarding(GiB(8), outer);
  EXPECT_EQ(StateOf(second), JobState::kPending) << "4 GiB of the 12 are left to it";
  EXPECT_EQ(StateOf(other), JobState::kRunning);
  End(second - 1);
  EXPECT_EQ(StateOf(second), JobState::kRunning);
}

TEST_F(NestingTest, AnOuterThatDeclaredNothingIsNotWaitedForToSettle) {
  config_.settle = absl::Seconds(15);
  Restart(config_);
  const int outer = Outer(std::nullopt);
  const int beside = Guarding(GiB(1));
  EXPECT_THAT(BlockersOf(beside), ElementsAre(BlockerKind::kSettling));
  const int inner = Guarding(GiB(1), outer);
  EXPECT_EQ(StateOf(inner), JobState::kRunning);
  const int innermost = Guarding(GiB(1), inner);
  EXPECT_EQ(StateOf(innermost), JobState::kRunning) << "nor by what is inside the inside";
}

TEST_F(NestingTest, TheOuterSwapBudgetDoesNotCountAgainstTheInnerLimit) {
  policy_.swap_budget = GiB(8);
  policy_.swap_limit = GiB(10);
  const int outer = Outer(GiB(1));
  EXPECT_EQ(StateOf(Guarding(GiB(1), outer)), JobState::kRunning);
  EXPECT_THAT(BlockersOf(Guarding(GiB(1))), ElementsAre(BlockerKind::kSwapLimit));
}

TEST_F(NestingTest, AGroupThatIsFullOfTheOuterDoesNotHoldTheInnerBack) {
  config_.group_limits = {{"gpu", 1}};
  Restart(config_);
  const int outer = Outer(GiB(1), MiB(10), "gpu");
  EXPECT_EQ(StateOf(Guarding(GiB(1), outer, "gpu")), JobState::kRunning);
  EXPECT_EQ(StateOf(Guarding(GiB(1), std::nullopt, "gpu")), JobState::kPending);
}

TEST_F(NestingTest, ItGoesBeforeStartsThatWaitForItsOuter) {
  const int outer = Outer(GiB(6));
  const int large = Guarding(GiB(12));
  ASSERT_EQ(StateOf(large), JobState::kPending);
  for (int i = 0; i < config_.max_bypass; ++i) End(Guarding(MiB(1)));
  ASSERT_EQ(StateOf(Guarding(MiB(1))), JobState::kPending) << "nobody may pass any more";
  EXPECT_EQ(StateOf(Guarding(GiB(2), outer)), JobState::kRunning);
}

TEST_F(NestingTest, WhenEverybodyWaitsForWhatIsInsideItGoes) {
  Sample();
  const int outer = Guarding(std::nullopt);
  Start(outer);
  Holds(outer, GiB(22));
  Available(GiB(8));  // 25 %, under wait_free
  Sample();
  const Effects effects = [&] {
    Submit submit;
    submit.token = ++token_;
    submit.kind = JobKind::kGuard;
    submit.name = "generate";
    submit.inside = JobId{outer};
    return Step(submit);
  }();
  const int inner = outer + 1;
  EXPECT_EQ(StateOf(inner), JobState::kRunning);
  bool told = false;
  for (const Note& note : All<Note>(effects)) {
    if (note.kind != "admitted") continue;
    told = true;
    EXPECT_THAT(note.text, HasSubstr("inside job 1, forced: every client waited"));
  }
  EXPECT_TRUE(told);
}

TEST_F(NestingTest, NothingIsForcedWhileAnotherClientGoesOnOrTheLevelIsNearTheEnd) {
  Sample();
  const int outer = Outer(std::nullopt, GiB(20));
  const int other = Outer(std::nullopt);
  Available(GiB(8));
  Sample();
  const int inner = Guarding(std::nullopt, outer);
  EXPECT_THAT(BlockersOf(inner), ElementsAre(BlockerKind::kLevel));
  Available(GiB(4));  // 12.5 %: less than 5 over kill_free
  Sample();
  End(other);
  EXPECT_EQ(StateOf(inner), JobState::kPending);
  Available(GiB(6));
  Sample();
  EXPECT_EQ(StateOf(inner), JobState::kRunning);
}

TEST_F(NestingTest, WithoutItsOuterItIsAClientLikeAnyOther) {
  const int outer = Outer(GiB(12));
  const int inner = Guarding(GiB(10), outer);
  End(outer);
  EXPECT_EQ(StateOf(inner), JobState::kRunning);
  EXPECT_EQ(scheduler_->Reserved(), GiB(10));
}

TEST_F(NestingTest, OneThatIsFoundAgainIsInsideAsBefore) {
  JobRecord record;
  record.kind = JobKind::kGuard;
  record.state = JobState::kRunning;
  record.policy.memory = GiB(12);
  record.boot_id = "boot";
  record.id = JobId{1};
  Restart(config_, 3);
  Step(Restored{record});
  record.id = JobId{2};
  record.policy.memory = GiB(10);
  Step(Restored{record});
  Start(1);
  Step(Started{JobId{2}, ProcessIdentity{1002, 1}, "boot", JobId{1}});
  EXPECT_EQ(scheduler_->Reserved(), GiB(12));
}

TEST_F(NestingTest, OneThatIsTakenBackLeavesNothingBehind) {
  const int outer = Outer(GiB(12));
  Outer(std::nullopt);  // goes on, so that nothing is forced
  const Bytes reserved = scheduler_->Reserved();
  const int inner = Guarding(GiB(28), outer);
  ASSERT_EQ(StateOf(inner), JobState::kPending);
  Step(ClientGone{JobId{inner}});
  EXPECT_EQ(StateOf(inner), JobState::kUnknown);
  End(outer);
  EXPECT_LT(scheduler_->Reserved(), reserved);
}

TEST(NestingOfThree, TheMiddleGoesAndTheInnerIsInsideTheOuter) {
  Nesting nesting;
  nesting.Add(JobId{2}, JobId{1});
  nesting.Add(JobId{3}, JobId{2});
  EXPECT_TRUE(nesting.IsInside(JobId{3}, JobId{1}));
  EXPECT_FALSE(nesting.IsInside(JobId{1}, JobId{3}));
  nesting.Remove(JobId{2});
  EXPECT_EQ(nesting.Around(JobId{3}), JobId{1});
  EXPECT_THAT(nesting.Inside(JobId{1}), ElementsAre(JobId{3}));
  nesting.Remove(JobId{1});
  EXPECT_THAT(nesting.all(), IsEmpty());
}

}  // namespace
}  // namespace stageload::core
