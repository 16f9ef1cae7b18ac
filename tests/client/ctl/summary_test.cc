// stageloadctl summary as a program, with no daemon to be had.
#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/client/ctl/program.h"
#include "tests/client/ctl/recordings.h"
#include "tests/fixture.h"

namespace stageload::ctl {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Summary : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    std::string path = folder_.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  Result Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "summary");
    return RunProgram(folder_.path() + "/home", std::move(arguments));
  }
  json RunJson(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const Result result = Run(std::move(arguments));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return json::parse(result.out, nullptr, false);
  }

  TemporaryFolder folder_;
};

const std::string kRun =
    "{\"type\":\"start\",\"utc\":\"2026-01-02T03:04:05+00:00\",\"interval\":0.5,\"mode\":\"a\"}\n"
    "{\"type\":\"sample\",\"t\":0,\"footprint\":1048576,\"swap_used\":0,\"level\":80}\n"
    "{\"type\":\"event\",\"kind\":\"stage\",\"stage\":\"encode\",\"t\":0.5}\n"
    "{\"type\":\"sample\",\"t\":1,\"footprint\":3145728,\"swap_used\":1024,\"level\":70}\n"
    "{\"type\":\"end\"}\n";
const std::string kOther =
    "{\"type\":\"sample\",\"t\":0,\"footprint\":1048576,\"swap_used\":0,\"level\":80}\n"
    "{\"type\":\"sample\",\"t\":1.5,\"footprint\":2097152,\"swap_used\":0,\"level\":90}\n"
    "{\"type\":\"end\"}\n";

TEST_F(Summary, PrintsJsonWithTheFieldsThatAreDocumented) {
  const std::string path = Write("run.jsonl", kRun);
  EXPECT_EQ(RunJson({path}),
            json::parse(R"({"meta":{"utc":"2026-01-02T03:04:05+00:00","interval":0.5,"mode":"a"},)"
                        R"("duration":1.0,"peak_footprint":3145728,)"
                        R"("swap":{"start":0,"peak":1024,"end":1024},"min_level":70,)"
                        R"("stages":[{"stage":"setup","seconds":0.5,"peak_footprint":1048576},)"
                        R"({"stage":"encode","seconds":0.5,"peak_footprint":3145728}],)"
                        R"("loads":{"count":0,"bytes":0,"seconds":0.0},)"
                        R"("releases":{"count":0,"bytes":0},"outside_stage":[],"errors":[],)"
                        R"("swap_growth":1024,)"
                        R"("samples":2,"ended":true,"notes":[],"trace":")" +
                        path + "\"}"));
}

TEST_F(Summary, OfMoreThanCanBeCountedStandsAtTheMost) {
  std::string run = kOther;
  for (int i = 0; i < 8; ++i) {
    run +=
        "{\"type\":\"event\",\"kind\":\"load\",\"name\":\"a\",\"nbytes\":1152921504606846976,\"t\":"
        "1}\n";
  }
  const std::string path = Write("run.jsonl", run);
  EXPECT_EQ(RunJson({path})["loads"]["bytes"], 9223372036854775807);
  const std::string table = Run({path}).out;
  EXPECT_THAT(table, HasSubstr("8 EiB"));
  EXPECT_THAT(table, testing::Not(HasSubstr("-8 EiB")));
}

TEST_F(Summary, OfSeveralIsAnArrayForProgramsAndDifferencesForPeople) {
  const std::string a = Write("a.trace.jsonl", kRun);
  const std::string b = Write("b.trace.jsonl", kOther);
  const json documents = RunJson({a, b});
  ASSERT_TRUE(documents.is_array());
  ASSERT_EQ(documents.size(), 2U);
  EXPECT_EQ(documents[1].at("trace"), b);

  const Result result = Run({a, b});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  const auto line = [&](const std::string& name) {
    const std::size_t at = result.out.find("\n" + name);
    return at == std::string::npos ? ""
                                   : result.out.substr(at + 1, result.out.find('\n', at + 1) - at);
  };
  EXPECT_THAT(result.out, testing::StartsWith(std::string("                ")));
  EXPECT_THAT(line("duration"), testing::MatchesRegex("duration +1s +1.5s +\\+0.5s\n"));
  EXPECT_THAT(line("peak footprint"),
              testing::MatchesRegex("peak footprint +3 MiB +2 MiB +-1 MiB\n"));
  EXPECT_THAT(line("swap at the start"),
              testing::MatchesRegex("swap at the start +0 B +0 B +same\n"));
  EXPECT_THAT(line("lowest level"), testing::MatchesRegex("lowest level +70 % +80 % +\\+10 %\n"));
  EXPECT_THAT(line("stage encode"), testing::MatchesRegex("stage encode +0.5s +- *\n"));
}

