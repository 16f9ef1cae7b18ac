// What the keys and the frames do, without a terminal and without a daemon.
#include "client/ctl/top_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "client/ctl/top_graph.h"
#include "tests/client/ctl/top_frames.h"

namespace stageload::ctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

std::vector<std::int64_t> Ids(const TopModel& model) {
  std::vector<std::int64_t> ids;
  for (const v1::ClientSample* client : model.clients()) ids.push_back(client->job_id());
  return ids;
}

v1::Frame ThreeClients(std::int64_t second = 0) {
  v1::Frame frame = FrameAt(second);
  AddClient(frame, 1, "small", 1 * kGiB, 7 * kGiB);
  AddClient(frame, 2, "large", 9 * kGiB);
  AddClient(frame, 3, "middle", 5 * kGiB, 1 * kGiB, 1 * kGiB);
  return frame;
}

TEST(TopModel, StartsWithTheLargestFootprintFirst) {
  TopModel model;
  EXPECT_EQ(model.frame(), nullptr);
  EXPECT_EQ(model.chosen(), std::nullopt);
  model.Live(ThreeClients());
  EXPECT_THAT(Ids(model), ElementsAre(2, 3, 1));
}

TEST(TopModel, SortsByTheNextColumnAndTurnsTheOrderAround) {
  TopModel model;
  model.Live(ThreeClients());
  model.Press('r');
  EXPECT_THAT(Ids(model), ElementsAre(1, 3, 2));
  model.Press('r');
  model.Press('s');
  ASSERT_EQ(model.sort_by(), SortBy::kDeclared);
  model.Press('s');
  ASSERT_EQ(model.sort_by(), SortBy::kCharge);
  EXPECT_THAT(Ids(model), ElementsAre(3, 1, 2)) << "by the share of the budget, not by bytes";
  for (int i = 0; i < 3; ++i) model.Press('s');
  EXPECT_EQ(model.sort_by(), SortBy::kId) << "and round to the first";
  EXPECT_THAT(Ids(model), ElementsAre(1, 2, 3));
}

TEST(TopModel, AChosenRowStaysWithItsJobWhereverThatGoes) {
  TopModel model;
  model.Live(ThreeClients());
  model.Press('j');
  ASSERT_EQ(model.chosen(), 1U);  // job 3
  v1::Frame frame = ThreeClients(1);
  frame.mutable_clients(2)->set_footprint_bytes(20 * kGiB);
  model.Live(frame);
  EXPECT_EQ(model.chosen(), 0U);
  const auto action = model.Press('z');
  ASSERT_TRUE(action);
  EXPECT_EQ(action->job, 3);
  EXPECT_EQ(action->verb, Verb::kSuspend);
}

TEST(TopModel, AWaitingJobStaysChosenWhenItStarts) {
  TopModel model;
  v1::Frame frame = ThreeClients();
  AddWaiting(frame, 4, "next", "needs 3 GiB");
  model.Live(frame);
  model.Press('G');
  ASSERT_EQ(model.chosen(), 3U);
  frame = ThreeClients(1);
  AddClient(frame, 4, "next", 7 * kGiB);
  model.Live(frame);
  EXPECT_EQ(model.chosen(), 1U);
  EXPECT_EQ(model.Press('c')->job, 4);
}

TEST(TopModel, WhenAChosenJobEndsTheOneInItsPlaceIsChosen) {
  TopModel model;
  model.Live(ThreeClients());
  model.Press('G');
  v1::Frame frame = FrameAt(1);
  AddClient(frame, 2, "large", 9 * kGiB);
  model.Live(frame);
  EXPECT_EQ(model.chosen(), 0U);
  model.Live(FrameAt(2));
  EXPECT_EQ(model.chosen(), std::nullopt);
  EXPECT_EQ(model.Press('z'), std::nullopt);
  EXPECT_THAT(model.message()->text, HasSubstr("no job"));
}

