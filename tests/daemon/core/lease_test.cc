// Leases of jobs whose command registers, of programs that outlived their daemon, and the limits of
// sessions. That leases wait for room, in order and without deadlock: scheduler_test.cc.
#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "tests/daemon/core/scheduler_fixture.h"

namespace stageload::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LeaseTest : public SchedulerTest {
 protected:
  // One that holds 100 MiB; 16 GiB are free.
  int RunJob(std::optional<Bytes> memory) {
    Policy policy;
    policy.memory = memory;
    const int id = static_cast<int>(Value(All<Accepted>(Submitting(policy)).at(0).id));
    Sample();
    Start(id);
    Holds(id, MiB(100));
    Sample();
    EXPECT_EQ(StateOf(id), JobState::kRunning);
    return id;
  }
  static std::vector<std::string> KindsOf(const Effects& effects) {
    std::vector<std::string> kinds;
    for (const Note& note : All<Note>(effects)) kinds.push_back(note.kind);
    return kinds;
  }
  static std::string GrantText(const Effects& effects) {
    for (const Note& note : All<Note>(effects)) {
      if (note.kind == "lease_granted") return note.text;
    }
    return "no grant";
  }
};

TEST_F(LeaseTest, ALeaseWithinWhatItsJobDeclaredNeedsNoMoreRoom) {
  const int job = RunJob(GiB(12));
  const Bytes reserved = scheduler_->Reserved();
  const Effects effects = Acquiring(job, GiB(8));
  EXPECT_THAT(All<LeaseGranted>(effects), SizeIs(1));
  EXPECT_EQ(scheduler_->Reserved(), reserved);
  EXPECT_THAT(All<LeaseGranted>(Acquiring(job, GiB(4))), SizeIs(1));
  EXPECT_EQ(scheduler_->Reserved(), reserved);
}

TEST_F(LeaseTest, ALeaseBeyondWhatItsJobDeclaredNeedsRoomForTheRest) {
  const int job = RunJob(GiB(12));
  ASSERT_THAT(All<LeaseGranted>(Acquiring(job, GiB(10))), SizeIs(1));
  // 12 declared, 10 leased: 4 more are 2 over; 16 - 12 - 2 leaves less than the reserve of 3.2.
  const Effects waits = Acquiring(job, GiB(4));
  ASSERT_THAT(All<LeaseQueued>(waits), SizeIs(1));
  const LeaseId lease = All<LeaseQueued>(waits)[0].id;
  EXPECT_THAT(All<LeaseGranted>(waits), SizeIs(1)) << "every client waits for a lease: forced";
  EXPECT_TRUE(All<LeaseGranted>(waits)[0].forced);
  EXPECT_TRUE(scheduler_->leases().at(lease).forced);
}

TEST_F(LeaseTest, ALeaseThatNeverFitsWithWhatItsClientDeclaresIsRefused) {
  config_.memory_pool = GiB(10);
  Restart(config_);
  Sample();
  const int job = RunJob(GiB(6));
  Effects asked = Acquiring(job, GiB(11));
  ASSERT_THAT(All<Refused>(asked), SizeIs(1));
  EXPECT_EQ(ReasonOf(All<Refused>(asked)[0].status), kNeverFits);
  EXPECT_EQ(All<Refused>(asked)[0].status.message(),
            "memory_bytes: 11 GiB never fits into the pool of 10 GiB (memory_pool)");
  // What it holds may be given back first.
  EXPECT_THAT(All<LeaseGranted>(Acquiring(job, GiB(8))), SizeIs(1));
  EXPECT_THAT(All<LeaseQueued>(Acquiring(job, GiB(9))), SizeIs(1));

  Policy besides;
  besides.memory = GiB(6);
  const int session = Register(besides);
  EXPECT_THAT(All<LeaseQueued>(Acquiring(session, GiB(4))), SizeIs(1));
  asked = Acquiring(session, GiB(5));
  ASSERT_THAT(All<Refused>(asked), SizeIs(1));
  EXPECT_EQ(ReasonOf(All<Refused>(asked)[0].status), kNeverFits);
  EXPECT_EQ(
      All<Refused>(asked)[0].status.message(),
      "memory_bytes: 5 GiB besides 6 GiB that is declared already never fits into the pool of "
      "10 GiB (memory_pool)");
}

