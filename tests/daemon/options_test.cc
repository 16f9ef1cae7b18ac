// How stageloadd is called, and what it says when that is wrong.
#include "daemon/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stageload {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

Options Read(const Words& words) {
  const auto asked = ReadOptions(words);
  if (const auto* answer = std::get_if<Answer>(&asked)) {
    ADD_FAILURE() << answer->err;
    return {};
  }
  return std::get<Options>(asked);
}

// What stderr is told, without the line that leads to the help.
std::string Refused(const Words& words) {
  const auto asked = ReadOptions(words);
  const auto* answer = std::get_if<Answer>(&asked);
  if (answer == nullptr) return "";
  EXPECT_EQ(answer->exit_code, 2);
  EXPECT_EQ(answer->out, "");
  constexpr char kHelp[] = "stageloadd: see stageloadd --help\n";
  EXPECT_THAT(answer->err, AllOf(StartsWith("stageloadd: "), ::testing::EndsWith(kHelp)));
  return answer->err.substr(12, answer->err.find('\n') - 12);
}

std::string Help() {
  const auto asked = ReadOptions({"--help"});
  const auto* answer = std::get_if<Answer>(&asked);
  if (answer == nullptr) return "";
  EXPECT_EQ(answer->exit_code, 0);
  EXPECT_EQ(answer->err, "");
  return answer->out;
}

TEST(DaemonOptions, AreReadWithTheirValues) {
  EXPECT_EQ(Read({}).action, Action::kServe);
  const Options options =
      Read({"--idle-exit", "10m", "--log-level=warn", "--log-json", "--log-stderr", "--dry-run"});
  EXPECT_EQ(options.idle_exit, absl::Minutes(10));
  EXPECT_EQ(options.overrides.log_level, LogLevel::kWarn);
  EXPECT_TRUE(options.overrides.log_json && options.overrides.dry_run && options.log_stderr);
  EXPECT_EQ(Read({"--service"}).started_by, rpc::StartedBy::kService);
  EXPECT_EQ(Read({"--autostarted"}).started_by, rpc::StartedBy::kAutostart);
  EXPECT_EQ(Read({"--probe"}).action, Action::kProbe);
  EXPECT_EQ(Read({"--config-template"}).action, Action::kPrintConfigTemplate);
  for (const auto& [word, action] : {std::pair("--check-config", Action::kCheckConfig),
                                     std::pair("--show-config", Action::kShowConfig)}) {
    const Options config = Read({"--config-file", "/x", word});
    EXPECT_EQ(config.action, action);
    EXPECT_EQ(config.config_file, "/x");
    EXPECT_EQ(Read({word}).config_file, "");
  }
}

TEST(DaemonOptions, OneThatThereIsNotIsNamedWithTheOneThatWasMeant) {
  EXPECT_EQ(Refused({"--log-levle", "info"}),
            "no such option of stageloadd: --log-levle; did you mean --log-level?");
  EXPECT_EQ(Refused({"-x"}), "no such option of stageloadd: -x");
  EXPECT_EQ(Refused({"start"}), "stageloadd takes no argument: start");
}

TEST(DaemonOptions, AValueThatIsMissingOrWrongIsNamedWithARightOne) {
  EXPECT_EQ(Refused({"--idle-exit"}), "--idle-exit: its value is missing (DUR)");
  EXPECT_THAT(Refused({"--idle-exit", "10x"}),
              AllOf(StartsWith("--idle-exit: duration \"10x\""), HasSubstr("30m")));
  EXPECT_EQ(Refused({"--idle-exit=1m", "--idle-exit=2m"}),
            "--idle-exit: given twice; it is taken once");
  EXPECT_EQ(
      Refused({"--log-level", "inof"}),
      "--log-level: \"inof\": needs \"trace\", \"debug\", \"info\", \"warn\" or \"error\"; did "
      "you mean info?");
}

TEST(DaemonOptions, WhatDoesNotGoTogetherIsSaid) {
  EXPECT_THAT(
      Refused({"--service", "--autostarted"}),
      AllOf(HasSubstr("--service"), HasSubstr("--autostarted"), HasSubstr(" do not go together")));
  EXPECT_THAT(
      Refused({"--probe", "--check-config"}),
      AllOf(HasSubstr("--probe"), HasSubstr("--check-config"), HasSubstr(" do not go together")));
}

// A daemon that is started would read another file than the one that was named.
TEST(DaemonOptions, AConfigFileIsNotPassedOverWhereNothingIsAskedOfIt) {
  for (const Words& words : std::vector<Words>{{"--config-file", "/x"},
                                               {"--config-file=/x", "--probe"},
                                               {"--dry-run", "--config-file=/x"}}) {
    EXPECT_THAT(Refused(words), StartsWith("--config-file: goes with --check-config or --show"));
  }
  EXPECT_EQ(Refused({"--check-config", "--config-file", ""}), "--config-file: \"\" names no file");
}

TEST(DaemonOptions, HelpNamesWhatEachTakesAndHasAnExample) {
  const std::string help = Help();
  EXPECT_THAT(help, AllOf(HasSubstr("Usage: stageloadd [OPTIONS]"), HasSubstr("--idle-exit DUR"),
                          HasSubstr("--log-level trace|debug|info|warn|error"),
                          HasSubstr("--config-file FILE"), HasSubstr("Example:\n"),
                          HasSubstr("Exit codes: ")));
  EXPECT_THAT(help, Not(HasSubstr("TEXT")));
}

}  // namespace
}  // namespace stageload
