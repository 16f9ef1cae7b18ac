// status, history and watch, before a daemon that the test plays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/ctl/environment.h"
#include "client/ctl/print_text.h"
#include "tests/client/ctl/frame_daemon.h"
#include "tests/client/ctl/program.h"
#include "tests/client/ctl/pseudo_terminal.h"
#include "tests/client/ctl/top_frames.h"

namespace stageload::ctl {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class TelemetryCommands : public testing::Test {
 protected:
  TelemetryCommands() {
    v1::Frame frame = FrameAt(0, 63, kGiB);
    frame.mutable_host()->set_gpu_wired_limit_bytes(40 * kGiB);
    v1::ClientSample& session = AddClient(frame, 7, "模型", 9 * kGiB, 7 * kGiB);
    session.set_stage("transformer");
    v1::LeaseSample& lease = *session.add_leases();
    lease.set_stage("transformer");
    lease.set_memory_bytes(8 * kGiB);
    v1::Gauge& gauge = *session.add_gauges();
    gauge.set_name("mps_driver_bytes");
    gauge.set_value(11.25 * kGiB);
    AddWaiting(frame, 9, "eval", "needs 6 GiB, 4 GiB free").add_blockers()->set_text("by a user");
    frame.mutable_waiting(0)->mutable_blockers(1)->set_kind(v1::BLOCKER_KIND_HELD);
    frame.set_pending(4);
    frame.set_queue_held("maintenance");
    daemon_.SetFrame(frame);
    daemon_.SetHistory({EventAt(5, "ended", 3, "fifth"), EventAt(4, "ended", 3, "fourth"),
                        EventAt(3, "warned", 3, "third"), EventAt(2, "admitted", 3, "second"),
                        EventAt(1, "submitted", 3, "first")});
  }
  Result Ctl(std::vector<std::string> arguments) {
    return RunProgram(daemon_.home(), std::move(arguments));
  }

