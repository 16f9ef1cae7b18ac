// Who pays for swap.
#include "daemon/core/charge_ledger.h"

#include <gtest/gtest.h>

namespace stageload::core {
namespace {

constexpr JobId kA{1};
constexpr JobId kB{2};

Instant At(double awake_seconds, double asleep_seconds = 0) {
  return {absl::Seconds(awake_seconds), absl::Seconds(awake_seconds + asleep_seconds), {}};
}

ClientUsage Holds(JobId id, std::optional<Bytes> footprint, std::optional<Bytes> swapped = {}) {
  return {id, {footprint, swapped}, 1};
}

TEST(ChargeLedger, OneClientIsChargedExactlyWhatSwapGrewBySinceItsStart) {
  ChargeLedger ledger;
  ledger.Observe(At(0), GiB(3), {});
  ledger.Add(kA, ChargeMode::kSystem);
  // Parked weights: the footprint reads almost nothing, and it helps nobody.
  ledger.Observe(At(1), GiB(4), {Holds(kA, MiB(100))});
  ledger.Observe(At(2), GiB(11), {Holds(kA, MiB(90))});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(8));
  ledger.Observe(At(3), GiB(2), {Holds(kA, MiB(90))});
  EXPECT_EQ(ledger.Of(kA).charge, -GiB(1));
}

TEST(ChargeLedger, ClientWithNoReadingAtAllIsChargedAllTheSame) {
  ChargeLedger ledger;
  ledger.Observe(At(0), GiB(3), {});
  ledger.Add(kA, ChargeMode::kSystem);
  ledger.Observe(At(1), GiB(5), {});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(2));
}

TEST(ChargeLedger, GrowthGoesToWhoseOwnSwappedBytesGrew) {
  ChargeLedger ledger;
  ledger.Add(kA, ChargeMode::kSystem);
  ledger.Add(kB, ChargeMode::kSystem);
  ledger.Observe(At(0), GiB(0), {Holds(kA, GiB(9), GiB(0)), Holds(kB, GiB(9), GiB(0))});
  ledger.Observe(At(1), GiB(4), {Holds(kA, GiB(20), GiB(1)), Holds(kB, GiB(9), GiB(3))});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(1));
  EXPECT_EQ(ledger.Of(kB).charge, GiB(3));
  EXPECT_EQ(ledger.Of(kB).own_growth, GiB(3));
  EXPECT_EQ(ledger.Of(kB).system_growth, GiB(4));
}

TEST(ChargeLedger, ElseToWhoseFootprintGrewOverThreeSeconds) {
  ChargeLedger ledger;
  ledger.Add(kA, ChargeMode::kSystem);
  ledger.Add(kB, ChargeMode::kSystem);
  ledger.Observe(At(0), GiB(0), {Holds(kA, GiB(1)), Holds(kB, GiB(8))});
  ledger.Observe(At(2), GiB(0), {Holds(kA, GiB(5)), Holds(kB, GiB(8))});
  // Nobody grew in the last second, but A did within three.
  ledger.Observe(At(3), GiB(2), {Holds(kA, GiB(5)), Holds(kB, GiB(8))});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(2));
  EXPECT_EQ(ledger.Of(kB).charge, GiB(0));
}

TEST(ChargeLedger, ElseByFootprintElseEqually) {
  ChargeLedger ledger;
  ledger.Add(kA, ChargeMode::kSystem);
  ledger.Add(kB, ChargeMode::kSystem);
  ledger.Observe(At(0), GiB(0), {Holds(kA, GiB(1)), Holds(kB, GiB(3))});
  ledger.Observe(At(1), GiB(4), {Holds(kA, GiB(1)), Holds(kB, GiB(3))});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(1));
  EXPECT_EQ(ledger.Of(kB).charge, GiB(3));

  ChargeLedger blind;
  blind.Add(kA, ChargeMode::kSystem);
  blind.Add(kB, ChargeMode::kSystem);
  blind.Observe(At(0), GiB(0), {});
  blind.Observe(At(1), GiB(4), {});
  EXPECT_EQ(blind.Of(kA).charge, GiB(2));
  EXPECT_EQ(blind.Of(kB).charge, GiB(2));
}