TEST(TopModel, CancelsOnlyAfterAYesAndOnlyWhatWasAskedAbout) {
  TopModel model;
  model.Live(ThreeClients());
  EXPECT_EQ(model.Press('x'), std::nullopt);
  EXPECT_EQ(model.question(), "cancel job 2 (large)? y/n");
  EXPECT_EQ(model.Press('n'), std::nullopt);
  EXPECT_THAT(model.question(), IsEmpty());
  EXPECT_EQ(model.message()->text, "job 2 is not cancelled");

  model.Press('x');
  model.Live(FrameAt(1));  // meanwhile all is gone
  const auto action = model.Press('y');
  ASSERT_TRUE(action);
  EXPECT_EQ(action->verb, Verb::kCancel);
  EXPECT_EQ(action->job, 2);

  model.Live(ThreeClients(2));
  model.Press('x');
  EXPECT_EQ(model.Press('q'), std::nullopt);
  EXPECT_FALSE(model.quit()) << "it was an answer";
}

TEST(TopModel, HoldsAWaitingJobAndReleasesAHeldOne) {
  TopModel model;
  v1::Frame frame = FrameAt(0);
  AddWaiting(frame, 4, "next", "needs 3 GiB");
  AddWaiting(frame, 5, "held", "by a user", v1::BLOCKER_KIND_HELD);
  model.Live(frame);
  EXPECT_EQ(model.Press('h')->verb, Verb::kHold);
  model.Press('j');
  const auto action = model.Press('h');
  EXPECT_EQ(action->verb, Verb::kRelease);
  EXPECT_EQ(action->job, 5);
}

TEST(TopModel, TellsWhatTheDaemonSaidUntilTheNextKey) {
  TopModel model;
  model.Live(ThreeClients());
  model.Failed({Verb::kResume, 2}, "job 2 is RUNNING, not SUSPENDED\033[2J");
  EXPECT_EQ(model.message()->text, "cannot resume job 2: job 2 is RUNNING, not SUSPENDED?[2J");
  EXPECT_TRUE(model.message()->failed);
  model.Tick(absl::FromUnixSeconds(4000000000));
  EXPECT_TRUE(model.message()) << "what failed must be read";
  model.Press('j');
  EXPECT_FALSE(model.message());

  v1::Job job;
  job.set_id(2);
  job.set_state(v1::JOB_STATE_SUSPENDED);
  model.Answered({Verb::kSuspend, 2}, job, absl::UnixEpoch());
  EXPECT_EQ(model.message()->text, "job 2 is SUSPENDED");
  model.Tick(absl::UnixEpoch() + absl::Hours(1));
  EXPECT_FALSE(model.message());
}

TEST(TopModel, AnyKeyGoesBackFromHelpAndOnlyThenLeaves) {
  TopModel model;
  for (const Key key : {Key{'q'}, Key{'x'}, kKeyEscape}) {
    model.Press('?');
    EXPECT_TRUE(model.help());
    EXPECT_EQ(model.Press(key), std::nullopt);
    EXPECT_FALSE(model.help());
    EXPECT_FALSE(model.quit());
  }
  model.Press('q');
  EXPECT_TRUE(model.quit());
}

TEST(TopModel, PausesTheScreenAndNotTheGraphs) {
  TopModel model;
  model.Live(FrameAt(0, 63));
  model.Press('p');
  v1::Frame frame = ThreeClients(5);
  frame.mutable_host()->set_level_percent(20);
  *frame.add_events() = EventAt(5, "admitted", 1, "x");
  model.Live(frame);
  EXPECT_THAT(Ids(model), IsEmpty());
  EXPECT_THAT(model.history().Stretches(1, 1)[0].level, Optional(20.0));
  EXPECT_EQ(model.events().size(), 1U);
  model.Press('p');
  EXPECT_EQ(Ids(model).size(), 3U);
}

TEST(TopModel, AnEventThatPastAndPresentTellIsShownOnceNewestFirst) {
  TopModel model;
  v1::Frame frame = FrameAt(3);
  *frame.add_events() = EventAt(3, "ended", 1, "b");
  *frame.add_events() = EventAt(3, "ended", 2, "b");
  model.Live(frame);
  v1::Event stored = EventAt(3, "ended", 1, "b");
  stored.set_time_ns(stored.time_ns() - kSecondNs / 10);  // the store's time of it
  model.AddEvents({EventAt(1, "admitted", 1, "a"), stored});
  model.Live(frame);
  std::vector<std::int64_t> ids;
  for (const v1::Event& event : model.events()) ids.push_back(event.job_id());
  EXPECT_THAT(ids, ElementsAre(2, 1, 1));
}

