#include "daemon/telemetry/ring.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace stageload::telemetry {
namespace {

using ::testing::SizeIs;

constexpr absl::Duration kAny = -absl::InfiniteDuration();

Ring::Frame Frame(std::int64_t sequence, absl::Duration awake, std::size_t size = 100) {
  auto frame = std::make_shared<Published>();
  frame->sequence = sequence;
  frame->awake = awake;
  frame->wire.bytes = std::string(size, 'x');
  return frame;
}

// Frames 1 to `count`, a second apart.
Ring Filled(int count) {
  Ring ring;
  for (int i = 1; i <= count; ++i) ring.Add(Frame(i, absl::Seconds(i)));
  return ring;
}

TEST(RingTest, AnEmptyOneHasNothingAndLosesNothing) {
  const Ring ring;
  EXPECT_EQ(ring.Newest(), nullptr);
  EXPECT_EQ(ring.At(1), nullptr);
  const Ring::Following following = ring.After(7, kAny);
  EXPECT_EQ(following.frame, nullptr);
  EXPECT_EQ(following.lost, 0);
  EXPECT_EQ(following.seen, 7);
}

TEST(RingTest, FramesAreFoundByTheirNumber) {
  const Ring ring = Filled(10);
  EXPECT_EQ(ring.Newest()->sequence, 10);
  EXPECT_EQ(ring.At(0), nullptr);
  EXPECT_EQ(ring.At(11), nullptr);
  for (int i = 1; i <= 10; ++i) EXPECT_EQ(ring.At(i)->sequence, i);
  EXPECT_EQ(ring.After(4, kAny).frame->sequence, 5);
  EXPECT_EQ(ring.After(10, kAny).frame, nullptr);
}

TEST(RingTest, AnHourIsKeptAndNoLonger) {
  Ring ring;
  for (int i = 0; i <= 3600; ++i) {
    const auto forgotten = ring.Add(Frame(i + 1, absl::Seconds(i)));
    ASSERT_THAT(forgotten, SizeIs(i < 3600 ? 0 : 1)) << i;
  }
  EXPECT_EQ(ring.size(), 3600u);
  EXPECT_EQ(ring.After(0, kAny).frame->sequence, 2);
  EXPECT_THAT(ring.Add(Frame(3602, absl::Hours(5))), SizeIs(3600)) << "all but the newest";
  EXPECT_EQ(ring.Newest()->sequence, 3602);
}

TEST(RingTest, NoMoreThanThirtyTwoMebibytesOfWireBytesAreKept) {
  Ring ring;
  for (int i = 1; i <= 64; ++i) {
    ring.Add(Frame(i, absl::Seconds(i), 1 << 20));
    EXPECT_LE(ring.bytes(), kRingBytes);
  }
  EXPECT_EQ(ring.size(), 32u);
  EXPECT_EQ(ring.bytes(), kRingBytes);
  ring.Add(Frame(65, absl::Seconds(65), 40 << 20));
  EXPECT_EQ(ring.size(), 1u) << "the newest is kept, however large it is";
  ring.Add(Frame(66, absl::Seconds(66), 1));
  EXPECT_EQ(ring.bytes(), 1u);
}

TEST(RingTest, WhatIsNotKeptAnyMoreIsCounted) {
  Ring ring;
  for (int i = 1; i <= 40; ++i) ring.Add(Frame(i, absl::Seconds(i), 1 << 20));
  const Ring::Following following = ring.After(3, kAny);
  EXPECT_EQ(following.frame->sequence, 9);
  EXPECT_EQ(following.lost, 5) << "4 to 8";
  EXPECT_EQ(following.seen, 9);
  EXPECT_EQ(ring.At(8), nullptr);
  EXPECT_EQ(ring.After(8, kAny).lost, 0);
}

TEST(RingTest, FramesThatComeTooSoonArePassedOver) {
  const Ring ring = Filled(10);
  Ring::Following following = ring.After(2, absl::Seconds(7));
  EXPECT_EQ(following.frame->sequence, 7);
  EXPECT_EQ(following.lost, 0);
  following = ring.After(2, absl::Seconds(11));
  EXPECT_EQ(following.frame, nullptr);
  EXPECT_EQ(following.seen, 10) << "they are passed over, not lost";
  EXPECT_EQ(following.lost, 0);
}

#if defined(__GLIBC__)
TEST(RingTest, AFrameTakesNoMoreThanIsStatedBesidesItsBytes) {
  constexpr int kFrames = 20'000;
  if (::mallinfo2().uordblks == 0) GTEST_SKIP() << "a sanitizer's allocator tells nothing";
  for (const std::size_t size : {1u, 120u, 1500u}) {
    Ring ring;
    const std::size_t before = ::mallinfo2().uordblks;
    for (int i = 1; i <= kFrames; ++i) ring.Add(Frame(i, absl::Milliseconds(i), size));
    ASSERT_EQ(ring.size(), static_cast<std::size_t>(kFrames)) << "within both bounds";
    const double each =
        static_cast<double>(::mallinfo2().uordblks - before) / kFrames - static_cast<double>(size);
    EXPECT_LE(each, static_cast<double>(kFrameOverhead)) << size;
    EXPECT_GT(each, 32) << "or nothing was measured";
  }
}
#endif

}  // namespace
}  // namespace stageload::telemetry
