// A Mac's memory, as a kernel of each kind tells it.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/daemon/host/fake_mac.h"

namespace stageload::host {
namespace {

using core::HostSample;
using core::Pressure;
using ::testing::HasSubstr;

HostSample SampleOf(FakeMac& mac) {
  const auto sample = NewDarwinHost(mac)->Sample();
  EXPECT_TRUE(sample.ok()) << sample.status();
  return sample.value_or(HostSample{});
}

constexpr Bytes kPage = KiB(16);
Bytes Pages(std::int64_t count) { return Bytes(count * kPage.count()); }

TEST(TheDarwinSample, TellsWhatTheKernelTells) {
  FakeMac mac;
  mac.Set("vm.swapusage", xsw_usage{GiB(10).count() + 0ULL, 1, GiB(8).count() + 0ULL, 16384, 1});
  mac.Set<std::int32_t>("iogpu.wired_limit_mb", 40960);
  const HostSample sample = SampleOf(mac);
  EXPECT_EQ(sample.level, Percent{79});
  EXPECT_EQ(sample.pressure, Pressure::kNormal);
  EXPECT_EQ(sample.total, GiB(48));
  EXPECT_EQ(sample.swap_total, GiB(10));
  EXPECT_EQ(sample.swap_used, GiB(8));
  EXPECT_EQ(sample.pageable_internal, Pages(900'000));
  EXPECT_EQ(sample.wired, Pages(200'000));
  EXPECT_EQ(sample.compressed, Pages(100'000));
  EXPECT_EQ(sample.swapped_in_total, Pages(3'000));
  EXPECT_EQ(sample.swapped_out_total, Pages(5'000));
  EXPECT_EQ(sample.gpu_wired_limit, GiB(40));
}

// The speculative pages are in the external count already, and not in the free one.
TEST(TheDarwinSample, HasFreeFileBackedAndPurgeablePagesAvailable) {
  FakeMac mac;
  EXPECT_EQ(SampleOf(mac).available, Pages(1'000'000 + 300'000 + 20'000));
}

TEST(TheDarwinSample, CountsInThePagesOfTheKernel) {
  FakeMac intel;
  intel.page_size = 4096;
  const HostSample sample = SampleOf(intel);
  EXPECT_EQ(sample.available, Bytes(1'320'000LL * 4096));
  EXPECT_EQ(sample.wired, Bytes(200'000LL * 4096));

  FakeMac untold;
  untold.page_size = 0;
  const HostSample without = SampleOf(untold);
  EXPECT_EQ(without.available, std::nullopt);
  EXPECT_EQ(without.pageable_internal, std::nullopt);
  EXPECT_EQ(without.wired, std::nullopt);
  EXPECT_EQ(without.swapped_out_total, std::nullopt);
  EXPECT_EQ(without.level, Percent{79});
}

struct FieldOfACounter {
  const char* name;
  std::function<bool(const HostSample&)> has;
};

std::vector<FieldOfACounter> FieldsOfCounters() {
  return {
      {"kern.memorystatus_level", [](const HostSample& s) { return s.level.has_value(); }},
      {"kern.memorystatus_vm_pressure_level",
       [](const HostSample& s) { return s.pressure.has_value(); }},
      {"hw.memsize", [](const HostSample& s) { return s.total.has_value(); }},
      {"vm.page_free_count", [](const HostSample& s) { return s.available.has_value(); }},
      {"vm.page_pageable_external_count",
       [](const HostSample& s) { return s.available.has_value(); }},
      {"vm.page_purgeable_count", [](const HostSample& s) { return s.available.has_value(); }},
      {"vm.page_pageable_internal_count",
       [](const HostSample& s) { return s.pageable_internal.has_value(); }},
      {"iogpu.wired_limit_mb", [](const HostSample& s) { return s.gpu_wired_limit.has_value(); }},
      {"vm.swapusage",
       [](const HostSample& s) { return s.swap_used.has_value() && s.swap_total.has_value(); }},
      {"vm.swapusage",
       [](const HostSample& s) { return s.swap_used.has_value() || s.swap_total.has_value(); }},
  };
}

// How many of `FieldsOfCounters` a sample has.
int FieldsThere(const HostSample& sample) {
  int there = 0;
  for (const FieldOfACounter& field : FieldsOfCounters()) there += field.has(sample) ? 1 : 0;
  return there;
}

TEST(TheDarwinSample, LeavesOutTheFieldOfACounterThatIsNotThere) {
  const int all = static_cast<int>(FieldsOfCounters().size());
  for (const FieldOfACounter& field : FieldsOfCounters()) {
    FakeMac mac;
    mac.Set<std::int32_t>("iogpu.wired_limit_mb", 40960);
    ASSERT_EQ(FieldsThere(SampleOf(mac)), all);
    int of_this_counter = 0;
    for (const FieldOfACounter& other : FieldsOfCounters()) {
      of_this_counter += other.name == std::string(field.name) ? 1 : 0;
    }
    if (std::string(field.name).find("external") != std::string::npos ||
        std::string(field.name).find("free") != std::string::npos ||
        std::string(field.name).find("purgeable") != std::string::npos) {
      of_this_counter = 3;  // all three make up what is available
    }
    mac.sysctls.erase(field.name);
    const HostSample without = SampleOf(mac);
    EXPECT_FALSE(field.has(without)) << field.name;
    EXPECT_EQ(FieldsThere(without), all - of_this_counter) << field.name;
    EXPECT_TRUE(without.wired.has_value()) << field.name;
  }
}

TEST(TheDarwinSample, TakesACounterOfAnyWidthThatIsKnown) {
  FakeMac wide;
  wide.Set<std::uint64_t>("kern.memorystatus_level", 79);
  wide.Set<std::uint64_t>("vm.page_free_count", 5'000'000'000U);
  wide.Set<std::uint32_t>("hw.memsize", 2'147'483'648U);
  HostSample sample = SampleOf(wide);
  EXPECT_EQ(sample.level, Percent{79});
  EXPECT_EQ(sample.total, GiB(2));
  EXPECT_EQ(sample.available, GiB(2)) << "never more than there is";

  FakeMac odd;
  odd.Set<std::uint16_t>("kern.memorystatus_level", 79);
  odd.sysctls["hw.memsize"] = "";
  odd.sysctls["vm.page_free_count"] = std::string(16, '\1');  // wider than any: ENOMEM
  sample = SampleOf(odd);
  EXPECT_EQ(sample.level, std::nullopt);
  EXPECT_EQ(sample.total, std::nullopt);
  EXPECT_EQ(sample.available, std::nullopt);
}

TEST(TheDarwinSample, KeepsToPlausibleLevels) {
  const auto level_of = [](std::int32_t level) {
    FakeMac mac;
    mac.Set("kern.memorystatus_level", level);
    return SampleOf(mac).level;
  };
  EXPECT_EQ(level_of(0), Percent{0});
  EXPECT_EQ(level_of(100), Percent{100});
  EXPECT_EQ(level_of(101), Percent{100});
  EXPECT_EQ(level_of(-1), std::nullopt);
}

TEST(TheDarwinSample, KnowsThreePressures) {
  const auto pressure_of = [](std::uint32_t level) {
    FakeMac mac;
    mac.Set("kern.memorystatus_vm_pressure_level", level);
    return SampleOf(mac).pressure;
  };
  EXPECT_EQ(pressure_of(1), Pressure::kNormal);
  EXPECT_EQ(pressure_of(2), Pressure::kWarn);
  EXPECT_EQ(pressure_of(4), Pressure::kCritical);
  for (const std::uint32_t other : {0U, 3U, 5U, 8U, 0xffffffffU}) {
    EXPECT_EQ(pressure_of(other), std::nullopt) << other;
  }
}

TEST(TheDarwinSample, SaysZeroSwapOnAMachineWithoutSwap) {
  FakeMac mac;
  mac.Set("vm.swapusage", xsw_usage{});
  EXPECT_EQ(SampleOf(mac).swap_used, Bytes(0));
  EXPECT_EQ(SampleOf(mac).swap_total, Bytes(0));
}

TEST(TheDarwinSample, TakesAsMuchOfTheSwapUsageAsAKernelHas) {
  const xsw_usage usage{10ULL << 30, 2ULL << 30, 8ULL << 30, 16384, 1};
  const auto swap_of = [&](std::size_t size) {
    FakeMac mac;
    mac.Set("vm.swapusage", usage);
    mac.sysctls["vm.swapusage"].resize(size, '\x7f');
    return SampleOf(mac).swap_used;
  };
  EXPECT_EQ(swap_of(24), GiB(8));  // older: up to xsu_used
  EXPECT_EQ(swap_of(32), GiB(8));
  EXPECT_EQ(swap_of(48), GiB(8));  // newer: more behind it
  EXPECT_EQ(swap_of(23), std::nullopt);
  EXPECT_EQ(swap_of(0), std::nullopt);
}

TEST(TheDarwinSample, DoesNotKnowALimitThatTheSystemChooses) {
  FakeMac mac;
  mac.Set<std::int32_t>("iogpu.wired_limit_mb", 0);
  EXPECT_EQ(SampleOf(mac).gpu_wired_limit, std::nullopt);
}

TEST(TheDarwinSample, DoesNotWrapAroundNearTheLargestNumbers) {
  FakeMac mac;
  constexpr std::uint64_t kMost = 0xffffffffffffffffU;
  for (const char* name :
       {"hw.memsize", "vm.page_free_count", "vm.page_pageable_external_count",
        "vm.page_purgeable_count", "vm.page_pageable_internal_count", "iogpu.wired_limit_mb"}) {
    mac.Set(name, kMost);
  }
  mac.Set<std::uint64_t>("vm.page_free_count", 1ULL << 50);  // times 16 KiB is 0 in 64 bits
  mac.Set<std::uint64_t>("iogpu.wired_limit_mb", 1ULL << 44);
  mac.Set("vm.swapusage", xsw_usage{kMost, kMost, kMost, 16384, 1});
  mac.statistics.swapins = kMost;
  mac.statistics.swapouts = kMost / 16384;
  const HostSample sample = SampleOf(mac);
  EXPECT_EQ(sample.total, Bytes::Max());
  EXPECT_EQ(sample.available, Bytes::Max());
  mac.sysctls["vm.page_pageable_external_count"] = mac.sysctls["vm.page_free_count"];
  mac.sysctls["vm.page_purgeable_count"] = mac.sysctls["vm.page_free_count"];
  EXPECT_EQ(SampleOf(mac).available, Bytes::Max());
  EXPECT_EQ(sample.pageable_internal, Bytes::Max());
  EXPECT_EQ(sample.gpu_wired_limit, Bytes::Max());
  EXPECT_EQ(sample.swap_used, Bytes::Max());
  EXPECT_EQ(sample.swapped_in_total, Bytes::Max());
  EXPECT_EQ(sample.swapped_out_total, Bytes::Max());
}

TEST(TheDarwinSample, LacksWhatAnOlderKernelDoesNotCount) {
  FakeMac mac;
  const auto words_up_to = [](std::size_t bytes) {
    return static_cast<mach_msg_type_number_t>(bytes / sizeof(integer_t));
  };
  mac.statistics_words = words_up_to(offsetof(vm_statistics64, swapins));  // before its first rev.
  HostSample sample = SampleOf(mac);
  EXPECT_EQ(sample.wired, Pages(200'000));
  EXPECT_EQ(sample.compressed, std::nullopt);
  EXPECT_EQ(sample.swapped_in_total, std::nullopt);
  EXPECT_EQ(sample.swapped_out_total, std::nullopt);

  mac.statistics_words = words_up_to(offsetof(vm_statistics64, swapouts)) + 1;  // half of it
  sample = SampleOf(mac);
  EXPECT_EQ(sample.swapped_in_total, Pages(3'000));
  EXPECT_EQ(sample.swapped_out_total, std::nullopt);
}

TEST(TheDarwinSample, AsksForRateLimitedFiguresOnceASecondAtMost) {
  FakeMac mac;
  const auto host = NewDarwinHost(mac);
  constexpr std::uint64_t kSecond = 24'000'000;  // in ticks
  for (int i = 0; i < 20; ++i) {                 // 50 ms apart
    ASSERT_TRUE(host->Sample().ok());
    mac.continuous += kSecond / 20;
  }
  EXPECT_EQ(mac.calls["host_statistics64"], 1);
  mac.statistics.wire_count = 250'000;
  mac.continuous -= 1;
  EXPECT_EQ(host->Sample()->wired, Pages(200'000)) << "a tick less than a second";
  mac.continuous += 1;
  EXPECT_EQ(host->Sample()->wired, Pages(250'000));
  EXPECT_EQ(mac.calls["host_statistics64"], 2);
  // The other figures are new each time.
  mac.Set<std::int32_t>("kern.memorystatus_level", 60);
  EXPECT_EQ(host->Sample()->level, Percent{60});
  EXPECT_EQ(mac.calls["host_statistics64"], 2);
}

TEST(TheDarwinSample, ReadsRateLimitedFiguresAnewAfterASleep) {
  FakeMac mac;
  const auto host = NewDarwinHost(mac);
  ASSERT_TRUE(host->Sample().ok());
  mac.continuous += 24'000'000ULL * 3600;  // while the other clock stood still
  mac.statistics.wire_count = 1;
  EXPECT_EQ(host->Sample()->wired, Pages(1));
}

TEST(TheDarwinSample, ForgetsRateLimitedFiguresThatAreNoLongerTold) {
  FakeMac mac;
  const auto host = NewDarwinHost(mac);
  ASSERT_TRUE(host->Sample()->wired.has_value());
  mac.fails["host_statistics64"] = KERN_FAILURE;
  mac.continuous += 24'000'000;
  EXPECT_EQ(host->Sample()->wired, std::nullopt);
  EXPECT_EQ(host->Sample()->wired, std::nullopt);
  EXPECT_EQ(mac.calls["host_statistics64"], 2) << "a failure is not asked for again at once";
}

TEST(TheDarwinSample, GivesThePortOfTheMachineBack) {
  FakeMac mac;
  {
    const auto host = NewDarwinHost(mac);
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(host->Sample().ok());
      mac.continuous += 24'000'000;
    }
    EXPECT_EQ(mac.calls["mach_host_self"], 1);
    EXPECT_EQ(mac.open_ports(), 1U);
  }
  EXPECT_EQ(mac.open_ports(), 0U);

  FakeMac without;
  without.fails["mach_host_self"] = KERN_FAILURE;
  EXPECT_EQ(SampleOf(without).wired, std::nullopt);
  EXPECT_EQ(without.open_ports(), 0U);
}

TEST(TheDarwinSample, FailsOnlyWhenNothingAtAllCanBeRead) {
  FakeMac mac;
  mac.sysctls.clear();
  EXPECT_EQ(SampleOf(mac).wired, Pages(200'000)) << "which is something";

  mac.fails["host_statistics64"] = KERN_FAILURE;
  const auto nothing = NewDarwinHost(mac)->Sample();
  ASSERT_FALSE(nothing.ok());
  EXPECT_THAT(std::string(nothing.status().message()),
              HasSubstr("read sysctl kern.memorystatus_level"));
  EXPECT_THAT(std::string(nothing.status().message()), HasSubstr("No such file"));

  mac.Set<std::int32_t>("kern.memorystatus_level", 5);
  EXPECT_EQ(SampleOf(mac).level, Percent{5});
}

}  // namespace
}  // namespace stageload::host
