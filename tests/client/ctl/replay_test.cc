// What the rules decide over a recording. The expected figures were calculated from the traces by
// hand: swap at a sample less swap at the admission, against the budget.
#include "client/ctl/replay.h"

#include <gmock/gmock.h>

#include <ostream>
#include <string>
#include <vector>

#include "base/text.h"
#include "tests/client/ctl/recordings.h"

namespace stageload::ctl {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

using Action = Decision::Action;

core::Policy Budget(Bytes budget) {
  core::Policy policy;
  policy.swap_budget = budget;
  return policy;
}

TraceSample At(double t, std::optional<double> level, std::optional<Bytes> swap) {
  TraceSample sample;
  sample.t = t;
  if (level) sample.level = Percent{*level};
  sample.swap_used = swap;
  sample.footprint = GiB(1);
  return sample;
}

Trace Of(std::vector<TraceSample> samples) {
  Trace trace;
  trace.samples = std::move(samples);
  return trace;
}

Replay Played(const Trace& trace, const core::Policy& policy) {
  absl::StatusOr<Replay> replay = ReplayTrace(trace, policy);
  if (replay.ok()) return *std::move(replay);
  ADD_FAILURE() << replay.status();
  return {};
}

// "admit 0.001", "stop 103.455 SWAP_BUDGET".
std::vector<std::string> Words(const Replay& replay) {
  std::vector<std::string> words;
  for (const Decision& decision : replay.decisions) {
    std::string word =
        std::string(Name(decision.action)) + " " + testing::PrintToString(decision.t);
    if (!decision.reason.empty()) word += " " + decision.reason;
    words.push_back(word);
  }
  return words;
}

// ---- Recordings of a real machine ----

struct Expected {
  const char* recording;
  Bytes budget;
  double stop;  // t; negative for none
  Bytes swap;
  Bytes charge;
  Bytes overshoot;
};

void PrintTo(const Expected& expected, std::ostream* out) {
  *out << expected.recording << " at " << FormatBytes(expected.budget);
}

class RecordedRun : public testing::TestWithParam<Expected> {};

TEST_P(RecordedRun, IsStoppedWhereTheFiguresSay) {
  if (!HaveRecordings()) GTEST_SKIP() << "no recordings at " << STAGELOAD_RECORDINGS;
  const Expected& expected = GetParam();
  const absl::StatusOr<Trace> trace = ReadTrace(Recording(expected.recording));
  ASSERT_TRUE(trace.ok()) << trace.status();
  const Replay replay = Played(*trace, Budget(expected.budget));
  ASSERT_FALSE(replay.decisions.empty());
  const Decision& first = replay.decisions.front();
  EXPECT_EQ(first.action, Action::kAdmit);
  EXPECT_EQ(first.t, trace->samples.front().t);
  EXPECT_EQ(first.charge, Bytes(0));
  EXPECT_EQ(replay.overshoot, expected.overshoot);
  const Decision& last = replay.decisions.back();
  if (expected.stop < 0) {
    EXPECT_NE(last.action, Action::kStop) << last.t;
    return;
  }
  EXPECT_EQ(last.action, Action::kStop);
  EXPECT_EQ(last.reason, "SWAP_BUDGET");
  EXPECT_EQ(last.t, expected.stop);
  EXPECT_EQ(last.swap_used, expected.swap);
  EXPECT_EQ(last.charge, expected.charge);
}

constexpr Bytes kNone;
INSTANTIATE_TEST_SUITE_P(
    Budgets, RecordedRun,
    testing::Values(Expected{"offload-1", GiB(4), 101.423, Bytes(8748990464), Bytes(5076156416),
                             Bytes(5991104512)},
                    Expected{"offload-1", GiB(8), 103.455, Bytes(12474056704), Bytes(8801222656),
                             Bytes(1696137216)},
                    Expected{"offload-1", GiB(12), -1, kNone, kNone, kNone},
                    Expected{"first-attempt", GiB(4), 15.098, Bytes(14434107392), Bytes(5151719424),
                             Bytes(6259736576)},
                    Expected{"first-attempt", GiB(8), 17.113, Bytes(18473680896), Bytes(9191292928),
                             Bytes(1964769280)},
                    Expected{"first-attempt", GiB(12), -1, kNone, kNone, kNone},
                    Expected{"staged-1", GiB(4), -1, kNone, kNone, kNone},
                    Expected{"staged-1", GiB(8), -1, kNone, kNone, kNone},
                    Expected{"staged-1", GiB(12), -1, kNone, kNone, kNone}),
    [](const auto& run) {
      std::string name = run.param.recording;
      std::erase(name, '-');
      return name + "At" + std::to_string(run.param.budget.count() >> 30) + "GiB";
    });

TEST(RecordedRuns, AreWarnedAtFourFifthsOfTheBudget) {
  if (!HaveRecordings()) GTEST_SKIP() << "no recordings at " << STAGELOAD_RECORDINGS;
  EXPECT_THAT(Words(Played(*ReadTrace(Recording("offload-1")), Budget(GiB(8)))),
              ElementsAre("admit 0.001", "warn 102.952 SWAP_BUDGET", "stop 103.455 SWAP_BUDGET"));
  EXPECT_THAT(Words(Played(*ReadTrace(Recording("first-attempt")), Budget(GiB(8)))),
              ElementsAre("admit 0", "warn 16.105 SWAP_BUDGET", "stop 17.113 SWAP_BUDGET"));
  EXPECT_THAT(Words(Played(*ReadTrace(Recording("staged-1")), Budget(GiB(8)))),
              ElementsAre("admit 0"));
}

// ---- Small ones ----

TEST(Replay, DecidesNothingAfterAStop) {
  const Trace trace =
      Of({At(0, 80, GiB(1)), At(0.5, 60, GiB(3)), At(1, 3, GiB(9)), At(1.5, 3, GiB(20)),
          At(4, 3, GiB(20)), At(60, 90, GiB(1)), At(61, 3, GiB(30)), At(63, 3, GiB(2))});
  const Replay replay = Played(trace, Budget(GiB(1)));
  EXPECT_THAT(Words(replay), ElementsAre("admit 0", "stop 0.5 SWAP_BUDGET"));
  EXPECT_EQ(replay.overshoot, GiB(30 - 1 - 1)) << "the recording goes on";
}

TEST(Replay, DoesNotCallSwapWithinTheBudgetAnOvershoot) {
  const Trace trace = Of({At(0, 80, GiB(5)), At(1, 60, GiB(2)), At(2, 60, GiB(13))});
  EXPECT_EQ(Played(trace, Budget(GiB(8))).overshoot, Bytes(0));
  EXPECT_EQ(Played(trace, Budget(GiB(7))).overshoot, GiB(1));
}

TEST(Replay, ChargesGrowthOverAGapSinceTheRecorderOnlyStoodStill) {
  const Trace trace = Of({At(0, 80, GiB(1)), At(0.5, 80, GiB(1)), At(49.5, 70, GiB(10))});
  const Replay replay = Played(trace, Budget(GiB(8)));
  ASSERT_THAT(Words(replay), ElementsAre("admit 0", "stop 49.5 SWAP_BUDGET"));
  EXPECT_EQ(replay.decisions.back().charge, GiB(9));
  EXPECT_EQ(replay.overshoot, GiB(1));
}

TEST(Replay, ChargesNothingOverAGapOfMinutesAsTheDaemonWouldNot) {
  const Trace trace = Of({At(0, 80, GiB(1)), At(180, 80, GiB(10)), At(181, 80, GiB(11))});
  const Replay replay = Played(trace, Budget(GiB(8)));
  EXPECT_THAT(Words(replay), ElementsAre("admit 0"));
  EXPECT_EQ(replay.overshoot, GiB(2)) << "the recording says what it says";
}

TEST(Replay, TakesTheFirstSampleAfterAGapAsFresh) {
  const Trace trace = Of({At(0, 10, GiB(1)), At(49, 80, GiB(1))});
  EXPECT_THAT(Words(Played(trace, Budget(GiB(8)))), ElementsAre("admit 49"));
}

TEST(Replay, CountsTheBudgetFromTheSampleThatAdmits) {
  const Trace trace = Of({At(0, 39, GiB(1)), At(20, 39, GiB(4)), At(40, 40, GiB(4)),
                          At(41, 60, GiB(5)), At(42, 60, GiB(7)), At(43, 60, GiB(6))});
  const Replay replay = Played(trace, Budget(GiB(2)));
  ASSERT_THAT(Words(replay), ElementsAre("admit 40", "stop 42 SWAP_BUDGET"));
  EXPECT_EQ(replay.decisions.back().charge, GiB(3));
  EXPECT_EQ(replay.overshoot, GiB(1));
  EXPECT_THAT(replay.notes,
              ElementsAre(StartsWith("admitted after a wait; at the first sample: LEVEL: 39 %")));
}

TEST(Replay, SaysWhyACommandIsNeverAdmitted) {
  const Trace trace = Of({At(0, 30, GiB(1)), At(1, 39.5, GiB(50))});
  const Replay replay = Played(trace, Budget(GiB(2)));
  EXPECT_THAT(replay.decisions, IsEmpty());
  EXPECT_EQ(replay.overshoot, Bytes(0));
  EXPECT_THAT(replay.notes, ElementsAre(AllOf(StartsWith("never admitted; at the last sample: "),
                                              HasSubstr("LEVEL: 39.5 %"))));
}

TEST(Replay, StopsForLowMemoryAfterASecondOfIt) {
  core::Policy policy = Budget(GiB(8));
  policy.kill_free = Percent{20};
  const Trace trace = Of({At(0, 80, GiB(1)), At(1, 19, GiB(1)), At(1.5, 19, GiB(1)),
                          At(2, 19, GiB(1)), At(2.5, 5, GiB(12))});
  const Replay replay = Played(trace, policy);
  ASSERT_THAT(Words(replay), ElementsAre("admit 0", "stop 2 LOW_MEMORY"));
  EXPECT_EQ(replay.decisions.back().level, Percent{19});
  EXPECT_EQ(replay.overshoot, GiB(3));
}

TEST(Replay, StopsOverASwapLimitAndRefusesOneThatTheBudgetNeverFitsUnder) {
  core::Policy policy = Budget(GiB(4));
  policy.swap_limit = GiB(6);
  const Trace trace = Of({At(0, 80, GiB(2)), At(1, 80, GiB(6)), At(2, 80, GiB(6) + Bytes(1))});
  EXPECT_THAT(Words(Played(trace, policy)),
              ElementsAre("admit 0", "warn 1 SWAP_BUDGET", "stop 2 SWAP_BUDGET"));
  policy.swap_budget = GiB(1);
  const Trace fallen = Of({At(0, 80, GiB(5)), At(1, 80, GiB(5)), At(2, 80, GiB(1)),
                           At(3, 80, GiB(5)), At(4, 80, GiB(7))});
  EXPECT_THAT(Words(Played(fallen, policy)).back(), StartsWith("stop 4 SWAP_"));
  policy.swap_limit = MiB(512);
  const absl::Status refused = ReplayTrace(trace, policy).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("never fits"));
}

