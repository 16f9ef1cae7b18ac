// Who may start, with the arithmetic of each refusal.
#include "daemon/core/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error_reason.h"

namespace stageload::core {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kNow = absl::Seconds(1000);

Room Machine(Bytes total, Bytes available) {
  Room room;
  room.host.total = total;
  room.host.available = available;
  room.host.level = Percent{100 * available.AsDouble() / total.AsDouble()};
  room.host.swap_used = Bytes(0);
  room.host.pressure = Pressure::kNormal;
  room.sampled_at = kNow - absl::Milliseconds(10);
  return room;
}

Policy Declares(Bytes memory) {
  Policy policy;
  policy.memory = memory;
  return policy;
}

Config NoReserve() {
  Config config;
  config.reserve = Bytes(0);
  return config;
}

// Both ways to ask must agree.
std::vector<Blocker> Blockers(const Demand& demand, const Config& config, Room room) {
  room.SumUp();
  std::vector<Blocker> blockers = FindBlockers(demand, config, room, kNow);
  EXPECT_EQ(MayStart(demand, config, room, kNow), blockers.empty());
  return blockers;
}
std::vector<Blocker> Blockers(const Policy& policy, const Config& config, const Room& room) {
  return Blockers(DemandOf(policy), config, room);
}

std::vector<BlockerKind> Kinds(const std::vector<Blocker>& blockers) {
  std::vector<BlockerKind> kinds;
  for (const Blocker& blocker : blockers) kinds.push_back(blocker.kind);
  return kinds;
}

TEST(Admission, StartsWhenNothingStandsAgainstIt) {
  EXPECT_TRUE(Blockers(Declares(GiB(10)), Config{}, Machine(GiB(32), GiB(16))).empty());
}

TEST(Admission, RequestExactlyEqualToTheRoomStarts) {
  EXPECT_TRUE(Blockers(Declares(GiB(16)), NoReserve(), Machine(GiB(32), GiB(16))).empty());
  const auto blockers =
      Blockers(Declares(GiB(16) + Bytes(1)), NoReserve(), Machine(GiB(32), GiB(16)));
  EXPECT_THAT(Kinds(blockers), testing::ElementsAre(BlockerKind::kMemory));
}

TEST(Admission, MemoryThatAnotherDeclaredAndDoesNotHoldYetIsSpokenFor) {
  Room room = Machine(GiB(32), GiB(30));
  room.active.push_back({JobId{7}, GiB(20), GiB(20), GiB(4), Bytes(0)});
  const auto blockers = Blockers(Declares(GiB(15)), NoReserve(), room);
  ASSERT_THAT(Kinds(blockers), testing::ElementsAre(BlockerKind::kMemory));
  EXPECT_EQ(blockers[0].read, GiB(14).AsDouble());  // 30 - (20 - 4)
  EXPECT_EQ(blockers[0].needed, GiB(15).AsDouble());
  EXPECT_THAT(blockers[0].text,
              HasSubstr("needs 15 GiB, 14 GiB free after 16 GiB reserved by job 7"));
}

TEST(Admission, FootprintAboveTheDeclarationReservesNothingMore) {
  Room room = Machine(GiB(32), GiB(16));
  room.active.push_back({JobId{7}, GiB(2), GiB(2), GiB(5), Bytes(0)});
  EXPECT_TRUE(Blockers(Declares(GiB(16)), NoReserve(), room).empty());
}

TEST(Admission, KeepsATenthOfTheMachineFreeUnlessToldOtherwise) {
  Room room = Machine(GiB(100), GiB(50));
  EXPECT_TRUE(Blockers(Declares(GiB(40)), Config{}, room).empty());
  EXPECT_FALSE(Blockers(Declares(GiB(41)), Config{}, room).empty());
}

TEST(Admission, PoolCapsWhatAllManagedClientsDeclareTogether) {
  Config config = NoReserve();
  config.memory_pool = MiB(2560);
  Room room = Machine(GiB(32), GiB(30));
  room.active.push_back({JobId{1}, GiB(1), GiB(1), GiB(1), Bytes(0)});
  EXPECT_TRUE(Blockers(Declares(GiB(1)), config, room).empty());
  room.active.push_back({JobId{2}, GiB(1), GiB(1), GiB(1), Bytes(0)});
  const auto blockers = Blockers(Declares(GiB(1)), config, room);
  ASSERT_THAT(Kinds(blockers), testing::ElementsAre(BlockerKind::kMemory));
  EXPECT_EQ(blockers[0].read, MiB(512).AsDouble());
  EXPECT_THAT(blockers[0].text, HasSubstr("512 MiB left in the pool of 2.5 GiB"));
  EXPECT_THAT(blockers[0].text, HasSubstr("jobs 1 and 2"));
}

TEST(Admission, WaitsForItsLevelWhateverItDeclares) {
  const auto blockers = Blockers(Policy{}, Config{}, Machine(GiB(100), GiB(39)));
  ASSERT_THAT(Kinds(blockers), testing::ElementsAre(BlockerKind::kLevel));
  EXPECT_EQ(blockers[0].read, 39);
  EXPECT_EQ(blockers[0].needed, 40);
  EXPECT_THAT(blockers[0].text, HasSubstr("39 % available, needs 40 %"));
}

TEST(Admission, CriticalPressureBlocksAndWarnDoesOnlyWhenTheOwnerSaysSo) {
  Room room = Machine(GiB(100), GiB(80));
  room.host.pressure = Pressure::kWarn;
  EXPECT_TRUE(Blockers(Policy{}, Config{}, room).empty());
  Config strict;
  strict.max_pressure = Pressure::kWarn;
  EXPECT_THAT(Kinds(Blockers(Policy{}, strict, room)),
              testing::ElementsAre(BlockerKind::kPressure));
  room.host.pressure = Pressure::kCritical;
  EXPECT_THAT(Kinds(Blockers(Policy{}, Config{}, room)),
              testing::ElementsAre(BlockerKind::kPressure));
}

TEST(Admission, SwapLimitCountsWhatOthersMayStillSpend) {
  Room room = Machine(GiB(100), GiB(80));
  room.host.swap_used = GiB(3);
  room.active.push_back({JobId{1}, std::nullopt, std::nullopt, std::nullopt, GiB(5)});
  Policy policy;
  policy.swap_budget = GiB(8);
  policy.swap_limit = GiB(16);
  EXPECT_TRUE(Blockers(policy, Config{}, room).empty());
  policy.swap_limit = GiB(15);
  const auto blockers = Blockers(policy, Config{}, room);
  ASSERT_THAT(Kinds(blockers), testing::ElementsAre(BlockerKind::kSwapLimit));
  EXPECT_EQ(blockers[0].read, GiB(16).AsDouble());
  EXPECT_EQ(blockers[0].needed, GiB(15).AsDouble());
}

TEST(Admission, TheSwapLimitOfALeaseCountsItsOwnClientAndThatOfAGuardNotWhatItIsInsideOf) {
  Room room = Machine(GiB(100), GiB(80));
  room.host.swap_used = GiB(3);
  room.active.push_back({JobId{1}, std::nullopt, std::nullopt, std::nullopt, GiB(5)});
  Demand demand;
  demand.wait_free = Percent{0};
  demand.swap_limit = GiB(7);
  demand.part_of = JobId{1};
  const auto blockers = Blockers(demand, Config{}, room);
  ASSERT_THAT(Kinds(blockers), testing::ElementsAre(BlockerKind::kSwapLimit));
  EXPECT_THAT(blockers[0].text, HasSubstr("5 GiB unspent budget of job 1"));
  demand.unspent_around = GiB(5);
  EXPECT_TRUE(Blockers(demand, Config{}, room).empty());
}

TEST(Admission, NothingStartsOnAnOldSampleOrOnNone) {
  Room room = Machine(GiB(100), GiB(80));
  room.sampled_at = kNow - absl::Seconds(2);
  EXPECT_THAT(Kinds(Blockers(Policy{}, Config{}, room)), testing::ElementsAre(BlockerKind::kStale));
  room.sampled_at = kNow - room.max_age;
  EXPECT_TRUE(Blockers(Policy{}, Config{}, room).empty());
  room.sampled_at.reset();
  EXPECT_THAT(Kinds(Blockers(Policy{}, Config{}, room)), testing::ElementsAre(BlockerKind::kStale));
}

TEST(Admission, SensorThatCannotBeReadBlocksOnlyWhoNeedsIt) {
  Room room = Machine(GiB(100), GiB(80));
  room.host.available.reset();
  room.host.swap_used.reset();
  room.host.pressure.reset();
  EXPECT_TRUE(Blockers(Policy{}, Config{}, room).empty());
  EXPECT_THAT(Kinds(Blockers(Declares(GiB(1)), Config{}, room)),
              testing::ElementsAre(BlockerKind::kStale));
  room.host.level.reset();
  EXPECT_THAT(Kinds(Blockers(Policy{}, Config{}, room)), testing::ElementsAre(BlockerKind::kStale));
}

TEST(Admission, ImpossibleReadingsCountAsUnreadable) {
  HostSample sample;
  sample.total = GiB(32);
  sample.available = GiB(33);
  sample.level = Percent{140};
  sample.swap_used = Bytes(-1);
  sample = Plausible(sample);
  EXPECT_EQ(sample.total, GiB(32));
  EXPECT_FALSE(sample.available);
  EXPECT_FALSE(sample.level);
  EXPECT_FALSE(sample.swap_used);
}

TEST(Admission, WhatWasDroppedIsTold) {
  HostSample sample;
  sample.total = GiB(32);
  sample.level = Percent{-3};
  sample.swap_total = GiB(2);
  sample.swap_used = GiB(9);
  std::vector<std::string> dropped;
  Plausible(sample, &dropped);
  EXPECT_THAT(dropped, testing::ElementsAre("level -3 %", "swap used 9 GiB of 2 GiB"));
}

TEST(Admission, NothingStartsWithinFiveSecondsOfAWake) {
  Room room = Machine(GiB(100), GiB(80));
  room.woke_at = kNow - absl::Seconds(2);
  const auto blockers = Blockers(Policy{}, Config{}, room);
  ASSERT_THAT(Kinds(blockers), testing::ElementsAre(BlockerKind::kWaking));
  EXPECT_EQ(blockers[0].ends_in, absl::Seconds(3));
  room.woke_at = kNow - absl::Seconds(5);
  EXPECT_TRUE(Blockers(Policy{}, Config{}, room).empty());
}

TEST(Admission, NothingStartsWhileSwapGrowsFasterThanSixtyFourMebibytesASecond) {
  Room room = Machine(GiB(100), GiB(80));
  room.swap_growth = MiB(320);
  EXPECT_TRUE(Blockers(Policy{}, Config{}, room).empty());
  room.swap_growth = MiB(321);
  const auto blockers = Blockers(Policy{}, Config{}, room);
  ASSERT_THAT(Kinds(blockers), testing::ElementsAre(BlockerKind::kSwapping));
  EXPECT_EQ(blockers[0].read, MiB(321).AsDouble());
  EXPECT_THAT(blockers[0].text, HasSubstr("swap grew by 321 MiB over the last 5s"));
}

TEST(Admission, StartWithoutADeclarationSettlesFirst) {
  Room room = Machine(GiB(100), GiB(80));
  room.settling = Room::Settling{JobId{3}, kNow - absl::Seconds(5)};
  const auto blockers = Blockers(Declares(GiB(1)), Config{}, room);
  ASSERT_THAT(Kinds(blockers), testing::ElementsAre(BlockerKind::kSettling));
  EXPECT_EQ(blockers[0].ends_in, absl::Seconds(10));
  EXPECT_THAT(blockers[0].text, HasSubstr("job 3 declared no memory and started only 5s ago"));
  Config quick;
  quick.settle = absl::Seconds(5);
  EXPECT_TRUE(Blockers(Declares(GiB(1)), quick, room).empty());
  // Its own lease is what it waits for.
  Demand lease = DemandOf(Declares(GiB(1)));
  lease.part_of = JobId{3};
  EXPECT_TRUE(Blockers(lease, Config{}, room).empty());
}

TEST(Admission, DrainingHoldsStartsAndLetsRunningClientsFinish) {
  Room room = Machine(GiB(100), GiB(80));
  room.draining = true;
  EXPECT_THAT(Kinds(Blockers(Policy{}, Config{}, room)),
              testing::ElementsAre(BlockerKind::kDraining));
  Demand lease = DemandOf(Declares(GiB(1)));
  lease.part_of = JobId{3};
  EXPECT_TRUE(Blockers(lease, Config{}, room).empty());
}

TEST(Admission, ShareOfCompressibleMemoryCountsAsAvailableAndIsNamed) {
  Room room = Machine(GiB(48), GiB(20));
  room.host.pageable_internal = GiB(20);
  room.active.push_back({JobId{1}, GiB(4), GiB(4), GiB(4), Bytes(0)});
  Config config = NoReserve();
  config.anonymous_credit = 0.25;
  // 20 + (20 - 4) / 4 = 24
  EXPECT_TRUE(Blockers(Declares(GiB(24)), config, room).empty());
  const auto blockers = Blockers(Declares(GiB(25)), config, room);
  ASSERT_THAT(Kinds(blockers), testing::ElementsAre(BlockerKind::kMemory));
  EXPECT_THAT(blockers[0].text, HasSubstr("with 4 GiB of other programs' memory"));
  config.anonymous_credit = 0;
  EXPECT_FALSE(Blockers(Declares(GiB(21)), config, room).empty());
}

TEST(Admission, RequestThatCouldNeverFitIsRefusedWithTheArithmetic) {
  const HostSample host = Machine(GiB(32), GiB(16)).host;
  EXPECT_TRUE(CheckCanEverFit(DemandOf(Declares(GiB(28))), Config{}, host).ok());
  const absl::Status status = CheckCanEverFit(DemandOf(Declares(GiB(29))), Config{}, host);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(ReasonOf(status), kNeverFits);
  EXPECT_EQ(FieldOf(status), "policy.memory_bytes");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("29 GiB never fits: the machine has 32 GiB"));