TEST_F(LeaseTest, NothingIsForcedWhileAnotherProgramOfTheSameClientHoldsALeaseAndGoesOn) {
  const int job = RunJob(std::nullopt);
  Step(Acquire{++token_, JobId{job}, "a", GiB(10), std::nullopt, false, 1});
  Step(Acquire{++token_, JobId{job}, "b", GiB(10), std::nullopt, false, 2});
  EXPECT_THAT(scheduler_->WaitingLeases(), SizeIs(1));
  // Now the first waits as well.
  const Effects effects = Step(Acquire{++token_, JobId{job}, "c", GiB(10), std::nullopt, false, 1});
  ASSERT_THAT(All<LeaseGranted>(effects), SizeIs(1));
  EXPECT_TRUE(All<LeaseGranted>(effects)[0].forced);
}

TEST_F(LeaseTest, WhoDoesNotWaitIsNotForcedAndHearsWhatBlocksIt) {
  Available(GiB(8));
  Sample();
  const int session = Register({});
  const Effects asked = Acquiring(session, GiB(10), absl::ZeroDuration());
  EXPECT_THAT(All<LeaseGranted>(asked), IsEmpty());
  ASSERT_THAT(All<LeaseDenied>(asked), SizeIs(1));
  const LeaseDenied denied = All<LeaseDenied>(asked)[0];
  EXPECT_EQ(ReasonOf(denied.status), kAdmissionTimeout);
  EXPECT_THAT(std::string(denied.status.message()), HasSubstr("needs 10 GiB"));
  std::vector<BlockerKind> kinds;
  for (const Blocker& blocker : denied.blockers) kinds.push_back(blocker.kind);
  EXPECT_THAT(kinds, ElementsAre(BlockerKind::kLevel, BlockerKind::kMemory));
  // One that waits is, as nobody else could ever make room for it.
  ASSERT_THAT(All<LeaseGranted>(Acquiring(session, GiB(10), absl::Seconds(1))), SizeIs(1));
}

TEST_F(LeaseTest, WhatAClientHeldIsReleasedInTheTelemetryAsItEnds) {
  Sample();
  const int session = Register({});
  ASSERT_THAT(All<LeaseGranted>(Acquiring(session, GiB(10))), SizeIs(1));
  const std::vector<Note> notes = All<Note>(Step(ClientGone{JobId{session}}));
  std::vector<std::string> kinds;
  for (const Note& note : notes) kinds.push_back(note.kind);
  EXPECT_THAT(kinds, ElementsAre("lease_released", "ended"));
  EXPECT_THAT(notes[0].text, HasSubstr("10 GiB, as its client ended"));
}

TEST_F(LeaseTest, WhatAProgramHeldBeforeItRegisteredIsNoPartOfItsFirstLease) {
  Sample();
  const int session = Register({});
  Acquire acquire{++token_, JobId{session}, "a", GiB(4), {}};
  acquire.footprint = GiB(3);  // no sample has it yet
  ASSERT_THAT(All<LeaseGranted>(Step(acquire)), SizeIs(1));
  EXPECT_EQ(scheduler_->Reserved(), GiB(4));
  Holds(session, GiB(5));
  Sample();
  EXPECT_EQ(scheduler_->Reserved(), GiB(2));
}

TEST_F(LeaseTest, WhoIsSuspendedGetsNoLeaseAndKeepsNobodyFromTheirs) {
  Available(GiB(20));
  Sample();
  const int holder = Register({});
  const LeaseId held = All<LeaseGranted>(Acquiring(holder, GiB(12))).at(0).id;
  const int asleep = Register({});
  const LeaseId wanted = All<LeaseQueued>(Acquiring(asleep, GiB(10))).at(0).id;
  Step(SuspendAsked{JobId{asleep}});
  EXPECT_THAT(All<LeaseGranted>(Step(LeaseReleased{held})), IsEmpty());
  EXPECT_EQ(scheduler_->BlockersOf(now_, wanted).back().text,
            absl::StrCat("its client ", asleep, " is suspended"));
  EXPECT_THAT(All<LeaseGranted>(Acquiring(holder, GiB(12))), SizeIs(1));
  Step(ClientGone{JobId{holder}});
  EXPECT_THAT(All<LeaseGranted>(Step(ResumeAsked{JobId{asleep}})), SizeIs(1));
}

