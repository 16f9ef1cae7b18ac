#include "tests/sim/random.h"

#include "gtest/gtest.h"

namespace stageload::sim {
namespace {

// The values are pinned: a seed that failed must fail again on every platform and in every year.
TEST(Random, ASeedGivesTheSameSequenceEverywhere) {
  Random random(1);
  EXPECT_EQ(random.Next(), 0x910a2dec89025cc1ULL);
  EXPECT_EQ(random.Next(), 0xbeeb8da1658eec67ULL);
}

TEST(Random, KeepsToItsBounds) {
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const int number = random.Between(-2, 2);
    EXPECT_GE(number, -2);
    EXPECT_LE(number, 2);
    const double unit = random.Unit();
    EXPECT_GE(unit, 0);
    EXPECT_LT(unit, 1);
  }
}

TEST(Random, AForkIsASequenceOfItsOwn) {
  Random random(3);
  Random fork = random.Fork();
  EXPECT_NE(fork.Next(), random.Next());
}

}  // namespace
}  // namespace stageload::sim
