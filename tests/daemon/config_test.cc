// The config file: what it can say, and how it is refused.
#include "daemon/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/fixture.h"

namespace stageload {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class ConfigTest : public testing::Test {
 protected:
  absl::StatusOr<DaemonConfig> Load(const std::string& text) {
    std::ofstream(folder_ + "/config.toml") << text;
    return LoadConfig(folder_ + "/config.toml");
  }
  std::string ErrorOf(const std::string& text) {
    const auto config = Load(text);
    EXPECT_TRUE(absl::IsInvalidArgument(config.status())) << text;
    return std::string(config.status().message());
  }

  const TemporaryFolder temporary_;
  const std::string& folder_ = temporary_.path();
};

TEST_F(ConfigTest, NoFileAndAnEmptyFileGiveTheDefaults) {
  const auto none = LoadConfig(folder_ + "/config.toml");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->core.reserve_fraction, 0.10);
  EXPECT_FALSE(none->core.memory_pool);
  EXPECT_TRUE(Load("").ok());
  EXPECT_TRUE(Load("# nothing\n").ok());
}

TEST_F(ConfigTest, ReadsEveryKey) {
  const auto config = Load(
      "memory_pool = \"2.5G\"\nreserve = 1073741824\nreserve_percent = 12.5\n"
      "max_pressure = \"warn\"\nmax_queued = 7\nmax_sessions = 8\nmax_bypass = 3\nsettle = \"20s\"\n"
      "keep_history = \"7d\"\non_end = \"say done\"\n"
      "anonymous_credit = 0.25\ngroup_limits = { gpu = 1, \"the net\" = 3 }\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->core.memory_pool, MiB(2560));
  EXPECT_EQ(config->core.reserve, GiB(1));
  EXPECT_EQ(config->core.reserve_fraction, 0.125);
  EXPECT_EQ(config->core.max_pressure, core::Pressure::kWarn);
  EXPECT_EQ(config->core.max_queued, 7);
  EXPECT_EQ(config->core.max_sessions, 8);
  EXPECT_EQ(config->core.max_bypass, 3);
  EXPECT_EQ(config->core.settle, absl::Seconds(20));
  EXPECT_EQ(config->core.anonymous_credit, 0.25);
  EXPECT_THAT(config->core.group_limits, ElementsAre(Pair("gpu", 1), Pair("the net", 3)));
  EXPECT_EQ(config->keep_history, absl::Hours(7 * 24));
  EXPECT_EQ(config->on_end, "say done");
  EXPECT_FALSE(config->core.dry_run) << "only a flag says so";
}

TEST_F(ConfigTest, WhatIsNotSaidKeepsItsDefault) {
  const auto config = Load("max_queued = 7\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->core.max_bypass, 5);
  EXPECT_EQ(config->core.settle, absl::Seconds(15));
  EXPECT_EQ(config->core.anonymous_credit, 0);
  EXPECT_THAT(config->core.group_limits, IsEmpty());
}

TEST_F(ConfigTest, TheEndsOfEachRangeAreTaken) {
  const auto least = Load(
      "max_bypass = 0\nsettle = \"0s\"\nanonymous_credit = 0\ngroup_limits = { a = 1 }\n"
      "reserve_percent = 0\nmax_queued = 1\n");
  ASSERT_TRUE(least.ok()) << least.status();
  EXPECT_EQ(least->core.max_bypass, 0);
  EXPECT_EQ(least->core.settle, absl::ZeroDuration());
  const auto most = Load(
      "max_bypass = 1000\nanonymous_credit = 1\ngroup_limits = { a = 100000 }\n"
      "reserve_percent = 90\nmax_queued = 100000\n");
  ASSERT_TRUE(most.ok()) << most.status();
  EXPECT_EQ(most->core.anonymous_credit, 1);
}

TEST_F(ConfigTest, GroupLimitsMayStandInATableOfTheirOwn) {
  const auto config = Load("max_queued = 7\n[group_limits]\ngpu = 2\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->core.group_limits, ElementsAre(Pair("gpu", 2)));
}

TEST_F(ConfigTest, UnknownKeyIsRefusedWithItsLineAndTheKeysThereAre) {
  const std::string error = ErrorOf("\nmemory_pol = \"2G\"\n");
  EXPECT_THAT(error, HasSubstr("config.toml:2: unknown key \"memory_pol\""));
  EXPECT_THAT(error, HasSubstr("memory_pool"));
}

TEST_F(ConfigTest, BadValueIsRefusedWithItsLineAndARightOne) {
  EXPECT_THAT(ErrorOf("memory_pool = \"8X\"\n"), HasSubstr("config.toml:1: memory_pool: "));
  EXPECT_THAT(ErrorOf("memory_pool = -1\n"), HasSubstr("needs a size such as \"8G\""));
  EXPECT_THAT(ErrorOf("reserve = true\n"), HasSubstr("needs a size"));
  EXPECT_THAT(ErrorOf("reserve_percent = 140\n"), HasSubstr("needs a number from 0 to 90"));
  EXPECT_THAT(ErrorOf("reserve_percent = \"10\"\n"), HasSubstr("needs a number from 0 to 90"));
  EXPECT_THAT(ErrorOf("max_pressure = \"loud\"\n"), HasSubstr("\"warn\" or \"critical\""));
  EXPECT_THAT(ErrorOf("max_queued = 0\n"), HasSubstr("from 1 to 100000"));
  for (const char* wrong : {"-1", "1001", "1.5", "\"5\""}) {
    EXPECT_THAT(ErrorOf(std::string("\nmax_bypass = ") + wrong + "\n"),
                HasSubstr("config.toml:2: max_bypass: needs a whole number from 0 to 1000"));
  }
  for (const char* wrong : {"15", "true", "-1"}) {
    EXPECT_THAT(ErrorOf(std::string("settle = ") + wrong + "\n"),
                HasSubstr("config.toml:1: settle: needs a duration such as \"15s\""));
  }
  EXPECT_THAT(ErrorOf("settle = \"soon\"\n"), HasSubstr("settle: duration \"soon\""));
  EXPECT_THAT(ErrorOf("settle = \"-1s\"\n"), HasSubstr("negative"));
  for (const char* wrong : {"-0.1", "1.1", "\"0.5\"", "nan", "true"}) {
    EXPECT_THAT(ErrorOf(std::string("anonymous_credit = ") + wrong + "\n"),
                HasSubstr("anonymous_credit: needs a number from 0 to 1"));
  }
  for (const char* wrong : {"1", "\"gpu\"", "[]", "{ gpu = 0 }", "{ gpu = \"1\" }", "{ gpu = 1.5 }",
                            "{ gpu = 100001 }", "{ cpu = 1, gpu = -1 }"}) {
    EXPECT_THAT(ErrorOf(std::string("group_limits = ") + wrong + "\n"),
                AllOf(HasSubstr("config.toml:1: group_limits: "), HasSubstr("gpu = 1")));
  }
  EXPECT_THAT(ErrorOf("group_limits = { cpu = 1, gpu = -1 }\n"),
              HasSubstr("gpu has something else"));
}

TEST_F(ConfigTest, BrokenSyntaxIsRefusedWithItsLine) {
  EXPECT_THAT(ErrorOf("max_queued = 5\nmemory_pool = \n"), HasSubstr("config.toml:2: "));
}

TEST_F(ConfigTest, FolderInPlaceOfTheFileIsRefused) {
  const auto config = LoadConfig(folder_);
  EXPECT_TRUE(absl::IsInvalidArgument(config.status())) << config.status();
}

}  // namespace
}  // namespace stageload