TEST_F(LeaseTest, WhatCanNeverFitUnderANewConfigWaitsNoLonger) {
  config_.memory_pool = GiB(12);
  Restart(config_);
  Sample();
  const int holder = Register({});
  Acquiring(holder, GiB(10));
  const int other = Register({});
  const LeaseId small = All<LeaseQueued>(Acquiring(other, GiB(3))).at(0).id;
  const LeaseId large = All<LeaseQueued>(Acquiring(other, GiB(6))).at(0).id;
  config_.memory_pool = GiB(4);
  const Effects effects = Step(ConfigChanged{config_});
  const auto denied = All<LeaseDenied>(effects);
  ASSERT_THAT(denied, SizeIs(1));
  EXPECT_EQ(denied[0].id, large);
  EXPECT_EQ(ReasonOf(denied[0].status), kNeverFits);
  EXPECT_THAT(scheduler_->WaitingLeases(), ElementsAre(small));
}

// ---- Forced, and what it says of those who do not go on ----

TEST_F(LeaseTest, NothingIsForcedBesideASessionThatDoesNotEndWhenAskedTo) {
  config_.memory_pool = GiB(12);
  Restart(config_);
  Sample();
  const int holder = Register({}, /*may_signal=*/false);
  ASSERT_THAT(All<LeaseGranted>(Acquiring(holder, GiB(10))), SizeIs(1));
  const int other = Register({});
  Acquiring(other, GiB(10));
  Step(CancelAsked{JobId{holder}});
  const Effects grace_over = Sample(absl::Seconds(6));
  EXPECT_THAT(KindsOf(grace_over), ::testing::Contains("stuck"));
  EXPECT_THAT(All<LeaseGranted>(grace_over), IsEmpty()) << "it runs, and holds its memory";
  EXPECT_THAT(All<LeaseGranted>(Sample(absl::Seconds(40))), IsEmpty());
  const Effects gone = Step(ClientGone{JobId{holder}});
  ASSERT_THAT(All<LeaseGranted>(gone), SizeIs(1));
  EXPECT_FALSE(All<LeaseGranted>(gone)[0].forced);
}

TEST_F(LeaseTest, NothingIsForcedBesideOneThatNoSignalReaches) {
  const int job = RunJob(GiB(12));
  const int other = Register({});
  Acquiring(other, GiB(10));
  Step(CancelAsked{JobId{job}});
  Step(SignalRefused{JobId{job}, "EPERM"});
  Sample(absl::Seconds(6));
  Sample(absl::Seconds(6));
  EXPECT_THAT(scheduler_->WaitingLeases(), SizeIs(1));
}

TEST_F(LeaseTest, BesideOneThatWasKilledAndIsNotGoneALeaseIsForcedAndSaysSo) {
  const int job = RunJob(GiB(12));
  const int other = Register({});
  Acquiring(other, GiB(10));
  Step(CancelAsked{JobId{job}});
  EXPECT_THAT(Signals(Sample(absl::Seconds(5))), ElementsAre(kKill));
  for (int second = 0; second < 4; ++second) Sample(absl::Seconds(1));
  EXPECT_THAT(scheduler_->WaitingLeases(), SizeIs(1)) << "it may be dying still";
  const Effects effects = Sample(absl::Seconds(1));
  ASSERT_THAT(All<LeaseGranted>(effects), SizeIs(1));
  EXPECT_THAT(
      GrantText(effects),
      HasSubstr("forced: every client waited for a lease, or did not end when it was killed "
                "(job 1, 5s ago)"));
}

TEST_F(LeaseTest, ALeaseThatIsForcedBesideSuspendedClientsNamesThem) {
  Sample();
  const int asleep = Register({});
  const int also = Register({});
  Acquiring(asleep, GiB(12));
  Step(SuspendAsked{JobId{asleep}});
  Step(SuspendAsked{JobId{also}});
  const int other = Register({});
  EXPECT_THAT(GrantText(Acquiring(other, GiB(10))),
              HasSubstr("forced: every client waited for a lease, or was suspended (job 1 and 1 "
                        "more)"));
}

TEST_F(LeaseTest, LeasesOfAJobGivenBackLeaveItsDeclarationReserved) {
  const int job = RunJob(GiB(12));
  const Bytes reserved = scheduler_->Reserved();
  const LeaseId lease = All<LeaseGranted>(Acquiring(job, GiB(8))).at(0).id;
  Step(LeaseReleased{lease});
  EXPECT_EQ(scheduler_->Reserved(), reserved);
}