  FrameDaemon daemon_;
};

TEST_F(TelemetryCommands, StatusShowsWhoHoldsWhatAndWhatWaitsForIt) {
  const Result result = Ctl({"status"});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* part :
       {"stageloadd 9.9.9, pid 4711", "level 63 %", "swap 1 GiB of 8 GiB",
        "gpu       may wire 40 GiB", "1 active, 4 waiting", "queue     held: maintenance",
        "7 GiB / 8 GiB", "transformer", "lease transformer 8 GiB, mps_driver_bytes 11.2 GiB",
        "MEMORY: needs 6 GiB, 4 GiB free", "HELD: by a user", "and 3 more", "newest events",
        "fifth", "first"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_THAT(result.out, Not(HasSubstr("\033"))) << "no colour when it is no terminal";
  EXPECT_LT(result.out.find("first"), result.out.find("fifth"));
}

TEST_F(TelemetryCommands, StatusCountsLeasesThatAreWaitedForBesideStarts) {
  v1::Frame frame = FrameAt(0, 63, kGiB);
  AddWaiting(frame, 7, "pipeline", "needs 6 GiB, 4 GiB free");
  frame.mutable_waiting(0)->set_lease_id(5);
  AddWaiting(frame, 9, "eval", "needs 6 GiB, 4 GiB free");
  frame.set_pending(1);
  daemon_.SetFrame(frame);
  EXPECT_THAT(Ctl({"status"}).out, HasSubstr(" active, 1 waiting and 1 lease, "));
  for (int i = 0; i < 19; ++i) {
    AddWaiting(frame, 7, "pipeline", "x");
    frame.mutable_waiting(frame.waiting_size() - 1)->set_lease_id(10 + i);
  }
  frame.mutable_waiting()->DeleteSubrange(1, 1);
  daemon_.SetFrame(frame);
  EXPECT_THAT(Ctl({"status"}).out, HasSubstr("1 waiting and 20 or more leases, "));
}

TEST_F(TelemetryCommands, StatusJsonHasEverythingThatTopHas) {
  const Result result = Ctl({"status", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json document = json::parse(result.out);
  EXPECT_EQ(document.at("daemon").at("pid"), 4711);
  EXPECT_EQ(document.at("socket"), daemon_.home() + "/stageloadd.sock");
  const json& frame = document.at("frame");
  EXPECT_EQ(frame.at("queue_held"), "maintenance");
  EXPECT_EQ(frame.at("host").at("gpu_wired_limit_bytes"), 40 * kGiB);
  const json& client = frame.at("clients").at(0);
  EXPECT_EQ(client.at("stage"), "transformer");
  EXPECT_EQ(client.at("leases").at(0).at("memory_bytes"), 8 * kGiB);
  EXPECT_EQ(client.at("gauges").at(0).at("name"), "mps_driver_bytes");
  EXPECT_EQ(frame.at("waiting").at(0).at("blockers").at(1).at("kind"), "HELD");
  ASSERT_EQ(document.at("events").size(), 5U);
  EXPECT_EQ(document.at("events").at(0).at("text"), "first");
}

std::vector<std::string> Texts(const std::string& json_lines) {
  std::vector<std::string> texts;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(json_lines, '\n', absl::SkipEmpty()))) {
    texts.push_back(json::parse(line).at("text"));
  }
  return texts;
}

TEST_F(TelemetryCommands, HistoryIsOldestFirst) {
  const Result result = Ctl({"history", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Texts(result.out), ElementsAre("first", "second", "third", "fourth", "fifth"));
  EXPECT_EQ(result.err, "");
  const std::string text = Ctl({"history"}).out;
  EXPECT_THAT(text, AllOf(HasSubstr("TIME"), HasSubstr("2026-11-30"), HasSubstr("admitted")));
  EXPECT_LT(text.find("first"), text.find("fifth"));
}

TEST_F(TelemetryCommands, HistoryEndsWithTheNewestSoMany) {
  EXPECT_THAT(Texts(Ctl({"history", "--json", "-n", "3"}).out),
              ElementsAre("third", "fourth", "fifth"));
  EXPECT_THAT(Texts(Ctl({"history", "--json", "-n", "5"}).out).size(), 5U);
  std::vector<v1::Event> many;
  for (int i = 60; i > 0; --i) many.push_back(EventAt(i, "ended", i, "x"));
  daemon_.SetHistory(many);
  const Result result = Ctl({"history", "--json"});
  EXPECT_EQ(Texts(result.out).size(), 50U);
  EXPECT_THAT(result.err, HasSubstr("-n 500"));
}

TEST_F(TelemetryCommands, HistoryAsksForWhatIsWanted) {
  const absl::Time before = absl::Now();
  EXPECT_EQ(Ctl({"history", "3", "--since", "2h", "--until", "2026-01-02 03:04:05Z"}).code, 2)
      << "the end is before the begin";
  EXPECT_EQ(Ctl({"history", "3", "--since", "2h", "--until", "30m", "--kind", "warned,ended",
                 "--kind", "gap"})
                .code,
            0);
  const std::vector<v1::ListHistoryRequest> asked = daemon_.HistoryAsked();
  ASSERT_FALSE(asked.empty());
  const v1::ListHistoryRequest& request = asked.front();
  EXPECT_EQ(request.job_id(), 3);
  EXPECT_NEAR(static_cast<double>(request.since_ns()),
              static_cast<double>(absl::ToUnixNanos(before - absl::Hours(2))), 60e9);
  EXPECT_NEAR(static_cast<double>(request.until_ns()),
              static_cast<double>(absl::ToUnixNanos(before - absl::Minutes(30))), 60e9);
  EXPECT_THAT(request.kinds(), ElementsAre("warned", "ended", "gap"));
}

TEST_F(TelemetryCommands, HistoryRefusesWhatMakesNoSense) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"history", "x"},
                                                    {"history", "-n", "0"},
                                                    {"history", "-n", "x"},
                                                    {"history", "--since", "yesterday"},
                                                    {"history", "--until", "2999-01-01"}}) {
    EXPECT_EQ(Ctl(arguments).code, 2) << arguments.back();
  }
  EXPECT_THAT(daemon_.HistoryAsked(), IsEmpty());
}