  Config pool;
  pool.memory_pool = GiB(2);
  EXPECT_TRUE(absl::IsInvalidArgument(CheckCanEverFit(DemandOf(Declares(GiB(3))), pool, host)));
  // What is refused is never as large as what there is.
  EXPECT_THAT(
      std::string(
          CheckCanEverFit(DemandOf(Declares(GiB(2) + Bytes(2 << 20))), pool, host).message()),
      HasSubstr("2.002 GiB never fits into the pool of 2 GiB"));
  Config little;
  little.reserve = GiB(2);
  EXPECT_THAT(
      std::string(CheckCanEverFit(DemandOf(Declares(GiB(30) + Bytes(1))), little, host).message()),
      HasSubstr("32212254721 B never fits: the machine has 32 GiB, of which 2 GiB is kept "
                "free (reserve) and 32212254720 B is left"));
  Policy swap;
  swap.swap_limit = GiB(4);
  EXPECT_TRUE(absl::IsInvalidArgument(CheckCanEverFit(DemandOf(swap), Config{}, host)));
}

TEST(Admission, PolicyOutOfRangeNamesItsField) {
  const auto field = [](const Policy& policy) { return FieldOf(Validate(policy)); };
  Policy policy;
  EXPECT_TRUE(Validate(policy).ok());
  policy.wait_free = Percent{140};
  EXPECT_EQ(field(policy), "policy.wait_free_percent");
  policy = Policy{};
  policy.kill_free = Percent{-1};
  EXPECT_EQ(field(policy), "policy.kill_free_percent");
  policy = Policy{};
  policy.swap_budget = Bytes(-5);
  EXPECT_EQ(field(policy), "policy.swap_budget_bytes");
  policy = Policy{};
  policy.memory = Bytes(-5);
  EXPECT_EQ(field(policy), "policy.memory_bytes");
  policy = Policy{};
  policy.grace = absl::Seconds(-1);
  EXPECT_EQ(field(policy), "policy.grace_ns");
  policy = Policy{};
  policy.priority = 1001;
  EXPECT_EQ(field(policy), "policy.priority");
}

}  // namespace
}  // namespace stageload::core