TEST_F(LeaseTest, AJobThatDeclaredNothingReservesWhatItLeases) {
  const int job = RunJob(std::nullopt);
  EXPECT_EQ(scheduler_->Reserved(), Bytes(0));
  const LeaseId lease = All<LeaseGranted>(Acquiring(job, GiB(8))).at(0).id;
  EXPECT_EQ(scheduler_->Reserved(), GiB(8));
  Step(LeaseReleased{lease});
  EXPECT_EQ(scheduler_->Reserved(), Bytes(0));
}

TEST_F(LeaseTest, WhatIsLoadedAlreadyIsGrantedAtOnceAndReservesNothingTwice) {
  Sample();
  const int session = Register({});
  Holds(session, GiB(10));
  Available(GiB(4));  // level 12.5 %, and less than the reserve is left
  Sample();
  Step(Acquire{++token_, JobId{session}, "transformer", GiB(10), std::nullopt, true});
  EXPECT_THAT(scheduler_->leases(), SizeIs(1));
  EXPECT_TRUE(scheduler_->leases().begin()->second.granted);
  EXPECT_EQ(scheduler_->Reserved(), Bytes(0));
}

TEST_F(LeaseTest, WhatIsLoadedIsTakenUpAlsoFromWhoIsBeingStopped) {
  config_.memory_pool = GiB(12);
  Restart(config_);
  Sample();
  const int stopped = Register({});
  const int other = Register({});
  Step(CancelAsked{JobId{stopped}});
  const Effects taken = Step(Acquire{++token_, JobId{stopped}, "held", GiB(10), {}, true});
  EXPECT_THAT(All<LeaseGranted>(taken), SizeIs(1));
  EXPECT_THAT(All<Refused>(Acquiring(stopped, GiB(1))), SizeIs(1)) << "it gets nothing new";
  EXPECT_THAT(All<LeaseGranted>(Acquiring(other, GiB(4))), IsEmpty())
      << "there is no room beside it";
  EXPECT_THAT(All<LeaseGranted>(Step(ClientGone{JobId{stopped}})), SizeIs(1));
}

TEST_F(LeaseTest, AJobThatIsBeingStoppedTakesUpWhatAProgramInsideItHasLoaded) {
  const int job = RunJob(std::nullopt);
  Step(CancelAsked{JobId{job}});
  EXPECT_THAT(All<LeaseGranted>(Step(Acquire{++token_, JobId{job}, "held", GiB(8), {}, true})),
              SizeIs(1));
  EXPECT_EQ(scheduler_->leases().begin()->second.memory, GiB(8));
}

TEST_F(LeaseTest, WhatIsLoadedIsTakenUpThoughItCouldNeverFitAnyMore) {
  config_.memory_pool = GiB(4);
  Restart(config_);
  Sample();
  const int session = Register({});
  const Effects refused = Acquiring(session, GiB(10));
  ASSERT_THAT(All<Refused>(refused), SizeIs(1));
  EXPECT_EQ(ReasonOf(All<Refused>(refused)[0].status), kNeverFits);
  EXPECT_THAT(All<LeaseGranted>(Step(Acquire{++token_, JobId{session}, "held", GiB(10), {}, true})),
              SizeIs(1));
}

TEST_F(LeaseTest, NothingIsAdmittedBeforeProgramsOfTheDaemonBeforeHaveTakenTheirLeasesUp) {
  Sample();
  const int first = Register({});
  const int second = Register({});
  Step(ProgramsReturning{now_.awake + absl::Seconds(3)});
  EXPECT_THAT(All<LeaseGranted>(Acquiring(first, GiB(10))), IsEmpty());
  SubmitMemory(GiB(1));
  EXPECT_THAT(BlockersOf(3), ::testing::Contains(BlockerKind::kReturning));
  EXPECT_EQ(scheduler_->NextDeadline(), now_.awake + absl::Seconds(3));
  // The one that holds it says so, and is heard.
  EXPECT_THAT(All<LeaseGranted>(Step(Acquire{++token_, JobId{second}, "held", GiB(10), {}, true})),
              SizeIs(1));
  Sample(absl::Seconds(3));
  EXPECT_THAT(scheduler_->WaitingLeases(), SizeIs(1)) << "there is no room beside it";
  EXPECT_EQ(StateOf(3), JobState::kRunning);
}

