// What the simulated machine does by itself. A world that is wrong would hide what it should show.
#include "tests/sim/world.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace stageload::sim {
namespace {

World::Machine SmallMachine() {
  World::Machine machine;
  machine.total = GiB(16);
  machine.swap_total = GiB(16);
  machine.swap_at_start = Bytes(0);
  machine.others_share = 0.1;
  machine.pids = 5;
  return machine;
}

std::shared_ptr<const Program> Holds(Bytes held, Bytes parked = Bytes(0)) {
  Program program;
  program.steps = {{absl::ZeroDuration(), absl::ZeroDuration(), held, parked}};
  program.on_term = absl::ZeroDuration();
  return std::make_shared<const Program>(std::move(program));
}

constexpr core::Outcome kExit0{.exit_code = 0, .signal = {}, .start_errno = {}};

class WorldTest : public testing::Test {
 protected:
  void Pass(absl::Duration span) { world_.AdvanceTo(world_.time() + span); }
  const Process& At(const core::ProcessIdentity& identity) { return *world_.Find(identity); }
  Bytes FootprintOf(const core::ProcessIdentity& identity) {
    return *world_.UsageOf(At(identity)).footprint;
  }

  World world_{SmallMachine(), Random(1)};
};

TEST_F(WorldTest, AProcessTakesWhatItsProgramSaysAndNoFasterThanMemoryCanBeTouched) {
  const auto process = world_.Spawn(Holds(GiB(4)), 0, Role::kMain);
  Pass(absl::Seconds(0.5));
  EXPECT_EQ(FootprintOf(process), GiB(2));
  Pass(absl::Seconds(1));
  EXPECT_EQ(FootprintOf(process), GiB(4));
}

TEST_F(WorldTest, ParkedMemoryIsInNoFootprintAndGoneFromTheMachineAllTheSame) {
  const Bytes before = world_.available();
  const auto process = world_.Spawn(Holds(GiB(4), GiB(4) - MiB(100)), 0, Role::kMain);
  Pass(absl::Seconds(3));
  EXPECT_LE(FootprintOf(process), MiB(101));
  EXPECT_LT(world_.available(), before - GiB(3));
}

TEST_F(WorldTest, SwapGrowsWhenLittleIsFreeAndNoFasterThanRecorded) {
  world_.Spawn(Holds(GiB(14)), 0, Role::kMain);
  Bytes before;
  for (int i = 0; i < 40; ++i) {
    Pass(absl::Seconds(0.25));
    const Bytes now = *world_.Sample().swap_used;
    EXPECT_LE(now - before, MiB(640));
    before = now;
  }
  EXPECT_GT(before, GiB(1));
}

TEST_F(WorldTest, SwapStaysUntilItsOwnerGivesItBack) {
  const auto process = world_.Spawn(Holds(GiB(14)), 0, Role::kMain);
  Pass(absl::Seconds(20));
  const Bytes used = *world_.Sample().swap_used;
  Pass(absl::Seconds(60));
  EXPECT_EQ(*world_.Sample().swap_used, used);
  world_.End(process, kExit0);
  Pass(absl::Seconds(2));
  EXPECT_LT(*world_.Sample().swap_used, used * 0.5);
}

TEST_F(WorldTest, MemoryOfTheDeadComesBackLateWhenToldSo) {
  const auto process = world_.Spawn(Holds(GiB(4)), 0, Role::kMain);
  Pass(absl::Seconds(3));
  const Bytes held = world_.available();
  world_.slow_release = 1;
  world_.End(process, kExit0);
  Pass(absl::Seconds(0.9));
  EXPECT_LE(world_.available(), held + MiB(1));
  Pass(absl::Seconds(8));
  EXPECT_GT(world_.available(), held + GiB(3));
}

TEST_F(WorldTest, AStoppedProcessStandsStillAndTakesItsSigtermWhenItGoesOn) {
  Program program;
  program.lifetime = absl::Seconds(2);
  const auto process =
      world_.Spawn(std::make_shared<const Program>(std::move(program)), 0, Role::kMain);
  EXPECT_EQ(world_.Send(process.pid, Signal::kStop), Sent::kYes);
  EXPECT_EQ(world_.Send(process.pid, Signal::kTerm), Sent::kYes);
  Pass(absl::Seconds(10));
  ASSERT_NE(world_.Find(process), nullptr);
  world_.Send(process.pid, Signal::kContinue);
  Pass(absl::Seconds(0.5));
  EXPECT_EQ(world_.Find(process), nullptr);
}

TEST_F(WorldTest, OneThatIgnoresSigtermEndsOnSigkill) {
  Program program;
  program.on_term.reset();
  const auto process =
      world_.Spawn(std::make_shared<const Program>(std::move(program)), 0, Role::kMain);
  world_.Send(process.pid, Signal::kTerm);
  Pass(absl::Seconds(10));
  EXPECT_NE(world_.Find(process), nullptr);
  world_.Send(process.pid, Signal::kKill);
  Pass(absl::Seconds(0.5));
  EXPECT_EQ(world_.Find(process), nullptr);
}

TEST_F(WorldTest, AShimEndsWithItsCommandAndTellsHow) {
  const auto shim = world_.Spawn(std::make_shared<const Program>(), 3, Role::kShim);
  const auto command = world_.Spawn(Holds(MiB(1)), 3, Role::kMain);
  world_.End(command, core::Outcome{.exit_code = 7, .signal = {}, .start_errno = {}});
  const std::vector<Exit> exits = world_.TakeExits();
  ASSERT_EQ(exits.size(), 2U);
  EXPECT_EQ(exits[0].identity, command);
  EXPECT_EQ(exits[1].identity, shim);
  EXPECT_EQ(exits[1].outcome.exit_code, 7);
}

TEST_F(WorldTest, ASuccessorAndChildrenBelongToTheSameTree) {
  Program program;
  program.children = {{absl::Seconds(0.5), Holds(MiB(10)), false}};
  program.successor = Holds(MiB(10));
  const auto process =
      world_.Spawn(std::make_shared<const Program>(std::move(program)), 3, Role::kMain);
  Pass(absl::Seconds(1));
  ASSERT_EQ(world_.processes().size(), 2U);
  world_.End(process, kExit0);
  ASSERT_EQ(world_.processes().size(), 2U);
  for (const Process& left : world_.processes()) EXPECT_EQ(left.owner, 3);
}

TEST_F(WorldTest, APidIsUsedAgainWithAnotherIdentity) {
  const auto first = world_.Spawn(Holds(MiB(1)), 0, Role::kMain);
  world_.reuse_pids_at_once = true;
  world_.End(first, kExit0);
  const Process* taker = world_.Find(first.pid);
  ASSERT_NE(taker, nullptr);
  EXPECT_NE(taker->identity, first);
  EXPECT_EQ(taker->owner, kUnmanaged);
  EXPECT_EQ(world_.Find(first), nullptr);
}

TEST_F(WorldTest, NoTwoLivingProcessesShareAPid) {
  std::vector<std::int32_t> pids;
  for (int i = 0; i < 8; ++i) pids.push_back(world_.Spawn(Holds(MiB(1)), i, Role::kMain).pid);
  std::sort(pids.begin(), pids.end());
  EXPECT_EQ(std::unique(pids.begin(), pids.end()), pids.end());
}

TEST_F(WorldTest, AfterARebootIdentitiesBeginAnewSoOnlyTheBootTellsThemApart) {
  const auto before = world_.Spawn(Holds(MiB(1)), 0, Role::kMain);
  const std::string boot = world_.boot_id();
  world_.Reboot();
  EXPECT_EQ(world_.Spawn(Holds(MiB(1)), 1, Role::kMain), before);
  EXPECT_NE(world_.boot_id(), boot);
  EXPECT_LT(world_.Now().awake, absl::Minutes(1));
}

TEST_F(WorldTest, SleepMovesOnlyTheClocksThatRunThroughIt) {
  const Instant before = world_.Now();
  world_.Sleep(absl::Minutes(30));
  const Instant after = world_.Now();
  EXPECT_EQ(after.awake, before.awake);
  EXPECT_EQ(after.continuous - before.continuous, absl::Minutes(30));
  EXPECT_EQ(after.wall - before.wall, absl::Minutes(30));
}

}  // namespace
}  // namespace stageload::sim
