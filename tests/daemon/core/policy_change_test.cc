// What an update is told as.
#include "daemon/core/policy_change.h"

#include <gtest/gtest.h>

namespace stageload::core {
namespace {

TEST(PolicyChange, IsNothingOfEqualTerms) { EXPECT_EQ(ChangesBetween(Policy(), Policy()), ""); }

TEST(PolicyChange, SaysWhatHasChangedAndNothingElse) {
  Policy before, after;
  after.wait_free = Percent{25};
  EXPECT_EQ(ChangesBetween(before, after), "wait free 40 % -> 25 %");
  after.time_limit = absl::Hours(2);
  after.priority = 7;
  EXPECT_EQ(ChangesBetween(before, after),
            "priority 0 -> 7, wait free 40 % -> 25 %, time limit none -> 2h00m");
}

TEST(PolicyChange, KnowsEveryTerm) {
  const Policy before;
  Policy after;
  after.memory_auto = true;
  EXPECT_EQ(ChangesBetween(before, after), "memory none -> auto");
  after.memory = GiB(4);
  after.memory_auto = false;
  after.swap_budget = GiB(2);
  after.swap_limit = GiB(12);
  after.kill_free = Percent{5};
  after.charge_mode = ChargeMode::kOwn;
  after.on_over_budget = OverBudget::kSuspend;
  after.start_timeout = absl::Minutes(5);
  after.grace = absl::Seconds(30);
  after.busy = {"ollama", "blender"};
  after.quiet_for = absl::Minutes(3);
  EXPECT_EQ(
      ChangesBetween(before, after),
      "memory none -> 4 GiB, swap budget 8 GiB -> 2 GiB, swap limit none -> 12 GiB, kill free "
      "10 % -> 5 %, charge system -> own, on over budget stop -> suspend, start timeout none -> "
      "5m00s, grace 5s -> 30s, busy none -> ollama blender, quiet for 1m00s -> 3m00s");
}

}  // namespace
}  // namespace stageload::core
