// What stands on screens of every size.
#include "client/ctl/top_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/ctl/print_text.h"
#include "tests/client/ctl/top_frames.h"

namespace stageload::ctl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class TopLayout : public testing::Test {
 protected:
  TopLayout() {
    v1::GetVersionResponse daemon;
    daemon.set_version("0.2.0");
    daemon.set_pid(4711);
    daemon.set_start_time_ns(kNoonNs - 7500 * kSecondNs);
    model_.Connected(daemon);
  }

  // All that there is, with names that could break a layout.
  v1::Frame FullFrame(std::int64_t second = 30) {
    v1::Frame frame = FrameAt(second, 35, 2 * kGiB);
    v1::ClientSample& session =
        AddClient(frame, 7, "模型服务 🚀 with a very long name", 9 * kGiB, 7 * kGiB);
    session.set_kind(v1::JOB_KIND_SESSION);
    session.set_stage("transformer");
    session.set_pid(4242);
    session.set_processes(3);
    session.set_memory_bytes(13 * kGiB);
    session.set_start_time_ns(kNoonNs - 60 * kSecondNs);
    v1::LeaseSample& lease = *session.add_leases();
    lease.set_stage("transformer");
    lease.set_memory_bytes(8 * kGiB);
    lease.set_forced(true);
    v1::Gauge& gauge = *session.add_gauges();
    gauge.set_name("mps_driver_bytes");
    gauge.set_value(11.25 * kGiB);
    AddClient(frame, 8, "e\u0301\u202Evil\033[2J\n", 1 * kGiB, 9 * kGiB)
        .set_state(v1::JOB_STATE_STOPPING);
    v1::WaitingRequest& wanted = AddWaiting(frame, 7, "模型服务", "needs 6 GiB, 4 GiB free");
    wanted.set_lease_id(3);
    wanted.set_stage("vae");
    wanted.set_memory_bytes(6 * kGiB);
    AddWaiting(frame, 9, "eval", "35 % available, needs 40 %", v1::BLOCKER_KIND_LEVEL)
        .add_blockers()
        ->set_kind(v1::BLOCKER_KIND_HELD);
    frame.set_pending(1);  // beside the lease
    frame.set_queue_held("maintenance");
    *frame.add_events() = EventAt(29, "warned", 7, "charge 7 GiB is over 80 % of 8 GiB");
    return frame;
  }

  TopPicture At(std::size_t width, std::size_t height, bool utf8 = true) const {
    return Compose(model_, {.width = width,
                            .height = height,
                            .utf8 = utf8,
                            .now = absl::FromUnixNanos(kNoonNs + 31 * kSecondNs),
                            .zone = absl::UTCTimeZone()});
  }
  std::string Text(std::size_t width, std::size_t height, bool utf8 = true) const {
    std::string text;
    for (const PictureLine& line : At(width, height, utf8).lines) text += line.Text() + "\n";
    return text;
  }

  TopModel model_;
};

TEST_F(TopLayout, FitsEveryScreenFromOneByOneOn) {
  model_.Live(FullFrame());
  for (int round = 0; round < 4; ++round) {
    for (std::size_t width = 1; width <= 220; width += width < 50 ? 1 : 17) {
      for (std::size_t height = 1; height <= 60; height += height < 15 ? 1 : 5) {
        for (const bool utf8 : {true, false}) {
          const TopPicture picture = At(width, height, utf8);
          ASSERT_EQ(picture.lines.size(), height) << width << "x" << height;
          for (const PictureLine& line : picture.lines) {
            const std::string text = line.Text();
            ASSERT_LE(Columns(text), width) << width << "x" << height << ": " << text;
            ASSERT_EQ(text, Printable(text));
            ASSERT_EQ(text, utf8 ? text : Ascii(text));
          }
        }
      }
    }
    if (round == 0) model_.Press('G');  // a waiting row, with its blockers
    if (round == 1) model_.Press('?');
    if (round == 2) {
      model_.Press('?');
      model_.Live(FrameAt(40));  // nobody there
    }
  }
}

