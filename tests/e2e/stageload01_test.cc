// The command line of stageload 0.1: a script that was written for it goes on working. What differs
// on purpose is in docs/coming-from.md.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Stageload01 : public DaemonTest {
 protected:
  // Under the name that it had.
  Result Stageload(const Arguments& arguments) {
    CtlOptions options;
    options.program = std::filesystem::path(kCtlProgram).parent_path() / "stageload";
    return Ctl(arguments, options);
  }
  // A guarded `true`, with room whatever this machine does.
  Result Guard(const Arguments& options) {
    return Stageload(Arguments{"guard"} + options + Arguments{"--wait-free", "0", "--", "true"});
  }
  std::string Trace() const {
    WriteFile(PathOf("run.jsonl"), R"({"type":"start","utc":"2026-10-06T10:38:59+00:00","mode":"x"}
{"type":"sample","t":0.1,"footprint":10,"swap_used":5,"level":50}
{"type":"event","t":0.4,"kind":"stage","stage":"encode"}
{"type":"sample","t":0.45,"footprint":90,"swap_used":5,"level":50}
{"type":"event","t":0.55,"kind":"release","name":"m","nbytes":3,"stage":"encode"}
{"type":"sample","t":1.0,"footprint":20,"swap_used":8,"level":40}
{"type":"event","t":1.1,"kind":"stage","stage":"encode"}
{"type":"error","t":1.2,"error":"OSError: read"}
{"type":"event","t":1.3,"kind":"load","name":"m","nbytes":4,"seconds":0.25,"note":"outside_stage"}
{"type":"sample","t":1.5,"footprint":25,"swap_used":6,"level":40}
{"type":"event","t":1.6,"kind":"stage","stage":"decode"}
{"type":"sample","t":2.0,"footprint":15,"swap_used":6,"level":45}
{"type":"end"}
)");
    return PathOf("run.jsonl");
  }
};

TEST_F(Stageload01, GuardTakesEveryOptionThatItHadWithTheValuesThatItTook) {
  StartDaemon();
  const std::vector<Arguments> lines = {
      {"--swap-budget", "8G"},
      {"--swap-budget", " 1.5 gib "},
      {"--swap-budget", "8589934592"},
      {"--swap-budget", "1G", "--swap-limit", "64T"},
      {"--kill-free", "0"},
      {"--busy", "no such program as this", "--quiet-for", "0s"},
      {"--busy", R"((?i)No Such\s+program \d+)", "--busy", R"(\bnone\.py\b)", "--quiet-for=0"},
      {"--quiet-for", "1m"},
      {"--start-timeout", "30M"},
      {"--start-timeout", "0"},
      {"--poll", "5s"},
      {"--poll=500MS", "--start-timeout", "1.5 h"},
  };
  for (const Arguments& line : lines) {
    const Result result = Guard(line);
    EXPECT_EQ(result.exit_code, 0) << testing::PrintToString(line) << result;
  }
}

TEST_F(Stageload01, GuardRefusesWithTwoWhatItRefused) {
  StartDaemon();
  const std::vector<Arguments> lines = {
      {"--wait-free", "101"},     {"--kill-free", "-1"}, {"--swap-budget", "8X"},
      {"--swap-limit", "much"},   {"--busy", "("},       {"--quiet-for", "soon"},
      {"--start-timeout", "1 y"}, {"--poll", "0"},       {"--poll", "often"}};
  for (const Arguments& line : lines) {
    const Result result = Stageload(Arguments{"guard"} + line + Arguments{"--", "true"});
    EXPECT_EQ(result.exit_code, 2) << testing::PrintToString(line) << result;
    EXPECT_THAT(result.err, HasSubstr(line.front())) << result;
  }
  EXPECT_EQ(Stageload({"guard", "--wait-free", "40"}).exit_code, 2);
  EXPECT_EQ(Stageload({"guard", "--"}).exit_code, 2);
}

