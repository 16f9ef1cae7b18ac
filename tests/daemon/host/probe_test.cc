// What a probe says of a machine that can tell little, and of this one.
#include "daemon/host/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <functional>
#include <string>

namespace stageload::host {
namespace {

using Json = nlohmann::json;

// Its sample is as the test has it; everything else fails.
class PoorHost : public Host {
 public:
  absl::StatusOr<core::HostSample> Sample() override { return sample; }
  absl::StatusOr<std::vector<Process>> Processes() override {
    return absl::PermissionDeniedError("list the processes: no");
  }
  absl::StatusOr<core::Usage> Usage(const core::ProcessIdentity&) override {
    return absl::NotFoundError("gone");
  }
  absl::StatusOr<Process> Find(std::int32_t) override { return absl::NotFoundError("no such pid"); }
  absl::StatusOr<std::string> CommandLine(const core::ProcessIdentity&) override {
    return absl::NotFoundError("gone");
  }
  Instant Clock() override { return {absl::Seconds(1), absl::Seconds(3), absl::FromUnixNanos(7)}; }
  const std::string& BootId() override { return boot_; }
  absl::Status OnPressure(std::function<void()>, const WaitForUrgent&) override {
    return absl::UnimplementedError("no hints");
  }

  core::HostSample sample;

 private:
  std::string boot_ = "a\xff boot";
};

TEST(Probe, LeavesOutWhatIsNotToldAndNamesWhatFailed) {
  PoorHost host;
  host.sample.level = Percent{42};
  host.sample.pressure = core::Pressure::kWarn;
  const Probe probe = TakeProbe(host);
  EXPECT_FALSE(probe.whole);
  const Json json = Json::parse(probe.json);
  EXPECT_EQ(json["host"], (Json{{"level_percent", 42.0}, {"pressure", "WARN"}}));
  EXPECT_EQ(json["errors"]["processes"], "list the processes: no");
  EXPECT_EQ(json["errors"]["self"], "no such pid");
  EXPECT_FALSE(json.contains("processes"));
  EXPECT_FALSE(json.contains("self"));
  EXPECT_EQ(json["clock"]["awake_ns"], 1'000'000'000);
  EXPECT_EQ(json["clock"]["continuous_ns"], 3'000'000'000);
  EXPECT_EQ(json["boot_id"], "a\xef\xbf\xbd boot") << "what is no UTF-8 must not break the JSON";
}

TEST(Probe, OfThisMachineIsWholeAndKnowsItsOwnProcess) {
  const std::unique_ptr<Host> host = NewLocalHost();
  const Probe probe = TakeProbe(*host);
  EXPECT_TRUE(probe.whole) << probe.json;
  const Json json = Json::parse(probe.json);
  EXPECT_EQ(json["self"]["pid"], ::getpid());
  EXPECT_EQ(json["self"]["uid"], ::geteuid());
  EXPECT_GT(json["self"]["footprint_bytes"], 100'000);
  EXPECT_EQ(json["page_bytes"], ::sysconf(_SC_PAGESIZE));
  EXPECT_LE(json["host"]["available_bytes"], json["host"]["total_bytes"]);
}

}  // namespace
}  // namespace stageload::host
