// The example of docs/admission.md, step by step. Every line that it shows is one that the core
// says here, so the document cannot drift from the rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/core/scheduler.h"
#include "tests/daemon/core/scheduler_fixture.h"

namespace stageload::core {
namespace {

using ::testing::HasSubstr;

class WorkedExample : public SchedulerTest {
 protected:
  WorkedExample() {
    std::ostringstream text;
    text << std::ifstream(STAGELOAD_DOCS "/admission.md").rdbuf();
    document_ = text.str();
    host_.total = GiB(48);
    Machine(GiB(34) + MiB(512), GiB(1));
    Restart(Config{});  // as a user has it
  }

  void Machine(Bytes available, Bytes swap_used) {
    host_.available = available;
    host_.level = Percent{100 * available.AsDouble() / GiB(48).AsDouble()};
    host_.swap_used = swap_used;
  }
  void ExpectShown(const std::string& line) { EXPECT_THAT(document_, HasSubstr(line)); }
  void ExpectBlockersShown(int id) {
    const auto blockers = scheduler_->BlockersOf(now_, JobId{id});
    ASSERT_FALSE(blockers.empty());
    for (const Blocker& blocker : blockers) {
      ExpectShown(absl::StrCat(Name(blocker.kind), ": ", blocker.text));
    }
  }
  void ExpectReasonShown(int id) {
    const JobRecord* record = scheduler_->Find(JobId{id});
    ASSERT_NE(record, nullptr);
    ExpectShown(absl::StrCat(Name(record->reason), ": ", record->reason_text));
  }

  std::string document_;
};

TEST_F(WorkedExample, EveryLineOfItIsWhatTheCoreSays) {
  Sample();
  // 1. Two jobs of 20 GiB are submitted together.
  SubmitMemory(GiB(20));
  SubmitMemory(GiB(20));
  EXPECT_EQ(StateOf(1), JobState::kRunning);
  EXPECT_EQ(StateOf(2), JobState::kPending);
  ExpectBlockersShown(2);

  // 2. The first has loaded 12 GiB: the sum is the same.
  Start(1);
  Holds(1, GiB(12));
  Machine(GiB(22) + MiB(512), GiB(1));
  Sample();
  const auto loaded = scheduler_->BlockersOf(now_, JobId{2});
  EXPECT_EQ(loaded[0].read, (GiB(34) + MiB(512) - GiB(20) - GiB(48) * 0.1).AsDouble());
  ExpectBlockersShown(2);

  // 3. A small one passes; how often is bounded.
  SubmitMemory(GiB(4));
  EXPECT_EQ(StateOf(3), JobState::kRunning);
  EXPECT_EQ(scheduler_->Find(JobId{2})->bypassed, 1);
  Start(3);
  Holds(3, GiB(4));
  Machine(GiB(18) + MiB(512), GiB(1));
  Sample();
  ExpectBlockersShown(2);
  Step(Exited{JobId{3}, {0, {}, {}}, 0});
  usage_.pop_back();

  // 4. The first holds everything, and has parked it where no footprint shows it.
  Machine(GiB(14) + MiB(512), GiB(1));
  Holds(1, GiB(20));
  Sample(absl::Seconds(5));
  Holds(1, MiB(100));
  Sample();
  ExpectBlockersShown(2);

  // 5. It ends; its memory takes a moment.
  Step(Exited{JobId{1}, {0, {}, {}}, 0});
  usage_.clear();
  Machine(GiB(16), GiB(1));
  Sample();
  ExpectBlockersShown(2);
  Machine(GiB(34) + MiB(512), GiB(1));
  Sample();
  EXPECT_EQ(StateOf(2), JobState::kRunning);

  // 6. The second runs past its swap budget.
  Start(2);
  Holds(2, GiB(30));
  usage_[0].usage.swapped = Bytes(0);
  Sample();
  usage_[0].usage.swapped = GiB(6);
  Machine(GiB(6), GiB(7) + MiB(512));
  for (const Note& note : All<Note>(Sample())) ExpectShown(note.text);
  Machine(GiB(6), GiB(9) + MiB(256));
  Sample();
  EXPECT_EQ(StateOf(2), JobState::kStopping);
  ExpectReasonShown(2);
}

}  // namespace
}  // namespace stageload::core