TEST(TopModel, SaysSinceWhenTheDaemonIsGoneAndGoesOnWithTheNext) {
  TopModel model;
  model.Live(ThreeClients());
  const absl::Time lost = absl::FromUnixSeconds(100);
  model.Lost("daemon went away", lost);
  model.Lost("nobody answers", lost + absl::Seconds(5));
  ASSERT_TRUE(model.loss());
  EXPECT_EQ(model.loss()->since, lost);
  EXPECT_EQ(model.clients().size(), 3U) << "the last that is known stays";
  v1::GetVersionResponse next;
  next.set_pid(99);
  model.Connected(next);
  v1::Frame first = FrameAt(50);
  first.set_sequence(1);
  model.Live(first);
  EXPECT_FALSE(model.loss());
  EXPECT_EQ(model.daemon().pid(), 99);
}

absl::Time AtSecond(double second) { return absl::FromUnixNanos(kNoonNs) + absl::Seconds(second); }

TEST(TopModel, NoSampleForSeveralIntervalsIsSilenceAndStopsTheTimeOfWhatIsShown) {
  TopModel model;
  EXPECT_EQ(model.Silence(AtSecond(100)), std::nullopt) << "nothing was there to go on";
  EXPECT_EQ(model.ShownTime(AtSecond(100)), AtSecond(100));
  v1::Frame frame = ThreeClients();
  frame.set_interval_ns(kSecondNs / 20);
  model.Live(frame);
  EXPECT_EQ(model.Silence(AtSecond(4)), std::nullopt) << "four of the stream's own intervals";
  EXPECT_EQ(model.ShownTime(AtSecond(4)), AtSecond(4));
  EXPECT_EQ(model.Silence(AtSecond(4.5)), absl::Seconds(4.5));
  EXPECT_EQ(model.ShownTime(AtSecond(4.5)), AtSecond(0));

  frame = ThreeClients(5);
  frame.set_interval_ns(2 * kSecondNs);
  model.Live(frame);
  EXPECT_EQ(model.Silence(AtSecond(13)), std::nullopt) << "the daemon said that it would be slow";
  EXPECT_EQ(model.Silence(AtSecond(14)), absl::Seconds(9));
}

TEST(TopModel, SilenceIsThreeSecondsAtTheLeastAndGoesOnBehindAPausedScreen) {
  TopModel model(absl::Milliseconds(100));
  model.Live(ThreeClients());
  EXPECT_EQ(model.Silence(AtSecond(3)), std::nullopt);
  EXPECT_EQ(model.Silence(AtSecond(3.5)), absl::Seconds(3.5));
  model.Press('p');
  model.Live(ThreeClients(2));
  EXPECT_EQ(model.Silence(AtSecond(3.5)), std::nullopt);
  EXPECT_EQ(model.Silence(AtSecond(5.5)), absl::Seconds(3.5));
}

TEST(TopModel, OfADaemonThatIsGoneThatIsSaidAndNoSilence) {
  TopModel model;
  model.Live(ThreeClients());
  model.Lost("daemon went away", AtSecond(1));
  EXPECT_EQ(model.Silence(AtSecond(60)), std::nullopt);
  EXPECT_EQ(model.ShownTime(AtSecond(60)), AtSecond(0));
}

