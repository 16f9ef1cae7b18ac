// Byte arithmetic never wraps around: not with counters near 2^64, not with what a user typed.
#include "base/units.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace stageload {
namespace {

constexpr Bytes kLowest(INT64_MIN);

TEST(Bytes, SaturateWhenAdded) {
  EXPECT_EQ(Bytes::Max() + Bytes(1), Bytes::Max());
  EXPECT_EQ(Bytes(1) + Bytes::Max(), Bytes::Max());
  EXPECT_EQ(kLowest + Bytes(-1), kLowest);
  EXPECT_EQ(Bytes::Max() + kLowest, Bytes(-1));
}

TEST(Bytes, SaturateWhenSubtracted) {
  EXPECT_EQ(kLowest - Bytes(1), kLowest);
  EXPECT_EQ(Bytes::Max() - Bytes(-1), Bytes::Max());
  EXPECT_EQ(Bytes(0) - kLowest, Bytes::Max());
  EXPECT_EQ(-kLowest, Bytes::Max());
  EXPECT_EQ(Bytes(-1) - Bytes::Max(), kLowest);
}

TEST(Bytes, SaturateWhenScaled) {
  EXPECT_EQ(Bytes::Max() * 2.0, Bytes::Max());
  EXPECT_EQ(Bytes::Max() * -2.0, kLowest);
  EXPECT_EQ(Bytes::Max() * 1.0, Bytes::Max());
  EXPECT_EQ(Bytes(10) * 0.25, Bytes(2));
  EXPECT_EQ(Bytes(-10) * 0.25, Bytes(-2));
}

TEST(Bytes, OfAKernelCounterThatDoesNotFitAreTheMost) {
  EXPECT_EQ(Bytes::FromUnsigned(UINT64_MAX), Bytes::Max());
  EXPECT_EQ(Bytes::FromUnsigned(std::uint64_t{1} << 63), Bytes::Max());
  EXPECT_EQ(Bytes::FromUnsigned((std::uint64_t{1} << 63) - 1), Bytes::Max());
  EXPECT_EQ(Bytes::FromUnsigned(7), Bytes(7));
}

TEST(Bytes, SaturateInPlace) {
  Bytes sum = Bytes::Max();
  sum += Bytes(1);
  EXPECT_EQ(sum, Bytes::Max());
  sum -= Bytes(1);
  EXPECT_EQ(sum.count(), INT64_MAX - 1);
}

TEST(Bytes, HaveBinaryMultiples) {
  EXPECT_EQ(KiB(1).count(), 1024);
  EXPECT_EQ(MiB(1), KiB(1024));
  EXPECT_EQ(GiB(1), MiB(1024));
}

}  // namespace
}  // namespace stageload