TEST(ChargeLedger, FallIsSplitByTheChargesHeld) {
  ChargeLedger ledger;
  ledger.Add(kA, ChargeMode::kSystem);
  ledger.Add(kB, ChargeMode::kSystem);
  ledger.Observe(At(0), GiB(0), {Holds(kA, GiB(1)), Holds(kB, GiB(3))});
  ledger.Observe(At(1), GiB(8), {Holds(kA, GiB(1)), Holds(kB, GiB(3))});  // 2 and 6
  ledger.Observe(At(2), GiB(4), {Holds(kA, GiB(1)), Holds(kB, GiB(3))});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(1));
  EXPECT_EQ(ledger.Of(kB).charge, GiB(3));
}

TEST(ChargeLedger, NothingIsChargedOverASleep) {
  ChargeLedger ledger;
  ledger.Observe(At(0), GiB(1), {});
  ledger.Add(kA, ChargeMode::kSystem);
  ledger.Observe(At(1, 1800), GiB(9), {});
  EXPECT_EQ(ledger.Of(kA).charge, Bytes(0));
  ledger.Observe(At(2, 1800), GiB(10), {});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(1));
}

TEST(ChargeLedger, SampleWithoutSwapChangesNothingAndTheNextOneCatchesUp) {
  ChargeLedger ledger;
  ledger.Observe(At(0), GiB(1), {});
  ledger.Add(kA, ChargeMode::kSystem);
  ledger.Observe(At(1), std::nullopt, {});
  EXPECT_EQ(ledger.Of(kA).charge, Bytes(0));
  ledger.Observe(At(2), GiB(3), {});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(2));
}

TEST(ChargeLedger, ChargesAlwaysSumToTheGrowthToTheLastByte) {
  ChargeLedger ledger;
  constexpr int kClients = 7;
  std::uint64_t random = 42;
  const auto next = [&random](std::uint64_t below) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::int64_t>((random >> 33) % below);
  };
  for (int i = 1; i <= kClients; ++i) ledger.Add(JobId{i}, ChargeMode::kSystem);
  for (int step = 0; step < 2000; ++step) {
    std::vector<ClientUsage> usage;
    for (int i = 1; i <= kClients; ++i) {
      if (next(4) == 0) continue;
      usage.push_back(Holds(JobId{i}, Bytes(next(1'000'000'007)),
                            next(2) == 0 ? std::optional(Bytes(next(99'999'989))) : std::nullopt));
    }
    ledger.Observe(At(step * 0.5), Bytes(next(1ULL << 33)), usage);
    if (step % 100 == 99) {
      ledger.Remove(JobId{next(kClients) + 1});
      ledger.Add(JobId{kClients + 1 + step}, ChargeMode::kSystem);
    }
    Bytes sum = ledger.retired();
    for (int i = 1; i < 2100; ++i) sum += ledger.Of(JobId{i}).charge;
    ASSERT_EQ(sum, ledger.total_growth()) << "step " << step;
  }
}

TEST(ChargeLedger, OwnModeCountsOnlyWhatItsSwappedBytesAccountForAndTheRestIsNobodys) {
  ChargeLedger ledger;
  ledger.Add(kA, ChargeMode::kOwn);
  ledger.Add(kB, ChargeMode::kSystem);
  ledger.Observe(At(0), GiB(0), {Holds(kA, GiB(9), GiB(0)), Holds(kB, GiB(9), GiB(0))});
  // A swapped 1 GiB of its own; B nothing: by the weights all 4 GiB are A's.
  ledger.Observe(At(1), GiB(4), {Holds(kA, GiB(9), GiB(1)), Holds(kB, GiB(9), GiB(0))});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(1));
  EXPECT_EQ(ledger.Of(kB).charge, GiB(0));
  EXPECT_EQ(ledger.unattributed(), GiB(3));
  // What comes back is given to whoever holds it, nobody included.
  ledger.Observe(At(2), GiB(0), {Holds(kA, GiB(9), GiB(0)), Holds(kB, GiB(9), GiB(0))});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(0));
  EXPECT_EQ(ledger.unattributed(), GiB(0));
}

TEST(ChargeLedger, OwnModeIsNoWayOutWhereOwnBytesCannotBeRead) {
  ChargeLedger ledger;
  ledger.Add(kA, ChargeMode::kOwn);
  ledger.Observe(At(0), GiB(0), {Holds(kA, GiB(9))});
  ledger.Observe(At(1), GiB(4), {Holds(kA, GiB(9))});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(4));
  EXPECT_EQ(ledger.Of(kA).own_growth, std::nullopt);
}