// Without what sets colours and the terminal's "\r".
std::vector<std::string> LinesAtTerminal(const std::string& home, unsigned short columns,
                                         const std::string& command) {
  PseudoTerminal terminal(columns, 24);
  std::vector<std::string> environment = OwnEnvironment();
  SetVariable(environment, "STAGELOAD_HOME", home);
  SetVariable(environment, "STAGELOAD_SOCKET", "");
  SetVariable(environment, "NO_COLOR", "1");
  terminal.Run({STAGELOADCTL, command}, environment);
  EXPECT_TRUE(terminal.Await([&] {
    return terminal.shown().find("last\r\n") != std::string::npos;
  })) << terminal.shown();
  EXPECT_EQ(terminal.Wait(), 0);
  std::string shown = terminal.shown();
  std::erase(shown, '\r');
  return absl::StrSplit(shown, '\n');
}

TEST_F(TelemetryCommands, StatusAndHistoryFitTerminalsOf40And80ColumnsWithAllOfTheirFigures) {
  const std::string long_text =
      "train after 5m00s, 63 % available, declares 12 GiB, was warned at 7.5 GiB of 8 GiB";
  daemon_.SetHistory({EventAt(2, "ended", 3, "last"), EventAt(1, "admitted", 3, long_text)});
  for (const unsigned short columns : std::vector<unsigned short>{40, 80}) {
    for (const std::string command : {"status", "history"}) {
      const std::vector<std::string> lines = LinesAtTerminal(daemon_.home(), columns, command);
      std::string words;  // as they stand one after another, whatever line they are on
      for (const std::string& line : lines) {
        EXPECT_LE(Columns(line), columns) << command << ": " << line;
        for (const std::string& word :
             std::vector<std::string>(absl::StrSplit(line, ' ', absl::SkipEmpty()))) {
          words += word + " ";
        }
      }
      EXPECT_THAT(words, Not(HasSubstr("…"))) << columns;
      EXPECT_THAT(words, HasSubstr(long_text + " ")) << columns;
      if (command == "history") continue;
      for (const char* part :
           {"level 63 %,", "swap 1 GiB of 8 GiB", "MEMORY: needs 6 GiB, 4 GiB free ", "FOOTPRINT",
            "lease transformer 8 GiB, mps_driver_bytes 11.2 GiB "}) {
        EXPECT_THAT(words, HasSubstr(part)) << columns;
      }
    }
  }
}

TEST_F(TelemetryCommands, WatchShowsStagesLeasesAndWhatWaits) {
  EXPECT_THAT(Ctl({"watch", "-n", "1"}).out,
              AllOf(HasSubstr("queue held: maintenance"),
                    HasSubstr("| 7 RUNNING 9 GiB charge 7 GiB stage transformer lease transformer "
                              "8 GiB, mps_driver_bytes 11.2 GiB"),
                    HasSubstr("| 9 waits: start: MEMORY: needs 6 GiB, 4 GiB free")));
}

TEST_F(TelemetryCommands, WatchBeginsWithTheFramesAfterTheOneThatIsNamed) {
  v1::Frame past = FrameAt(0, 12);
  daemon_.SetPast({past});
  EXPECT_THAT(Ctl({"watch", "-n", "1", "--since", "0"}).out, HasSubstr("level 12 %"));
  EXPECT_EQ(daemon_.WatchesAsked().back().since_sequence(), 0);
  EXPECT_TRUE(daemon_.WatchesAsked().back().has_since_sequence());
  EXPECT_THAT(Ctl({"watch", "-n", "1"}).out, HasSubstr("level 63 %"));
  EXPECT_FALSE(daemon_.WatchesAsked().back().has_since_sequence());
  EXPECT_EQ(Ctl({"watch", "--since", "-1"}).code, 2);
  EXPECT_EQ(Ctl({"watch", "--since", "x"}).code, 2);
  for (const std::string option : {"--since", "--interval", "-n"}) {
    EXPECT_EQ(Ctl({"watch", option, ""}).code, 2) << option;
  }
}

}  // namespace
}  // namespace stageload::ctl