TEST_F(Summary, ReadsStdin) {
  const std::string path = Write("run.jsonl", kRun);
  const std::string home = folder_.path() + "/home";
  json of_file = RunJson({path});
  of_file["trace"] = "/dev/stdin";
  for (const std::string& script : {"\"$CTL\" summary - --json <'" + path + "'",
                                    "cat '" + path + "' | \"$CTL\" summary --json -"}) {
    const Result result = RunShell(home, script);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(json::parse(result.out, nullptr, false), of_file);
  }
  EXPECT_THAT(RunShell(home, "\"$CTL\" summary - '" + path + "' <'" + path + "'").out,
              HasSubstr("stdin"));
}

TEST_F(Summary, OfATraceThatWasCutSaysSo) {
  const Result result = Run({Write("cut.jsonl", kRun.substr(0, kRun.size() - 5))});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("cut.jsonl: line 5 is cut: left out"));
}

TEST_F(Summary, ShowsTheOthersWhenOneCannotBeRead) {
  const std::string path = Write("run.jsonl", kRun);
  const Result result = Run({path, folder_.path() + "/none", "--json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("/none"));
  EXPECT_EQ(json::parse(result.out, nullptr, false).size(), 1U);
  EXPECT_EQ(Run({folder_.path() + "/none"}).code, 1);
  EXPECT_EQ(Run({}).code, 2);
}

// The same counted by another program from the file itself.
std::string Jq(const std::string& filter, const std::string& path) {
  const std::string command = "jq -sc '" + filter + "' '" + path + "' 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char buffer[256];
  while (pipe != nullptr && std::fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
  if (pipe == nullptr || pclose(pipe) != 0) return "";
  return text;
}

TEST_F(Summary, GivesTheFiguresOfTheRecordingsAsJqCountsThem) {
  if (!HaveRecordings()) GTEST_SKIP() << "no recordings at " << STAGELOAD_RECORDINGS;
  const json offload = RunJson({Recording("offload-1")});
  EXPECT_EQ(offload.at("peak_footprint"), 19885923720);
  EXPECT_EQ(offload.at("swap").at("start"), 3672834048);
  EXPECT_EQ(offload.at("swap").at("peak"), 13958905856);
  EXPECT_EQ(offload.at("min_level"), 22);
  EXPECT_EQ(offload.at("meta").at("mode"), "offload");
  const json staged = RunJson({Recording("staged-1")});
  EXPECT_EQ(staged.at("min_level"), 56);
  EXPECT_EQ(staged.at("swap_growth"), 0);
  EXPECT_EQ(staged.at("loads").at("count"), 2);

  const std::string filter =
      "[.[]|select(.type==\"sample\")] | {peak_footprint:(map(.footprint)|max),"
      "swap:{start:.[0].swap_used,peak:(map(.swap_used)|max),end:.[-1].swap_used},"
      "min_level:(map(.level)|min),samples:length,duration:(.[-1].t-.[0].t)}";
  for (const char* name : {"offload-1", "staged-1", "first-attempt"}) {
    const std::string counted = Jq(filter, Recording(name));
    if (counted.empty()) GTEST_SKIP() << "no jq";
    const json summary = RunJson({Recording(name)});
    const json figures = json::parse(counted);
    for (const auto& [field, value] : figures.items()) {
      if (value.is_number_float()) {
        EXPECT_NEAR(summary.at(field).get<double>(), value.get<double>(), 0.001) << name << field;
      } else {
        EXPECT_EQ(summary.at(field), value) << name << " " << field;
      }
    }
  }
}

}  // namespace
}  // namespace stageload::ctl
