// What stageload-probe says of the machine that the test runs on.
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

namespace stageload {
namespace {

TEST(Probe, PrintsAReadingOfThisMachineAndOfItself) {
  FILE* const pipe = ::popen("exec " STAGELOAD_PROBE, "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  char buffer[4096];
  for (std::size_t got = 0; (got = ::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    text.append(buffer, got);
  }
  EXPECT_EQ(::pclose(pipe), 0) << text;

  const nlohmann::json probe = nlohmann::json::parse(text);
  const nlohmann::json& host = probe.at("host");
  EXPECT_GT(host.at("level_percent"), 0);
  EXPECT_LE(host.at("level_percent"), 100);
  EXPECT_GT(host.at("available_bytes"), 1'000'000);
  EXPECT_LE(host.at("available_bytes"), host.at("total_bytes"));
  EXPECT_TRUE(host.contains("swap_used_bytes"));
  EXPECT_GT(probe.at("processes"), 1);
  EXPECT_GE(probe.at("clock").at("continuous_ns"), probe.at("clock").at("awake_ns"));
  const nlohmann::json& self = probe.at("self");
  EXPECT_EQ(self.at("parent"), ::getpid());
  EXPECT_EQ(self.at("uid"), ::geteuid());
  EXPECT_GT(self.at("footprint_bytes"), 10'000);
  EXPECT_LT(self.at("footprint_bytes"), 100'000'000);
  EXPECT_EQ(self.at("command_line"), STAGELOAD_PROBE);
}

}  // namespace
}  // namespace stageload