TEST_F(LeaseTest, ALeaseThatWaitsSaysWhyInTheTelemetry) {
  Sample();
  const int first = Register({});
  const int second = Register({});
  ASSERT_THAT(All<LeaseGranted>(Acquiring(first, GiB(10))), SizeIs(1));
  const Effects waits = Acquiring(second, GiB(10));
  EXPECT_THAT(All<LeaseGranted>(waits), IsEmpty());
  ASSERT_THAT(All<Note>(waits), SizeIs(1));
  EXPECT_EQ(All<Note>(waits)[0].kind, "lease_waiting");
  EXPECT_THAT(All<Note>(waits)[0].text, HasSubstr("MEMORY: needs 10 GiB"));
  const LeaseId id = All<LeaseQueued>(waits)[0].id;
  EXPECT_THAT(scheduler_->WaitingLeases(), ElementsAre(id));
  now_.awake += absl::Seconds(2);
  const Effects withdrawn = Step(LeaseReleased{id});
  ASSERT_THAT(All<Note>(withdrawn), SizeIs(1));
  EXPECT_EQ(All<Note>(withdrawn)[0].kind, "lease_denied");
  EXPECT_THAT(All<Note>(withdrawn)[0].text, HasSubstr("taken back by its program after 2s"));
  EXPECT_THAT(scheduler_->WaitingLeases(), IsEmpty());
}

TEST_F(LeaseTest, ASessionBeyondTheLimitIsRefusedWithTheLimit) {
  config_.max_sessions = 2;
  Restart(config_);
  Register({});
  Register({});
  const Effects refused = Submitting({}, JobKind::kSession);
  ASSERT_THAT(All<Refused>(refused), SizeIs(1));
  EXPECT_EQ(ReasonOf(All<Refused>(refused)[0].status), kTooManySessions);
  EXPECT_THAT(std::string(All<Refused>(refused)[0].status.message()),
              HasSubstr("the limit is 2 (max_sessions)"));
}

TEST_F(LeaseTest, ASessionThatIsStoppedHasNotEndedWhileAPartOfItHoldsItsMemory) {
  Sample();
  const int session = Register({});
  Holds(session, GiB(2), 3);
  Sample();
  const Effects asked = Step(CancelAsked{JobId{session}});
  EXPECT_THAT(All<StopRequested>(asked), SizeIs(1));
  EXPECT_THAT(Signals(asked), IsEmpty()) << "it is asked first";
  EXPECT_THAT(Signals(Sample(absl::Seconds(5))), ElementsAre(kTerm));
  EXPECT_FALSE(Ended(Step(ClientGone{JobId{session}, 2})));
  Holds(session, GiB(1), 1);
  EXPECT_FALSE(Ended(Sample(absl::Milliseconds(50))));
  // Its grace time is over.
  EXPECT_THAT(Signals(Sample(absl::Seconds(5))), ElementsAre(kKill));
  Holds(session, Bytes(0), 0);
  const auto ended = Ended(Sample(absl::Milliseconds(50)));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->state, JobState::kCancelled);
}

TEST_F(LeaseTest, AJobThatIsStoppedTellsTheProgramsThatRegisteredAsIt) {
  const int job = RunJob(GiB(1));
  host_.swap_used = GiB(9);
  const Effects effects = Sample();
  ASSERT_THAT(All<StopRequested>(effects), SizeIs(1));
  EXPECT_EQ(All<StopRequested>(effects)[0].id, JobId{job});
  EXPECT_EQ(All<StopRequested>(effects)[0].reason, Reason::kSwapBudget);
  EXPECT_THAT(Signals(effects), ElementsAre(kTerm));
}

TEST_F(LeaseTest, AWarningCarriesTheChargeAndTheBudget) {
  Sample();
  const int session = Register({});
  Sample();
  host_.swap_used = GiB(7);
  const Effects effects = Sample();
  ASSERT_THAT(All<Warned>(effects), SizeIs(1));
  EXPECT_EQ(All<Warned>(effects)[0].id, JobId{session});
  EXPECT_EQ(All<Warned>(effects)[0].charge, GiB(7));
  EXPECT_EQ(All<Warned>(effects)[0].swap_budget, GiB(8));
}

}  // namespace
}  // namespace stageload::core