TEST(TopModel, SaysWhatHasNoAnswerUntilItHasOne) {
  TopModel model;
  model.Live(ThreeClients());
  const Action suspend = *model.Press('z');
  const Action hold = *model.Press('h');
  model.Asked(suspend, AtSecond(0));
  model.Asked(hold, AtSecond(1));
  EXPECT_THAT(model.Unanswered(AtSecond(1.5)), IsEmpty());
  EXPECT_EQ(model.Unanswered(AtSecond(2)), "asked to suspend job 2, and 1 more: no answer yet");
  model.Press('j');
  v1::Job job;
  job.set_id(2);
  model.Answered(suspend, job, AtSecond(2.5));
  EXPECT_THAT(model.Unanswered(AtSecond(2.5)), IsEmpty());
  EXPECT_EQ(model.Unanswered(AtSecond(3)), "asked to hold job 2: no answer yet");
  model.Failed(hold, "job 2 is RUNNING");
  EXPECT_THAT(model.Unanswered(AtSecond(60)), IsEmpty());
}

TEST(SwapRate, IsTheGrowthOfTheLastSeconds) {
  SwapRate rate;
  rate.Add(FrameAt(0, 50, 5 * kGiB));
  EXPECT_EQ(rate.BytesPerSecond(), std::nullopt);
  for (int second = 1; second <= 20; ++second) rate.Add(FrameAt(second, 50, 5 * kGiB));
  EXPECT_THAT(rate.BytesPerSecond(), Optional(0.0));
  for (int second = 21; second <= 30; ++second) {
    rate.Add(FrameAt(second, 50, 5 * kGiB + (second - 20) * kGiB));
  }
  EXPECT_THAT(rate.BytesPerSecond(), Optional(testing::DoubleEq(kGiB)));
  rate.Add(FrameAt(-500, 50, 0));  // another boot
  EXPECT_EQ(rate.BytesPerSecond(), std::nullopt);
}

TEST(SwapRate, OfASlowStreamIsTold) {
  SwapRate rate;
  rate.Add(FrameAt(0, 50, 0));
  rate.Add(FrameAt(60, 50, 60 * kGiB));
  rate.Add(FrameAt(120, 50, 60 * kGiB));
  EXPECT_THAT(rate.BytesPerSecond(), Optional(0.0));
}

std::vector<double> Levels(const std::vector<HostPoint>& points) {
  std::vector<double> levels;
  for (const HostPoint& point : points) levels.push_back(point.level.value_or(-1));
  return levels;
}

TEST(TopHistory, KeepsTheWorstOfEachStretch) {
  TopHistory history;
  for (int second = 0; second < 8; ++second) {
    history.AddNewest(PointOf(FrameAt(second, 50 + second, second)));
  }
  const auto stretches = history.Stretches(3, 12);  // 12:00:00 is the border of a stretch
  EXPECT_EQ(stretches[0].level, std::nullopt);
  EXPECT_THAT(stretches[1].level, Optional(50.0));
  EXPECT_THAT(stretches[1].swap, Optional(3));
  EXPECT_THAT(stretches[2].level, Optional(54.0));
  EXPECT_THAT(stretches[2].swap, Optional(7));
}

TEST(TopHistory, BordersOfStretchesStayWhileTimeGoesOn) {
  TopHistory history;
  history.AddNewest(PointOf(FrameAt(0, 10)));
  for (int second = 1; second < 5; ++second) history.AddNewest(PointOf(FrameAt(second, 90)));
  EXPECT_THAT(history.Stretches(2, 10)[1].level, Optional(10.0));
  history.AddNewest(PointOf(FrameAt(5, 90)));
  EXPECT_THAT(history.Stretches(2, 10)[0].level, Optional(10.0));
  EXPECT_THAT(history.Stretches(2, 10)[1].level, Optional(90.0));
}

TEST(TopHistory, FillsSmallHolesAndShowsLongOnes) {
  TopHistory history;
  history.AddNewest(PointOf(FrameAt(0, 50)));
  history.AddNewest(PointOf(FrameAt(3, 60)));
  history.AddNewest(PointOf(FrameAt(13, 70)));
  history.AddNewest(PointOf(FrameAt(18, 80)));
  EXPECT_THAT(Levels(history.Stretches(19, 19)), ElementsAre(50, 50, 50, 60, -1, -1, -1, -1, -1, -1,
                                                             -1, -1, -1, 70, -1, -1, -1, -1, 80));
}