TEST(Replay, SuspendsOverTheBudgetWhereAskedTo) {
  core::Policy policy = Budget(GiB(2));
  policy.on_over_budget = core::OverBudget::kSuspend;
  policy.kill_free = Percent{20};
  const Trace trace = Of({At(0, 80, GiB(1)), At(1, 60, GiB(4)), At(2, 60, GiB(6)),
                          At(3, 15, GiB(7)), At(4, 15, GiB(7)), At(5, 15, GiB(9))});
  const Replay replay = Played(trace, policy);
  ASSERT_THAT(Words(replay), ElementsAre("admit 0", "suspend 1 SWAP_BUDGET", "stop 4 LOW_MEMORY"))
      << "it still holds its memory";
  EXPECT_EQ(replay.decisions[1].charge, GiB(3));
  EXPECT_EQ(replay.overshoot, GiB(6));
}

TEST(Replay, OnlyWarnsOverTheBudgetWhereAskedTo) {
  core::Policy policy = Budget(GiB(10));
  policy.on_over_budget = core::OverBudget::kWarn;
  const Trace trace = Of({At(0, 80, GiB(1)), At(1, 60, GiB(10)), At(2, 60, GiB(12)),
                          At(3, 60, GiB(15)), At(4, 60, GiB(3))});
  const Replay replay = Played(trace, policy);
  EXPECT_THAT(Words(replay), ElementsAre("admit 0", "warn 1 SWAP_BUDGET", "warn 2 SWAP_BUDGET"))
      << "at 80 % of it, and over it";
  EXPECT_EQ(replay.overshoot, GiB(4));
}