TEST(ChargeLedger, WhatAClientGivesBackAfterItsEndIsNoCreditToTheOthers) {
  ChargeLedger ledger;
  ledger.Add(kA, ChargeMode::kSystem);
  ledger.Add(kB, ChargeMode::kSystem);
  ledger.Observe(At(0), GiB(0), {Holds(kA, GiB(9), GiB(0)), Holds(kB, GiB(9), GiB(0))});
  ledger.Observe(At(1), GiB(8), {Holds(kA, GiB(9), GiB(6)), Holds(kB, GiB(9), GiB(2))});
  ledger.Remove(kA);
  ledger.Observe(At(2), GiB(1), {Holds(kB, GiB(9), GiB(1))});
  EXPECT_EQ(ledger.retired(), GiB(0));
  EXPECT_EQ(ledger.Of(kB).charge, GiB(1));  // 6 of the 7 GiB were A's
}

TEST(ChargeLedger, WhatIsGivenBackLaterThanHalfAMinuteIsSharedByThoseWhoAreThere) {
  ChargeLedger ledger;
  ledger.Add(kA, ChargeMode::kSystem);
  ledger.Add(kB, ChargeMode::kSystem);
  ledger.Observe(At(0), GiB(0), {Holds(kA, GiB(9)), Holds(kB, GiB(9))});
  ledger.Observe(At(1), GiB(8), {Holds(kA, GiB(13)), Holds(kB, GiB(13))});
  ledger.Remove(kA);
  ledger.Observe(At(32), GiB(8), {Holds(kB, GiB(9))});
  ledger.Observe(At(33), GiB(6), {Holds(kB, GiB(9))});
  EXPECT_EQ(ledger.retired(), GiB(4));
  EXPECT_EQ(ledger.Of(kB).charge, GiB(2));
}

TEST(ChargeLedger, ClientAloneIsChargedExactlyWhateverTheOnesBeforeItLeft) {
  ChargeLedger ledger;
  ledger.Add(kA, ChargeMode::kOwn);
  ledger.Observe(At(0), GiB(0), {Holds(kA, GiB(9), GiB(0))});
  ledger.Observe(At(1), GiB(8), {Holds(kA, GiB(9), GiB(1))});
  ledger.Remove(kA);
  ledger.Add(kB, ChargeMode::kSystem);
  ledger.Observe(At(2), GiB(5), {Holds(kB, GiB(1))});
  EXPECT_EQ(ledger.Of(kB).charge, -GiB(3));
  ledger.Observe(At(3), GiB(9), {Holds(kB, GiB(1))});
  EXPECT_EQ(ledger.Of(kB).charge, GiB(1));
  EXPECT_EQ(ledger.total_growth(), ledger.Of(kB).charge + ledger.retired() + ledger.unattributed());
}

TEST(ChargeLedger, ContinuesFromWhatTheDaemonBeforeReadLast) {
  ChargeLedger ledger;
  ledger.Add(kA, ChargeMode::kSystem, GiB(2));
  ledger.Resume(At(10), GiB(5));
  ledger.Resume(At(8), GiB(3));  // older: another row that was written earlier
  ledger.Observe(At(12), GiB(6), {Holds(kA, GiB(1))});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(3));
}

TEST(ChargeLedger, GapWhoseFirstReadingIsMissingIsAGapAllTheSame) {
  ChargeLedger ledger;
  ledger.Add(kA, ChargeMode::kSystem);
  ledger.Observe(At(0), GiB(0), {Holds(kA, GiB(1))});
  ledger.Observe(At(1, 1800), std::nullopt, {Holds(kA, GiB(1))});
  ledger.Observe(At(2, 1800), GiB(9), {Holds(kA, GiB(1))});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(0));
  ledger.Observe(At(3, 1800), GiB(10), {Holds(kA, GiB(1))});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(1));
}

TEST(ChargeLedger, NothingIsChargedOverAMinuteWithoutALook) {
  ChargeLedger ledger;
  ledger.Add(kA, ChargeMode::kSystem);
  ledger.Observe(At(0), GiB(0), {Holds(kA, GiB(1))});
  ledger.Observe(At(49), GiB(4), {Holds(kA, GiB(1))});  // a recorder that was held up, not a sleep
  EXPECT_EQ(ledger.Of(kA).charge, GiB(4));
  ledger.Observe(At(110), GiB(9), {Holds(kA, GiB(1))});
  EXPECT_EQ(ledger.Of(kA).charge, GiB(4));
}

}  // namespace
}  // namespace stageload::core