TEST_F(Stageload01, GuardExitsAsItDid) {
  StartDaemon();
  const auto code = [&](const Arguments& command) {
    return Stageload(Arguments{"guard", "--wait-free", "0", "--poll", "1s", "--"} + command)
        .exit_code;
  };
  EXPECT_EQ(code({"sh", "-c", "exit 7"}), 7);
  EXPECT_EQ(code({"sh", "-c", "kill -TERM $$"}), 143);
  EXPECT_EQ(code({"no-such-program"}), 127);
  WriteFile(PathOf("text"), "no program\n");
  EXPECT_EQ(code({PathOf("text")}), 127);
  // The command without "--" before it.
  EXPECT_EQ(Stageload({"guard", "--wait-free", "0", "sh", "-c", "exit 6"}).exit_code, 6);

  const Arguments wait = {"guard", "--wait-free", "100", "--start-timeout", "1s"};
  const Result no_room = Stageload(wait + Arguments{"--", "true"});
  EXPECT_EQ(no_room.exit_code, 4) << no_room;
  EXPECT_THAT(no_room.err, HasSubstr("needs 100 %"));
}

TEST_F(Stageload01, GuardNeedsSwapAndItsBudgetToFitUnderTheLimit) {
  StartDaemon();
  const Result fits = Guard({"--swap-budget", "1G", "--swap-limit", "8T"});
  EXPECT_EQ(fits.exit_code, 0) << fits;
  const Result never = Guard({"--swap-budget", "2G", "--swap-limit", "1G"});
  EXPECT_EQ(never.exit_code, 2) << never;
  EXPECT_THAT(never.err, AllOf(HasSubstr("--swap-limit"), HasSubstr("never fits")));
}

TEST_F(Stageload01, GuardIsStoppedWithThreeWhenTooLittleMemoryIsAvailable) {
  StartDaemon();
  const Result result =
      Stageload({"guard", "--wait-free", "0", "--kill-free", "100", "--", "sleep", "60"});
  EXPECT_EQ(result.exit_code, 3) << result;
  EXPECT_THAT(result.err, HasSubstr("stopped: "));
}

TEST_F(Stageload01, SummaryOfOneTracePrintsItsFieldsInItsOrderAsJson) {
  const Result result = Stageload({"summary", Trace()});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.err, "");
  const auto summary = nlohmann::ordered_json::parse(result.out, nullptr, false);
  ASSERT_TRUE(summary.is_object()) << result;
  // What 0.1.1 prints of the same file.
  const auto expected = nlohmann::ordered_json::parse(
      R"({"meta":{"utc":"2026-10-06T10:38:59+00:00","mode":"x"},"duration":1.9,"peak_footprint":90,
      "swap":{"start":5,"peak":8,"end":6},"min_level":40,
      "stages":[{"stage":"setup","seconds":0.55,"peak_footprint":90},
                {"stage":"encode","seconds":1.05,"peak_footprint":25},
                {"stage":"decode","seconds":0.4,"peak_footprint":15}],
      "loads":{"count":1,"bytes":4,"seconds":0.25},"releases":{"count":1,"bytes":3},
      "outside_stage":["m"],"errors":[{"t":1.2,"error":"OSError: read"}]})");
  auto at = summary.begin();
  for (const auto& [field, value] : expected.items()) {
    ASSERT_NE(at, summary.end()) << field;
    EXPECT_EQ(at.key(), field);
    EXPECT_EQ(at.value(), value) << field;
    ++at;
  }
}

TEST_F(Stageload01, SummaryIsATableUnderOurNameAndForSeveralTraces) {
  EXPECT_THAT(Ctl({"summary", Trace()}).out, HasSubstr("peak footprint"));
  EXPECT_THAT(Stageload({"summary", Trace(), Trace()}).out, HasSubstr("DIFFERENCE"));
}

TEST_F(Stageload01, SummaryExitsAsItDid) {
  EXPECT_EQ(Stageload({"summary"}).exit_code, 2);
  EXPECT_EQ(Stageload({"summary", PathOf("none")}).exit_code, 1);
  WriteFile(PathOf("broken"), "{\"type\":\"start\"}\nno trace\n{\"type\":\"end\"}\n");
  EXPECT_EQ(Stageload({"summary", PathOf("broken")}).exit_code, 1);
}

}  // namespace
}  // namespace stageload::e2e