TEST_F(TopLayout, ShowsAllThatThereIsOnAWideScreen) {
  model_.Live(FullFrame());
  const std::string text = Text(200, 50);
  for (const char* part : {"stageloadd 0.2.0",
                           "pid 4711",
                           "up 2h05m",
                           "12:00:31",
                           "QUEUE HELD",
                           "maintenance",
                           "level 35 %",
                           "30 GiB free",
                           "swap 2 GiB",
                           "pressure NORMAL",
                           "2 active, 2 waiting",
                           "模型服务 🚀",
                           "RUNNING",
                           "STOPPING",
                           "9 GiB",
                           "13 GiB",
                           "88 %",
                           "7 GiB / 8 GiB",
                           "transformer",
                           "lease transformer 8 GiB (forced)",
                           "mps_driver_bytes 11.2 GiB",
                           "1m31s",
                           "lease vae, 6 GiB",
                           "MEMORY: needs 6 GiB, 4 GiB free",
                           "LEVEL: 35 % available, needs 40 %",
                           "(+1 more)",
                           "warned",
                           "charge 7 GiB is over 80 % of 8 GiB",
                           "q quit"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST_F(TopLayout, OfEightyColumnsHasLeasesAndGaugesUnderTheirClient) {
  model_.Live(FullFrame());
  EXPECT_THAT(Text(80, 24), AllOf(HasSubstr("lease transformer 8 GiB (forced), mps_driver_bytes"),
                                  HasSubstr("9 GiB"), HasSubstr("88 %"), HasSubstr("WAITING"),
                                  HasSubstr("MEMORY: needs 6 GiB"), HasSubstr("EVENTS")));
}

TEST_F(TopLayout, OfFortyByTenHasWhatMattersMost) {
  model_.Live(FullFrame());
  EXPECT_THAT(Text(40, 10),
              AllOf(HasSubstr("level 35 %"), HasSubstr("swap 2 GiB"), HasSubstr("9 GiB"),
                    HasSubstr("88 %"), HasSubstr("WAITING"), HasSubstr("q quit"),
                    HasSubstr("QUEUE HELD"), Not(HasSubstr("EVENTS"))));
}

TEST_F(TopLayout, TellsAllBlockersOfAChosenRow) {
  model_.Live(FullFrame());
  EXPECT_THAT(Text(120, 40), Not(HasSubstr("HELD: ")));
  model_.Press('G');
  EXPECT_THAT(Text(120, 40), HasSubstr("HELD: "));
}

TEST_F(TopLayout, HasTheGraphsOfThePast) {
  for (int second = 0; second < 300; ++second) model_.Past(PointOf(FrameAt(second - 299, 50)));
  model_.Live(FrameAt(1, 50));
  // 60 columns of 5 s at half the height of a row.
  EXPECT_THAT(Text(80, 20), HasSubstr("level 50 %          ▄▄▄▄▄▄▄▄▄▄"));
  EXPECT_THAT(Text(80, 20, false), HasSubstr("level 50 %          ::::::::::"));
}

TEST_F(TopLayout, TellsTheTimeUnderTheGraphs) {
  model_.Live(FrameAt(1, 50));
  // 100 columns of 3 s: a minute is 20 of them.
  const std::string gutter(20, ' ');
  const std::string minute = "-4m" + std::string(17, ' ');
  EXPECT_THAT(Text(120, 24), HasSubstr(gutter + "-5m" + std::string(17, ' ') + minute + "-3m"));
  EXPECT_THAT(Text(120, 24), HasSubstr("-1m" + std::string(14, ' ') + "now\n"));
  model_.Press('+');
  EXPECT_THAT(Text(80, 24),
              HasSubstr(gutter + "-60s           -45s           -30s           -15s        now\n"));
  // From edge to edge, however wide it is.
  EXPECT_THAT(Text(250, 40), HasSubstr(gutter + "-60s   "));
  model_.Press('-');
  EXPECT_THAT(Text(250, 40), HasSubstr(gutter + "-5m   "));
  model_.Press('+');
  for (int i = 0; i < 3; ++i) model_.Press('-');
  EXPECT_THAT(Text(80, 24), HasSubstr("-45m"));
}

TEST_F(TopLayout, WithoutUnicodeAWideNameMovesNothing) {
  v1::Frame frame = FrameAt(30, 35);
  AddClient(frame, 7, "模型服务", kGiB).set_pid(1);
  AddClient(frame, 8, "plain", kGiB).set_pid(2);
  model_.Live(frame);
  const std::vector<std::string> lines = absl::StrSplit(Text(100, 30, false), '\n');
  std::vector<std::size_t> footprints;
  for (const std::string& line : lines) {
    const bool is_client = absl::StrContains(line, "????") || absl::StrContains(line, "plain");
    if (is_client) footprints.push_back(line.find("1 GiB"));
  }
  ASSERT_EQ(footprints.size(), 2U) << Text(100, 30, false);
  EXPECT_EQ(footprints[0], footprints[1]) << Text(100, 30, false);
}

TEST_F(TopLayout, SaysHowFastSwapGrows) {
  for (int second = 0; second <= 5; ++second) {
    model_.Live(FrameAt(second, 50, kGiB + second * 12 * (1 << 20)));
  }
  EXPECT_THAT(Text(80, 24), HasSubstr("+12 MiB/s"));
  EXPECT_THAT(Text(80, 12), HasSubstr("+12 MiB/s"));
  for (int second = 6; second <= 20; ++second) model_.Live(FrameAt(second, 50, kGiB));
  EXPECT_THAT(Text(80, 24), HasSubstr("steady"));
}

TEST_F(TopLayout, ScrollsToTheChosenOneOfAThousandClients) {
  v1::Frame frame = FrameAt(0);
  for (int i = 1; i <= 1000; ++i) {
    AddClient(frame, i, absl::StrCat("c-", i, "."), (2000 - i) * kGiB / 1000);
  }
  model_.Live(frame);
  EXPECT_THAT(Text(100, 30), AllOf(HasSubstr("c-1."), Not(HasSubstr("c-500."))));
  model_.SetPage(At(100, 30).page);
  for (const Key key : {Key{kKeyEnd}, Key{kKeyHome}, Key{kKeyPageDown}, Key{kKeyDown}}) {
    model_.Press(key);
    const std::string name = std::string(model_.clients()[*model_.chosen()]->name());
    EXPECT_THAT(Text(100, 30), HasSubstr(name));
    EXPECT_THAT(Text(40, 10), HasSubstr(name));
    EXPECT_THAT(Text(40, 7), HasSubstr(name));
  }
}

TEST_F(TopLayout, AsksAndTellsInTheLastLine) {
  model_.Live(FullFrame());
  model_.Press('x');
  const std::vector<std::string> lines = absl::StrSplit(Text(60, 20), '\n');
  EXPECT_EQ(lines[19], "cancel job 7 (模型服务 🚀 with a very long name)? y/n");
  model_.Press('n');
  model_.Failed({Verb::kHold, 7}, "job 7 is RUNNING");
  EXPECT_THAT(Text(60, 20), HasSubstr("cannot hold job 7: job 7 is RUNNING"));
}

TEST_F(TopLayout, SaysThatTheDaemonIsGoneAndSinceWhen) {
  model_.Live(FullFrame());
  model_.Lost("daemon went away", absl::FromUnixNanos(kNoonNs + 19 * kSecondNs));
  EXPECT_THAT(Text(80, 24), HasSubstr("daemon went away, waiting 12s"));
}

TEST_F(TopLayout, OldFiguresAreNotShownAsThoseOfNow) {
  v1::Frame frame = FullFrame(19);  // 12 s ago
  frame.mutable_clients(0)->set_start_time_ns(kNoonNs - 3581 * kSecondNs);
  model_.Live(frame);
  const TopPicture picture = At(120, 40);
  const Span& first = picture.lines[0].spans()[0];
  EXPECT_EQ(first.text, "no sample for 12s: the daemon does not answer");
  EXPECT_EQ(first.style.ink, Ink::kYellow);
  EXPECT_THAT(picture.lines[0].Text(),
              AllOf(HasSubstr("pid 4711, up 2h05m"), HasSubstr("12:00:31")));
  EXPECT_THAT(Text(120, 40), AllOf(HasSubstr(" 1h00m "), HasSubstr(" 1m30s ")));
  EXPECT_THAT(Text(40, 10), HasSubstr("no sample for 12s: the daemon does not"));
  model_.Live(FullFrame());
  EXPECT_THAT(Text(120, 40), Not(HasSubstr("no sample")));
}

TEST_F(TopLayout, SaysInTheLastLineWhatHasNoAnswer) {
  model_.Live(FullFrame());
  const Action suspend = *model_.Press('z');
  model_.Asked(suspend, absl::FromUnixNanos(kNoonNs + 28 * kSecondNs));
  const std::vector<std::string> lines = absl::StrSplit(Text(60, 20), '\n');
  EXPECT_EQ(lines[19], "asked to suspend job 7: no answer yet");
}

TEST_F(TopLayout, SaysWhenNothingIsReallyStopped) {
  v1::GetVersionResponse daemon;
  daemon.set_dry_run(true);
  model_.Connected(daemon);
  EXPECT_THAT(Text(80, 24), AllOf(HasSubstr("DRY RUN"), HasSubstr("no sample yet")));
}

TEST_F(TopLayout, ShowsTheFirstBlockersOfADaemonThatTellsNoMore) {
  v1::Frame frame = FrameAt(0);
  frame.set_pending(4);
  v1::Blocker& blocker = *frame.add_blockers();
  blocker.set_kind(v1::BLOCKER_KIND_LEVEL);
  blocker.set_text("35 % available");
  model_.Live(frame);
  EXPECT_THAT(Text(80, 24), AllOf(HasSubstr("WAITING  4"), HasSubstr("LEVEL: 35 % available")));
}

TEST_F(TopLayout, WarnsOfAChargeByItsInk) {
  v1::Frame frame = FrameAt(0);
  AddClient(frame, 1, "over", 3 * kGiB, 9 * kGiB);
  AddClient(frame, 2, "near", 2 * kGiB, 7 * kGiB);
  AddClient(frame, 3, "low", 1 * kGiB, 1 * kGiB);
  AddClient(frame, 4, "chosen", 0);
  model_.Live(frame);
  model_.Press('G');  // that row is in reverse and has no inks
  std::vector<Ink> inks;
  for (const PictureLine& line : At(100, 24).lines) {
    for (const Span& span : line.spans()) {
      for (const char* percent : {"113 %", "88 %", "13 %"}) {
        if (span.text.find(percent) != std::string::npos) inks.push_back(span.style.ink);
      }
    }
  }
  // "113 %" holds "13 %", too.
  EXPECT_THAT(inks, testing::ElementsAre(Ink::kRed, Ink::kRed, Ink::kYellow, Ink::kGreen));
}

}  // namespace
}  // namespace stageload::ctl
