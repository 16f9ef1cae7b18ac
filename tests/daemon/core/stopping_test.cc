// When the machine is out of memory, and whom that costs.
#include "daemon/core/stopping.h"

#include <gtest/gtest.h>

namespace stageload::core {
namespace {

constexpr absl::Duration kHalf = absl::Milliseconds(500);

TEST(LowLevel, ArmsAfterASecondAndAtLeastTwoSamples) {
  LowLevel low;
  low.Observe(true, kHalf);
  EXPECT_FALSE(low.Armed());
  low.Observe(true, kHalf);
  EXPECT_FALSE(low.Armed());
  low.Observe(true, kHalf);
  EXPECT_TRUE(low.Armed());
}

TEST(LowLevel, OneReadingIsNeverEnoughHoweverLongTheGapBeforeIt) {
  LowLevel low;
  low.Observe(false, kHalf);
  low.Observe(true, absl::Seconds(180));
  EXPECT_FALSE(low.Armed());
}

TEST(LowLevel, LevelThatSwingsStillActsWithinSeconds) {
  LowLevel low;
  bool armed = false;
  for (int i = 0; i < 10 && !armed; ++i) {  // 5 s
    low.Observe(i % 2 == 0, kHalf);
    armed = low.Armed();
  }
  EXPECT_TRUE(armed);
}

TEST(LowLevel, LongCalmDisarms) {
  LowLevel low;
  for (int i = 0; i < 3; ++i) low.Observe(true, kHalf);
  for (int i = 0; i < 12; ++i) low.Observe(false, kHalf);
  low.Observe(true, kHalf);
  EXPECT_FALSE(low.Armed());
  low.Observe(true, kHalf);
  EXPECT_FALSE(low.Armed());
}

TEST(ChooseVictim, IsTheLowestPriorityThenTheLargestChargeThenFootprintThenTheYoungest) {
  EXPECT_EQ(ChooseVictim({}), std::nullopt);
  const Candidate base{JobId{1}, 0, GiB(1), GiB(1)};
  Candidate other{JobId{2}, -1, GiB(0), GiB(0)};
  EXPECT_EQ(ChooseVictim({base, other}), JobId{2});
  other = {JobId{2}, 0, GiB(2), GiB(0)};
  EXPECT_EQ(ChooseVictim({base, other}), JobId{2});
  other = {JobId{2}, 0, GiB(1), GiB(2)};
  EXPECT_EQ(ChooseVictim({base, other}), JobId{2});
  other = {JobId{2}, 0, GiB(1), GiB(1)};
  EXPECT_EQ(ChooseVictim({other, base}), JobId{2});
  other = {JobId{2}, 1, GiB(9), GiB(9)};
  EXPECT_EQ(ChooseVictim({base, other}), JobId{1});
}

}  // namespace
}  // namespace stageload::core
