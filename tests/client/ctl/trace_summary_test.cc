// The figures of a recording.
#include "client/ctl/trace_summary.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

namespace stageload::ctl {
namespace {

using testing::ElementsAre;

TraceSample Sample(double t, std::int64_t footprint, std::int64_t swap = 0, double level = 50) {
  TraceSample sample;
  sample.t = t;
  sample.footprint = Bytes(footprint);
  sample.swap_used = Bytes(swap);
  sample.level = Percent{level};
  return sample;
}

TraceEvent Stage(double t, const std::string& name) {
  TraceEvent event;
  event.t = t;
  event.kind = "stage";
  event.stage = name;
  return event;
}

Trace Recorded(std::vector<TraceSample> samples, std::vector<TraceEvent> events = {}) {
  Trace trace;
  trace.samples = std::move(samples);
  trace.events = std::move(events);
  return trace;
}

// "name begin-end peak" each.
std::vector<std::string> Bands(const Trace& trace) {
  std::vector<std::string> bands;
  for (const TraceStage& stage : StagesOf(trace)) {
    bands.push_back(
        stage.name + " " + Json(stage.begin).dump() + "-" + Json(stage.end).dump() + " " +
        (stage.peak_footprint ? std::to_string(stage.peak_footprint->count()) : "none"));
  }
  return bands;
}

TEST(Stages, TakeWhatComesBeforeTheFirstAsSetup) {
  EXPECT_THAT(Bands(Recorded({Sample(0.5, 3), Sample(1, 9), Sample(2, 5), Sample(3, 4)},
                             {Stage(1, "encode"), Stage(2.5, "decode")})),
              ElementsAre("setup 0.0-1.0 3", "encode 1.0-2.5 9", "decode 2.5-3.0 4"));
}

TEST(Stages, OneWithoutASampleHasNoPeak) {
  EXPECT_THAT(Bands(Recorded({Sample(0, 3), Sample(2, 5)}, {Stage(0.5, "a"), Stage(1, "b")})),
              ElementsAre("setup 0.0-0.5 3", "a 0.5-1.0 none", "b 1.0-2.0 5"));
}

TraceEvent Release(double t) {
  TraceEvent event;
  event.t = t;
  event.kind = "release";
  return event;
}

TEST(Stages, OneBeginsBehindTheReleasesThatEnteringItSetOff) {
  EXPECT_THAT(Bands(Recorded({Sample(0, 3), Sample(1.1, 90), Sample(2, 5), Sample(3, 4)},
                             {Stage(1, "a"), Release(1.1), Release(1.5), Stage(2.5, "b")})),
              ElementsAre("setup 0.0-1.5 90", "a 1.5-2.5 5", "b 2.5-3.0 4"));
  // Not behind one that comes later, when it has done something else.
  TraceEvent load = Release(1.2);
  load.kind = "load";
  EXPECT_THAT(Bands(Recorded({Sample(0, 3), Sample(1.1, 90), Sample(2, 5)},
                             {Stage(1, "a"), load, Release(1.5)})),
              ElementsAre("setup 0.0-1.0 3", "a 1.0-2.0 90"));
}

TraceEvent Release(double t, double seconds) {
  TraceEvent event = Release(t);
  event.seconds = seconds;
  return event;
}

// The same cases are in test_meter.py.
TEST(Stages, AReleaseInAStageDoesNotMakeItBeginThere) {
  const std::vector<TraceSample> samples = {Sample(0, 3), Sample(30, 90), Sample(59.5, 5)};
  const std::vector<TraceEvent> stages = {Stage(0, "denoise"), Stage(10, "decode")};
  const auto bands_with = [&](const std::vector<TraceEvent>& releases) {
    std::vector<TraceEvent> events = stages;
    events.insert(events.end(), releases.begin(), releases.end());
    return Bands(Recorded(samples, events));
  };
  const auto at_10 = ElementsAre("denoise 0.0-10.0 3", "decode 10.0-59.5 90");
  EXPECT_THAT(bands_with({Release(59, 0.1)}), at_10);
  EXPECT_THAT(bands_with({Release(59)}), at_10);
  EXPECT_THAT(bands_with({Release(12, 0.5)}), at_10);
  // But one that began with it does, however long it took.
  EXPECT_THAT(bands_with({Release(55, 44.5)}),
              ElementsAre("denoise 0.0-55.0 90", "decode 55.0-59.5 5"));
  EXPECT_THAT(bands_with({Release(15)}), ElementsAre("denoise 0.0-15.0 3", "decode 15.0-59.5 90"));
}

TEST(Stages, OnlyTheReleasesThatFollowOneAnotherAtOnceAreOfItsBeginning) {
  const std::vector<TraceSample> samples = {Sample(0, 3), Sample(60, 5)};
  std::vector<TraceEvent> events = {Stage(0, "a"), Stage(10, "b"), Release(12, 1.5), Release(17, 5),
                                    Release(40, 0.1)};
  EXPECT_THAT(Bands(Recorded(samples, events)), ElementsAre("a 0.0-17.0 3", "b 17.0-60.0 5"));
  // Nor do many small ones move it on and on.
  events = {Stage(0, "a"), Stage(10, "b")};
  for (int i = 1; i < 50; ++i) events.push_back(Release(10 + 0.75 * i, 0.25));
  EXPECT_THAT(Bands(Recorded(samples, events)), ElementsAre("a 0.0-11.5 3", "b 11.5-60.0 5"));
  for (TraceEvent& event : events) event.seconds.reset();
  EXPECT_THAT(Bands(Recorded(samples, events)), ElementsAre("a 0.0-19.75 3", "b 19.75-60.0 5"));
}

TEST(Stages, TheOneThatTheRunIsInDoesNotBeginAnew) {
  EXPECT_THAT(Bands(Recorded({Sample(0, 3), Sample(1, 9), Sample(3, 5)},
                             {Stage(0.5, "a"), Stage(1, "a"), Stage(2, "b"), Stage(2.5, "a")})),
              ElementsAre("setup 0.0-0.5 3", "a 0.5-2.0 9", "b 2.0-2.5 none", "a 2.5-3.0 5"));
}

TEST(Stages, TheFirstMayBeginWithTheRunOrBefore) {
  EXPECT_THAT(Bands(Recorded({Sample(0, 3), Sample(2, 5)}, {Stage(-1, "a")})),
              ElementsAre("a 0.0-2.0 5"));
  EXPECT_THAT(Bands(Recorded({Sample(0, 3), Sample(2, 5)}, {Stage(0, "a")})),
              ElementsAre("a 0.0-2.0 5"));
}

TEST(Stages, ARunWithoutMarksIsOne) {
  EXPECT_THAT(Bands(Recorded({Sample(0, 3), Sample(2, 5)})), ElementsAre("setup 0.0-2.0 5"));
}

TEST(Stages, TheLastMayBeginAfterTheLastSampleOrWithIt) {
  EXPECT_THAT(Bands(Recorded({Sample(0, 3), Sample(2, 5)}, {Stage(1, "a"), Stage(3, "b")})),
              ElementsAre("setup 0.0-1.0 3", "a 1.0-3.0 5", "b 3.0-3.0 none"));
}

TEST(Stages, ThatBeginWithTheLastSampleHaveIt) {
  EXPECT_THAT(Bands(Recorded({Sample(0, 3), Sample(2, 5)}, {Stage(2, "a"), Stage(2, "b")})),
              ElementsAre("setup 0.0-2.0 5", "a 2.0-2.0 5", "b 2.0-2.0 5"));
}

TEST(Summary, FindsTheExtremes) {
  const TraceSummary summary =
      Summarise(Recorded({Sample(1, 10, 100, 60), Sample(2, 30, 90, 22.5), Sample(4.5, 20, 170, 40),
                          Sample(5, 20, 120, 41)}));
  EXPECT_EQ(summary.duration, 4);
  EXPECT_EQ(summary.samples, 4U);
  EXPECT_EQ(summary.peak_footprint, Bytes(30));
  ASSERT_TRUE(summary.swap);
  EXPECT_EQ(summary.swap->start, Bytes(100));
  EXPECT_EQ(summary.swap->peak, Bytes(170));
  EXPECT_EQ(summary.swap->end, Bytes(120));
  EXPECT_EQ(summary.min_level, Percent{22.5});
  EXPECT_FALSE(summary.true_peak);
}

TEST(Summary, TheTruePeakIsTheLargestFallOfAvailablePlusGrowthOfSwap) {
  std::vector<TraceSample> samples = {Sample(0, 1, 50), Sample(1, 1, 60), Sample(2, 1, 80),
                                      Sample(3, 1, 50)};
  samples[0].available = Bytes(1000);
  samples[1].available = Bytes(300);  // 700 + 10
  samples[2].available = Bytes(310);  // 690 + 30
  samples[3].available.reset();
  EXPECT_EQ(Summarise(Recorded(samples)).true_peak, Bytes(720));
}

TEST(Summary, AddsUpLoadsAndReleases) {
  TraceEvent load;
  load.kind = "load";
  load.name = "b";
  load.nbytes = Bytes(10);
  load.seconds = 1.5;
  TraceEvent reload = load;
  reload.kind = "reload";
  reload.name = "a";
  reload.note = "outside_stage";
  TraceEvent release = load;
  release.kind = "release";
  TraceEvent unsized = load;
  unsized.nbytes.reset();
  unsized.seconds.reset();
  unsized.note = "outside_stage";
  const TraceSummary summary =
      Summarise(Recorded({Sample(0, 1)}, {load, reload, release, unsized, unsized}));
  EXPECT_EQ(summary.loads.count, 4U);
  EXPECT_EQ(summary.loads.bytes, Bytes(20));
  EXPECT_EQ(summary.loads.seconds, 3);
  EXPECT_EQ(summary.releases.count, 1U);
  EXPECT_EQ(summary.releases.bytes, Bytes(10));
  EXPECT_THAT(summary.outside_stage, ElementsAre("a", "b"));
}

TEST(Summary, WhatNoSampleHasIsAbsent) {
  TraceSample bare;
  bare.t = 1;
  const Trace trace = Recorded({bare});
  const TraceSummary summary = Summarise(trace);
  EXPECT_FALSE(summary.peak_footprint);
  EXPECT_FALSE(summary.swap);
  EXPECT_FALSE(summary.min_level);
  const Json json = SummaryJson(trace, summary);
  EXPECT_TRUE(json.at("peak_footprint").is_null());
  EXPECT_EQ(json.at("swap"), Json::object());
  EXPECT_TRUE(json.at("min_level").is_null());
  EXPECT_FALSE(json.contains("swap_growth"));
  EXPECT_FALSE(json.contains("true_peak"));
}

TEST(Summary, HasTheReadingsThatFailed) {
  Trace trace = Recorded({Sample(0, 1)});
  trace.errors = {{1.5, "OSError: no such process"}};
  EXPECT_EQ(SummaryJson(trace, Summarise(trace)).at("errors").dump(),
            R"([{"t":1.5,"error":"OSError: no such process"}])");
}

TEST(Summary, TakesAWholeLevelAsAWholeNumberAndTimesToTheMillisecond) {
  const Trace trace = Recorded({Sample(0.1, 1, 0, 56), Sample(0.4, 1, 0, 56)}, {Stage(0.2, "a")});
  const Json json = SummaryJson(trace, Summarise(trace));
  EXPECT_EQ(json.at("min_level").dump(), "56");
  EXPECT_EQ(json.at("duration").dump(), "0.3");
  EXPECT_EQ(json.at("stages").at(1).dump(), R"({"stage":"a","seconds":0.2,"peak_footprint":1})");
}

}  // namespace
}  // namespace stageload::ctl
