// The config file: what it can say, and how it is refused.
#include "daemon/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/fixture.h"

namespace stageload {
namespace {

using ::testing::HasSubstr;

class ConfigTest : public testing::Test {
 protected:
  absl::StatusOr<core::Config> Load(const std::string& text) {
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
  EXPECT_EQ(none->reserve_fraction, 0.10);
  EXPECT_FALSE(none->memory_pool);
  EXPECT_TRUE(Load("").ok());
  EXPECT_TRUE(Load("# nothing\n").ok());
}

TEST_F(ConfigTest, ReadsEveryKey) {
  const auto config = Load(
      "memory_pool = \"2.5G\"\nreserve = 1073741824\nreserve_percent = 12.5\n"
      "max_pressure = \"warn\"\nmax_queued = 7\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->memory_pool, MiB(2560));
  EXPECT_EQ(config->reserve, GiB(1));
  EXPECT_EQ(config->reserve_fraction, 0.125);
  EXPECT_EQ(config->max_pressure, core::Pressure::kWarn);
  EXPECT_EQ(config->max_queued, 7);
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
