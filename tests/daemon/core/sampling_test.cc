// How often the machine is read.
#include "daemon/core/sampling.h"

#include <gtest/gtest.h>

namespace stageload::core {
namespace {

SamplingInput OneClient() {
  SamplingInput input;
  input.clients.push_back({Bytes(0), GiB(8), Percent{10}});
  input.level = Percent{80};
  input.since_before = absl::Milliseconds(500);
  return input;
}

TEST(SamplingInterval, IsOneSecondWhenNobodyIsThere) {
  EXPECT_EQ(SamplingInterval({}), absl::Seconds(1));
}

TEST(SamplingInterval, IsHalfASecondForAClientAWaitingRequestOrASubscriber) {
  EXPECT_EQ(SamplingInterval(OneClient()), absl::Milliseconds(500));
  SamplingInput waiting;
  waiting.waiting = 1;
  EXPECT_EQ(SamplingInterval(waiting), absl::Milliseconds(500));
  SamplingInput watched;
  watched.subscribers = 1;
  EXPECT_EQ(SamplingInterval(watched), absl::Milliseconds(500));
}

TEST(SamplingInterval, IsFastWhileAChargeIsOverHalfItsBudgetAndSwapMoves) {
  SamplingInput input = OneClient();
  input.clients[0].charge = GiB(4) + Bytes(1);
  EXPECT_EQ(SamplingInterval(input), absl::Milliseconds(500));
  input.swap_change = Bytes(4096);
  EXPECT_EQ(SamplingInterval(input), absl::Milliseconds(50));
  input.clients[0].charge = GiB(4);
  EXPECT_EQ(SamplingInterval(input), absl::Milliseconds(500));
}

TEST(SamplingInterval, IsFastWithinTenPercentOfAKill) {
  SamplingInput input = OneClient();
  input.level = Percent{20};
  EXPECT_EQ(SamplingInterval(input), absl::Milliseconds(500));
  input.level = Percent{19.9};
  EXPECT_EQ(SamplingInterval(input), absl::Milliseconds(50));
}

TEST(SamplingInterval, IsFastWhileSwapMovesFasterThanSixtyFourMebibytesASecond) {
  SamplingInput input = OneClient();
  input.swap_change = MiB(32);
  EXPECT_EQ(SamplingInterval(input), absl::Milliseconds(500));
  input.swap_change = MiB(32) + Bytes(1);
  EXPECT_EQ(SamplingInterval(input), absl::Milliseconds(50));
  input.swap_change = -MiB(33);
  EXPECT_EQ(SamplingInterval(input), absl::Milliseconds(50));
}

}  // namespace
}  // namespace stageload::core