TEST(Replay, GoesOnOverSamplesWithoutALevelOrSwap) {
  const Trace trace = Of({At(0, std::nullopt, GiB(1)), At(1, 80, std::nullopt),
                          At(2, std::nullopt, std::nullopt), At(3, std::nullopt, GiB(12))});
  const Replay replay = Played(trace, Budget(GiB(8)));
  ASSERT_THAT(Words(replay), ElementsAre("admit 1", "stop 3 SWAP_BUDGET"));
  EXPECT_EQ(replay.decisions.front().swap_used, std::nullopt);
  EXPECT_EQ(replay.decisions.back().level, std::nullopt);
  EXPECT_EQ(replay.decisions.back().charge, GiB(11));
  EXPECT_EQ(replay.overshoot, GiB(3));
}

TEST(Replay, CountsFromTheFirstSwapReadingWhereThereWasNoneBefore) {
  const Trace trace = Of({At(0, 80, std::nullopt), At(1, 80, GiB(5)), At(2, 80, GiB(14))});
  const Replay replay = Played(trace, Budget(GiB(8)));
  ASSERT_THAT(Words(replay), ElementsAre("admit 0", "stop 2 SWAP_BUDGET"));
  EXPECT_EQ(replay.decisions.back().charge, GiB(9));
  EXPECT_EQ(replay.overshoot, GiB(1));
}

TEST(Replay, OfOneSampleAdmitsOrNot) {
  EXPECT_THAT(Words(Played(Of({At(7.25, 80, GiB(1))}), Budget(GiB(8)))), ElementsAre("admit 7.25"));
}

}  // namespace
}  // namespace stageload::ctl
