// stageloadctl simulate as a program, with no daemon to be had.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/units.h"
#include "tests/client/ctl/program.h"
#include "tests/client/ctl/recordings.h"
#include "tests/fixture.h"

namespace stageload::ctl {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Simulate : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    std::string path = folder_.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  Result Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "simulate");
    return RunProgram(home(), std::move(arguments));
  }
  json RunJson(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const Result result = Run(std::move(arguments));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    const json document = json::parse(result.out, nullptr, false);
    EXPECT_TRUE(document.is_object() && document.contains("traces")) << result.out;
    return document.is_object() ? document.value("traces", json::array()) : json::array();
  }
  std::string home() const { return folder_.path() + "/home"; }

  TemporaryFolder folder_;
};

std::string Sample(const std::string& t, std::int64_t swap, const std::string& level = "80") {
  return "{\"type\":\"sample\",\"t\":" + t +
         ",\"footprint\":1000,\"swap_used\":" + std::to_string(swap) + ",\"level\":" + level +
         "}\n";
}
const std::string kStart =
    "{\"type\":\"start\",\"utc\":\"2026-01-02T03:04:05+00:00\",\"interval\":0.5}\n";
const std::string kEnd = "{\"type\":\"end\"}\n";
// Past a budget of 1000 bytes at t = 1.25, to 2500 past it at t = 3.
const std::string kGrowing =
    kStart + Sample("0.25", 500) + Sample("1.25", 1501, "70.5") + Sample("3.0", 4000) + kEnd;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// The last decision and the overshoot of a JSON run.
std::string Ending(const json& run) {
  const json& last = run.at("decisions").back();
  return last.at("action").get<std::string>() + " " + last.at("t").dump() + " " +
         last.at("reason").get<std::string>() + " overshoot " + run.at("overshoot_bytes").dump();
}

TEST_F(Simulate, PrintsJsonWithTheFieldsThatAreDocumented) {
  const std::string path = Write("grow.jsonl", kGrowing);
  const json runs = RunJson({path, "--swap-budget", "1000"});
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].at("trace"), path);
  EXPECT_EQ(runs[0].at("overshoot_bytes"), 2500);
  EXPECT_EQ(runs[0].at("notes"), json::array());
  EXPECT_EQ(runs[0].at("policy").at("swap_budget_bytes"), 1000);
  EXPECT_EQ(
      runs[0].at("decisions").dump(),
      R"([{"action":"admit","charge":0,"level":80,"reason":"","swap_used":500,"t":0.25},)"
      R"({"action":"stop","charge":1001,"level":70.5,"reason":"SWAP_BUDGET","swap_used":1501,"t":1.25}])");
}

TEST_F(Simulate, GivesTheFiguresOfTheRecordings) {
  if (!HaveRecordings()) GTEST_SKIP() << "no recordings at " << STAGELOAD_RECORDINGS;
  const json runs = RunJson({Recording("offload-1"), "--swap-budget", "8G"});
  const json& stop = runs.at(0).at("decisions").back();
  EXPECT_EQ(stop.at("action"), "stop");
  EXPECT_EQ(stop.at("reason"), "SWAP_BUDGET");
  EXPECT_EQ(stop.at("t").dump(), "103.455");
  EXPECT_EQ(stop.at("swap_used"), 12474056704);
  EXPECT_EQ(stop.at("charge"), 8801222656);
  EXPECT_EQ(runs.at(0).at("overshoot_bytes"), 1696137216);
  const json swept =
      RunJson({Recording("offload-1"), Recording("staged-1"), "--sweep", "swap-budget=4G:12G:4G"});
  ASSERT_EQ(swept.size(), 6U);
  EXPECT_EQ(Ending(swept[0]), "stop 101.423 SWAP_BUDGET overshoot 5991104512");
  EXPECT_EQ(Ending(swept[1]), "stop 103.455 SWAP_BUDGET overshoot 1696137216");
  EXPECT_EQ(swept[2].at("policy").at("swap_budget_bytes"), GiB(12).count());
  EXPECT_EQ(swept[2].at("overshoot_bytes"), 0);
  EXPECT_EQ(Ending(swept[3]), "admit 0.0  overshoot 0");
}

TEST_F(Simulate, NeedsNoDaemonAndLeavesNothingBehind) {
  const Result result = Run({Write("grow.jsonl", kGrowing)});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_FALSE(std::filesystem::exists(home()));
}