TEST(TopHistory, OfASlowStreamHasNoHoles) {
  TopHistory history(absl::Seconds(5));
  history.AddNewest(PointOf(FrameAt(0, 50)));
  history.AddNewest(PointOf(FrameAt(5, 60)));
  history.AddNewest(PointOf(FrameAt(21, 70)));
  EXPECT_THAT(Levels(history.Stretches(8, 8)), ElementsAre(-1, -1, -1, -1, -1, -1, -1, 70));
  EXPECT_THAT(Levels(history.Stretches(22, 22))[4], 50);
}

TEST(TopHistory, ShowsAllItsTimeAndNoMoreHoweverManyColumnsThereAre) {
  TopHistory history;
  for (int second = 0; second < 600; ++second) {
    history.AddNewest(PointOf(FrameAt(second, second == 300 || second == 540 ? 10 : 90)));
  }
  for (const std::size_t columns : {7U, 40U, 60U, 61U, 144U, 230U, 300U, 1000U}) {
    const std::vector<double> five_minutes = Levels(history.Stretches(columns, 300));
    EXPECT_EQ(five_minutes.front(), 10) << columns;  // all of it, the first second too
    const std::vector<double> minute = Levels(history.Stretches(columns, 60));
    EXPECT_EQ(minute.front(), 10) << columns;
    if (columns < 60) continue;
    EXPECT_EQ(minute.back(), 90) << columns;
    const auto low = std::count(minute.begin(), minute.end(), 10);
    EXPECT_LE(low, static_cast<std::ptrdiff_t>(columns / 60 + 1)) << columns;
  }
}

TEST(TopHistory, TakesThePastInAnyOrderAndForgetsAClockThatWasSetBack) {
  TopHistory history;
  history.AddNewest(PointOf(FrameAt(10, 70)));
  history.Add(PointOf(FrameAt(9, 60)));
  history.Add(PointOf(FrameAt(8, 50)));
  EXPECT_THAT(history.Stretches(3, 3)[0].level, Optional(50.0));
  history.AddNewest(PointOf(FrameAt(8, 40)));
  EXPECT_THAT(history.Stretches(1, 1)[0].level, Optional(40.0));
}

TEST(TopHistory, HoldsAnHour) {
  TopHistory history;
  for (int second = 0; second < 5000; ++second) {
    history.AddNewest(PointOf(FrameAt(second, second == 0 || second == 4000 ? 1 : 90)));
  }
  int low = 0;
  for (const HostPoint& point : history.Stretches(5000, 5000)) low += point.level == 1.0 ? 1 : 0;
  EXPECT_EQ(low, 1);
}

std::string Row(const std::vector<GraphColumn>& graph, std::size_t row, std::size_t rows,
                bool utf8) {
  PictureLine line(40, utf8);
  PutGraphRow(line, graph, row, rows, utf8);
  return line.Text();
}

TEST(Graph, HasEighthsOfABlock) {
  const std::vector<GraphColumn> graph{{0.0}, {0.5}, {1.0}, {std::nullopt}, {0.75}, {0.5625}};
  EXPECT_EQ(Row(graph, 0, 1, true), "▁▄█ ▆▅");
  EXPECT_EQ(Row(graph, 0, 2, true), "  █ ▄▁");
  EXPECT_EQ(Row(graph, 1, 2, true), "▁██ ██");
}

TEST(Graph, IsReadableInAscii) {
  const std::vector<GraphColumn> graph{{0.0}, {0.5}, {1.0}, {std::nullopt}};
  EXPECT_EQ(Row(graph, 0, 2, false), "  # ");
  EXPECT_EQ(Row(graph, 1, 2, false), ".## ");
}

TEST(Bar, ShowsItsShareAndNoMoreThanAll) {
  EXPECT_EQ(Bar(0.5, 4, true), "██  ");
  EXPECT_EQ(Bar(0.56, 4, true), "██▎ ");
  EXPECT_EQ(Bar(9, 4, true), "████");
  EXPECT_EQ(Bar(-1, 4, true), "    ");
  EXPECT_EQ(Bar(0.001, 4, true), "▏   ") << "a little is not nothing";
  EXPECT_EQ(Bar(0.5, 4, false), "##  ");
}

}  // namespace
}  // namespace stageload::ctl