TEST_F(Simulate, ShowsThePolicysDecisionsOfOneTrace) {
  const Result result = Run({Write("grow.jsonl", kGrowing), "--swap-budget", "1000"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out,
            "   T  ACTION  REASON        LEVEL  SWAP USED  CHARGE\n"
            "0.25  admit                  80 %      500 B     0 B\n"
            "1.25  stop    SWAP_BUDGET  70.5 %   1.47 KiB  1001 B\n"
            "Stopped. From then on swap went 2.44 KiB past the budget of 1000 B.\n");
  EXPECT_EQ(result.err, "");
}

TEST_F(Simulate, ShowsALineForEachOfSeveralTraces) {
  const std::string calm = Write("calm.jsonl", kStart + Sample("0.5", 1) + kEnd);
  const Result result = Run({Write("grow.jsonl", kGrowing), calm, "--swap-budget", "1000"});
  EXPECT_EQ(result.code, 0);
  const std::vector<std::string> lines = Lines(result.out);
  ASSERT_EQ(lines.size(), 3U) << result.out;
  EXPECT_THAT(lines[0], StartsWith("TRACE "));
  EXPECT_THAT(lines[1], AllOf(HasSubstr("grow.jsonl "), HasSubstr(" 1.25 "),
                              HasSubstr("SWAP_BUDGET"), HasSubstr("2.44 KiB")));
  EXPECT_THAT(lines[2], AllOf(HasSubstr("calm.jsonl "), Not(HasSubstr("SWAP_BUDGET"))));
  EXPECT_EQ(lines[0].size(), lines[1].size()) << "not aligned";
}

TEST_F(Simulate, SweepsAnOptionWithALineForEachValue) {
  const std::string path = Write("grow.jsonl", kGrowing);
  const Result result = Run({path, "--sweep", "swap-budget=1000:4000:1000"});
  EXPECT_EQ(result.code, 0) << result.err;
  const std::vector<std::string> lines = Lines(result.out);
  ASSERT_EQ(lines.size(), 5U) << result.out;
  EXPECT_THAT(lines[0], StartsWith("SWAP BUDGET "));
  EXPECT_THAT(lines[1], HasSubstr(" 1.25 "));
  EXPECT_THAT(lines[2], HasSubstr(" 3.0 "));
  EXPECT_THAT(lines[3], HasSubstr(" 3.0 "));
  EXPECT_THAT(lines[4], Not(HasSubstr("SWAP_BUDGET")));
  const json runs = RunJson({path, path, "--sweep", "kill-free=5:25:5", "--swap-budget", "1000"});
  ASSERT_EQ(runs.size(), 10U);
  EXPECT_EQ(runs[0].at("policy").at("kill_free_percent"), 5);
  EXPECT_EQ(runs[4].at("policy").at("kill_free_percent"), 25);
  EXPECT_EQ(runs[9].at("policy").at("swap_budget_bytes"), 1000);
  EXPECT_EQ(RunJson({path, "--sweep", "wait-free=79.8:80.2:0.1"}).size(), 5U);
  EXPECT_EQ(RunJson({path, "--sweep", "swap-limit=9G:10G:3G"}).size(), 1U);
}

TEST_F(Simulate, NamesTheOptionThatWasMeantToBeSwept) {
  const Result result =
      Run({Write("grow.jsonl", kGrowing), "--sweep", "swap-buget=1000:4000:1000"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("kill-free; did you mean swap-budget?; as in --sweep "));
}

TEST_F(Simulate, SaysOfASweptValueThatItWouldBeRefusedOrNeverAdmitted) {
  const std::string path = Write("grow.jsonl", kGrowing);
  const Result result = Run({path, "--swap-budget", "600", "--sweep", "swap-limit=500:2000:500"});
  EXPECT_EQ(result.code, 0);
  const std::vector<std::string> lines = Lines(result.out);
  ASSERT_EQ(lines.size(), 5U) << result.out;
  EXPECT_THAT(lines[1], HasSubstr("never"));
  EXPECT_THAT(result.err, AllOf(HasSubstr("grow.jsonl (swap-limit 500 B): refused: "),
                                HasSubstr("grow.jsonl (swap-limit 1000 B): never admitted")));
  EXPECT_THAT(lines[4], HasSubstr("1.25"));
  EXPECT_EQ(Run({path, "--swap-budget", "600", "--swap-limit", "500"}).code, 2);
}

TEST_F(Simulate, DoesOverTheBudgetWhatItIsAskedTo) {
  const std::string path = Write("grow.jsonl", kGrowing);
  const std::vector<std::string> budget = {path, "--swap-budget", "1000", "--on-over-budget"};
  const auto with = [&](const std::string& what) {
    std::vector<std::string> arguments = budget;
    arguments.push_back(what);
    return arguments;
  };
  const json suspended = RunJson(with("suspend"));
  EXPECT_EQ(Ending(suspended[0]), "suspend 1.25 SWAP_BUDGET overshoot 2500");
  EXPECT_EQ(suspended[0].at("policy").at("on_over_budget"), "SUSPEND");
  EXPECT_EQ(Ending(RunJson(with("warn"))[0]), "warn 1.25 SWAP_BUDGET overshoot 2500");
  EXPECT_EQ(Ending(RunJson(with("stop"))[0]), "stop 1.25 SWAP_BUDGET overshoot 2500");
  EXPECT_THAT(Run(with("suspend")).out,
              AllOf(HasSubstr("1.25  suspend"), HasSubstr("Suspended, not stopped. ")));
  const Result table = Run({path, path, "--swap-budget", "1000", "--on-over-budget", "suspend"});
  EXPECT_THAT(table.out, AllOf(HasSubstr(" SUSPENDED "), HasSubstr("SWAP_BUDGET")));
  const Result wrong = Run(with("pause"));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("\"pause\": write stop, suspend or warn"));
}

TEST_F(Simulate, ReadsWhatIsWholeOfATraceAndSaysWhatIsNot) {
  const std::string cut = Write("cut.jsonl", kGrowing.substr(0, kGrowing.size() - kEnd.size() - 9));
  const Result result = Run({cut, "--swap-budget", "1000"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("1.25  stop"));
  EXPECT_EQ(result.err, "stageload: " + cut + ": line 4 is cut: left out\n" + "stageload: " + cut +
                            ": the trace ends without \"end\"\n");
  EXPECT_EQ(RunJson({cut})[0].at("notes"),
            json::array({"line 4 is cut: left out", "the trace ends without \"end\""}));

  const json shuffled =
      RunJson({Write("shuffled.jsonl", kEnd + Sample("3.0", 4000) + "\r\n" + Sample("1.25", 1501) +
                                           "\n" + kStart + Sample("0.25", 500)),
               "--swap-budget", "1000"});
  EXPECT_EQ(Ending(shuffled[0]), "stop 1.25 SWAP_BUDGET overshoot 2500");

  const json gap =
      RunJson({Write("gap.jsonl", kStart + Sample("0.5", 500) + Sample("49.5", 1600) + kEnd),
               "--swap-budget", "1000"});
  EXPECT_EQ(Ending(gap[0]), "stop 49.5 SWAP_BUDGET overshoot 100");
  EXPECT_EQ(gap[0].at("notes"), json::array({"no sample for 49s after t = 0.5"}));

  const json bare =
      RunJson({Write("bare.jsonl", kStart +
                                       "{\"type\":\"sample\",\"t\":0.5,\"level\":50}\n"
                                       "{\"type\":\"sample\",\"t\":1.0,\"swap_used\":5}\n"
                                       "{\"type\":\"gpu\",\"t\":1.0,\"x\":{\"y\":[1]}}\n"
                                       "{\"type\":\"sample\",\"t\":1.5,\"swap_used\":2000}\n" +
                                       kEnd),
               "--swap-budget", "1000"});
  EXPECT_EQ(Ending(bare[0]), "stop 1.5 SWAP_BUDGET overshoot 995");
  EXPECT_EQ(bare[0].at("decisions")[0].at("swap_used"), nullptr);
  EXPECT_EQ(bare[0].at("decisions")[1].at("level"), nullptr);
}

TEST_F(Simulate, SaysWhichTraceCannotBeReadAndWhereAndShowsTheOthers) {
  const std::string good = Write("good.jsonl", kGrowing);
  const std::string text = Write("text.jsonl", kGrowing + "rubbish\n" + kEnd);
  const std::string binary = Write("binary.jsonl", std::string("\x89PNG\r\n\x1a\n\0\0", 10));
  const std::string large = Write(
      "large.jsonl", "{\"type\":\"sample\",\"t\":1,\"swap_used\":99999999999999999999}\n" + kEnd);
  const std::string empty = Write("empty.jsonl", "");
  const std::string huge = Write("huge.jsonl", kStart + std::string(2 << 20, ' ') + "\n" + kEnd);
  const Result result = Run({text, good, binary, empty, large, huge, folder_.path() + "/none",
                             folder_.path(), "--swap-budget", "1000", "--json"});
  EXPECT_EQ(result.code, 1);
  const std::vector<std::string> errors = Lines(result.err);
  ASSERT_EQ(errors.size(), 7U) << result.err;
  EXPECT_THAT(errors[0], StartsWith("stageload: " + text + ":6: no JSON"));
  EXPECT_THAT(errors[1], StartsWith("stageload: " + binary + ":1: binary data"));
  EXPECT_THAT(errors[2], StartsWith("stageload: " + empty + ": the file is empty"));
  EXPECT_THAT(errors[3], AllOf(StartsWith("stageload: " + large + ":1: \"swap_used\" is "),
                               HasSubstr("more than any machine has")));
  EXPECT_THAT(errors[4], StartsWith("stageload: " + huge + ":2: longer than 1 MiB"));
  EXPECT_THAT(errors[5], HasSubstr("/none: No such file"));
  EXPECT_THAT(errors[6], HasSubstr("Is a directory"));
  const json document = json::parse(result.out, nullptr, false);
  ASSERT_TRUE(document.is_object()) << result.out;
  ASSERT_EQ(document.at("traces").size(), 1U);
  EXPECT_EQ(document.at("traces")[0].at("trace"), good);

  const Result none = Run({empty, "--json"});
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.out, "");
}

TEST_F(Simulate, SaysWhatIsWrongWithAnOptionAndShowsARightOne) {
  const std::string path = Write("grow.jsonl", kGrowing);
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.push_back(path);
    const Result result = Run(arguments);
    EXPECT_EQ(result.code, 2) << testing::PrintToString(arguments);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(error({"--sweep", "swapbudget=2G:12G:2G"}),
              AllOf(HasSubstr("\"swapbudget\""), HasSubstr("swap-budget=2G:12G:2G")));
  EXPECT_THAT(error({"--sweep", "grace=1:2:1"}), HasSubstr("wait-free and kill-free"));
  EXPECT_THAT(error({"--sweep", "kill-free"}),
              AllOf(HasSubstr("NAME=FROM:TO:STEP"), HasSubstr("kill-free=5:25:5")));
  EXPECT_THAT(error({"--sweep", "swap-limit=2G:12G"}), HasSubstr("swap-limit=8G:32G:4G"));
  EXPECT_THAT(error({"--sweep", "swap-limit=2G:12G:2G:1"}), HasSubstr("NAME=FROM:TO:STEP"));
  EXPECT_THAT(error({"--sweep", "swap-budget=2G:12G:0G"}),
              AllOf(HasSubstr("the step is 0G"), HasSubstr("swap-budget=2G:12G:2G")));
  EXPECT_THAT(error({"--sweep", "swap-budget=2G:12G:-2G"}),
              AllOf(HasSubstr("-2G"), HasSubstr("must not be negative")));
  EXPECT_THAT(error({"--sweep", "swap-budget=12G:2G:2G"}), HasSubstr("12G is above 2G"));
  EXPECT_THAT(error({"--sweep", "swap-budget=0:12G:1M"}),
              AllOf(HasSubstr("12289 values"), HasSubstr("limit is 1000")));
  EXPECT_THAT(error({"--sweep", "wait-free=0:100:0.000001"}), HasSubstr("100000001 values"));
  EXPECT_THAT(error({"--sweep", "wait-free=0:101:1"}), HasSubstr("above 100"));
  EXPECT_THAT(error({"--sweep", "swap-budget=2G:4G:2X"}), HasSubstr("unknown unit"));
  EXPECT_THAT(error({"--sweep", "kill-free=5:9:1", "--kill-free", "10"}), HasSubstr("both set it"));
  EXPECT_THAT(error({"--swap-budget", "8X"}), HasSubstr("--swap-budget: "));
  EXPECT_EQ(Run({}).code, 2) << "no trace";
}

}  // namespace
}  // namespace stageload::ctl
