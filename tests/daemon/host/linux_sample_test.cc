// The machine's memory as recorded trees tell it: plain, odd, old, limited and broken ones.
#include <unistd.h>

#include <string>

#include "daemon/host/host.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/daemon/host/proc_tree.h"

namespace stageload::host {
namespace {

using core::HostSample;
using core::Pressure;
using ::testing::HasSubstr;

// 16 GiB, of which 4 GiB are available; 1 GiB of 2 GiB swap is used.
const char kMeminfo[] =
    "MemTotal:       16777216 kB\n"
    "MemFree:         1048576 kB\n"
    "MemAvailable:    4194304 kB\n"
    "Buffers:            5580 kB\n"
    "Cached:          2097152 kB\n"
    "SwapCached:          512 kB\n"
    "Unevictable:       16524 kB\n"
    "Mlocked:           15460 kB\n"
    "SwapTotal:       2097152 kB\n"
    "SwapFree:        1048576 kB\n"
    "Zswap:              2048 kB\n"
    "Zswapped:           8192 kB\n"
    "Shmem:           1048576 kB\n"
    "SReclaimable:     524288 kB\n"
    "HugePages_Total:       0\n";

HostSample SampleOf(const ProcTree& tree) {
  const auto sample = tree.Open()->Sample();
  EXPECT_TRUE(sample.ok()) << sample.status();
  return sample.value_or(HostSample{});
}

TEST(TheLinuxSample, TellsWhatMeminfoTells) {
  const HostSample sample = SampleOf({{"proc/meminfo", kMeminfo}});
  EXPECT_EQ(sample.total, GiB(16));
  EXPECT_EQ(sample.available, GiB(4));
  ASSERT_TRUE(sample.level.has_value());
  EXPECT_DOUBLE_EQ(sample.level->value, 25);
  EXPECT_EQ(sample.swap_total, GiB(2));
  EXPECT_EQ(sample.swap_used, GiB(1));
  EXPECT_EQ(sample.compressed, MiB(2));
  EXPECT_EQ(sample.wired, KiB(16524));  // the locked pages are among the unevictable ones
}

TEST(TheLinuxSample, LeavesOutWhatIsNotThere) {
  const HostSample sample = SampleOf({{"proc/meminfo", "MemTotal: 16777216 kB\n"}});
  EXPECT_EQ(sample.total, GiB(16));
  EXPECT_EQ(sample.available, std::nullopt);
  EXPECT_EQ(sample.level, std::nullopt);
  EXPECT_EQ(sample.swap_used, std::nullopt);
  EXPECT_EQ(sample.swap_total, std::nullopt);
  EXPECT_EQ(sample.pressure, std::nullopt);
  EXPECT_EQ(sample.compressed, std::nullopt);
  EXPECT_EQ(sample.wired, std::nullopt);
  EXPECT_EQ(sample.swapped_in_total, std::nullopt);
  EXPECT_EQ(sample.swapped_out_total, std::nullopt);
}

TEST(TheLinuxSample, SaysZeroSwapOnAMachineWithoutSwap) {
  const HostSample sample = SampleOf({{"proc/meminfo",
                                       "MemTotal: 1024 kB\nMemAvailable: 512 kB\n"
                                       "SwapTotal:             0 kB\nSwapFree: 0 kB\n"}});
  EXPECT_EQ(sample.swap_used, Bytes(0));
  EXPECT_EQ(sample.swap_total, Bytes(0));
}

TEST(TheLinuxSample, EstimatesWhatIsAvailableOnAnOldKernel) {
  std::string old = kMeminfo;
  const auto line = old.find("MemAvailable");
  old.erase(line, old.find('\n', line) + 1 - line);
  // 1 GiB free + 2 GiB cached + 0.5 GiB of slabs - 1 GiB shared.
  EXPECT_EQ(SampleOf({{"proc/meminfo", old}}).available, MiB(2560));
}

TEST(TheLinuxSample, NeverHasLessThanNothingAvailable) {
  const HostSample sample = SampleOf(
      {{"proc/meminfo", "MemTotal: 1024 kB\nMemFree: 1 kB\nCached: 2 kB\nShmem: 100 kB\n"}});
  EXPECT_EQ(sample.available, Bytes(0));
  EXPECT_EQ(sample.level, Percent{0});
}

TEST(TheLinuxSample, NeverHasMoreAvailableThanThereIs) {
  const HostSample sample =
      SampleOf({{"proc/meminfo", "MemTotal: 1024 kB\nMemAvailable: 4096 kB\n"}});
  EXPECT_EQ(sample.available, MiB(1));
  EXPECT_EQ(sample.level, Percent{100});
}

TEST(TheLinuxSample, TakesMoreFreeSwapThanSwapForNoneUsed) {
  EXPECT_EQ(SampleOf({{"proc/meminfo", "SwapTotal: 100 kB\nSwapFree: 200 kB\n"}}).swap_used,
            Bytes(0));
}

TEST(TheLinuxSample, DoesNotWrapAroundNearTheLargestNumbers) {
  const HostSample sample = SampleOf({{"proc/meminfo",
                                       "MemTotal: 18446744073709551615 kB\n"
                                       "MemAvailable: 18446744073709551615 kB\n"
                                       "SwapTotal: 18446744073709551615 kB\nSwapFree: 0 kB\n"
                                       "Zswap: 18446744073709551616 kB\n"},
                                      {"proc/vmstat", "pswpin 18446744073709551615\npswpout 3\n"}});
  EXPECT_EQ(sample.total, Bytes::Max());
  EXPECT_EQ(sample.swap_used, Bytes::Max());
  EXPECT_EQ(sample.level, Percent{100});
  EXPECT_EQ(sample.compressed, std::nullopt);  // no 64-bit counter
  EXPECT_EQ(sample.swapped_in_total, Bytes::Max());
}

TEST(TheLinuxSample, DoesNotTakeACutLineForAValue) {
  for (const char* cut :
       {"MemAvailable:    41943", "MemAvailable:    4194304 k", "MemAvailable:", "MemAvail",
        "MemAvailable: kB\n", "MemAvailable: -5 kB\n", "MemAvailable: 5 MB\n"}) {
    EXPECT_EQ(SampleOf({{"proc/meminfo", std::string("MemTotal: 16777216 kB\n") + cut}}).available,
              std::nullopt)
        << cut;
  }
  EXPECT_EQ(SampleOf({{"proc/vmstat", "pswpin 7\npswpout 12"}}).swapped_out_total, std::nullopt);
}

TEST(TheLinuxSample, LeavesEverythingOutOfGarbage) {
  const std::string garbage("\0\xff:: kB\n:\n\n:::MemTotal", 22);
  const HostSample sample = SampleOf({{"proc/meminfo", garbage},
                                      {"proc/vmstat", garbage},
                                      {"proc/pressure/memory", garbage},
                                      {"proc/self/cgroup", garbage}});
  EXPECT_EQ(sample.total, std::nullopt);
  EXPECT_EQ(sample.level, std::nullopt);
  EXPECT_EQ(sample.pressure, std::nullopt);
  EXPECT_EQ(sample.swapped_in_total, std::nullopt);
}

TEST(TheLinuxSample, LeavesEverythingOutOfEmptyFiles) {
  const HostSample sample = SampleOf({{"proc/meminfo", ""},
                                      {"proc/vmstat", ""},
                                      {"proc/pressure/memory", ""},
                                      {"proc/self/cgroup", ""}});
  EXPECT_EQ(sample.total, std::nullopt);
  EXPECT_EQ(sample.level, std::nullopt);
  EXPECT_EQ(sample.pressure, std::nullopt);
}

TEST(TheLinuxSample, HasNoLevelOfAMachineWithoutMemory) {
  const HostSample sample = SampleOf({{"proc/meminfo", "MemTotal: 0 kB\nMemAvailable: 0 kB\n"}});
  EXPECT_EQ(sample.level, std::nullopt);
}

TEST(TheLinuxSample, FailsOnlyWhenNothingAtAllCanBeRead) {
  const ProcTree tree;
  const auto nothing = tree.Open()->Sample();
  ASSERT_FALSE(nothing.ok());
  EXPECT_THAT(std::string(nothing.status().message()), HasSubstr(tree.proc() + "/meminfo"));
  EXPECT_TRUE(ProcTree({{"proc/vmstat", "pswpin 1\n"}}).Open()->Sample().ok());

  const auto nowhere = NewLinuxHost({tree.proc() + "/none", tree.proc()})->Sample();
  ASSERT_FALSE(nowhere.ok());
  EXPECT_THAT(std::string(nowhere.status().message()), HasSubstr("open " + tree.proc() + "/none"));
}

TEST(TheLinuxSample, CountsSwapTrafficInBytes) {
  const HostSample sample =
      SampleOf({{"proc/vmstat", "nr_free_pages 9\npswpin 3\npswpout 5\npswpout_zero 7\n"}});
  EXPECT_EQ(sample.swapped_in_total, Bytes(3 * sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(sample.swapped_out_total, Bytes(5 * sysconf(_SC_PAGESIZE)));
}

std::optional<Pressure> PressureOf(const std::string& text) {
  return SampleOf({{"proc/meminfo", kMeminfo}, {"proc/pressure/memory", text}}).pressure;
}

std::string Stall(const std::string& some, const std::string& full) {
  return "some avg10=" + some + " avg60=0.00 avg300=0.00 total=1\nfull avg10=" + full +
         " avg60=0.00 avg300=0.00 total=1\n";
}

TEST(TheLinuxPressure, FollowsTheStallsOfTheLastTenSeconds) {
  EXPECT_EQ(PressureOf(Stall("0.00", "0.00")), Pressure::kNormal);
  EXPECT_EQ(PressureOf(Stall("9.99", "9.99")), Pressure::kNormal);
  EXPECT_EQ(PressureOf(Stall("10.00", "0.00")), Pressure::kWarn);
  EXPECT_EQ(PressureOf(Stall("100.00", "9.99")), Pressure::kWarn);
  EXPECT_EQ(PressureOf(Stall("10.00", "10.00")), Pressure::kCritical);
}

TEST(TheLinuxPressure, IsUnknownWhereTheKernelDoesNotTell) {
  EXPECT_EQ(SampleOf({{"proc/meminfo", kMeminfo}}).pressure, std::nullopt);
  EXPECT_EQ(PressureOf("some avg10=99.00 avg60=0.00 avg300=0.00 total=1\n"), std::nullopt);
  EXPECT_EQ(PressureOf(Stall("x", "0.00")), std::nullopt);
  EXPECT_EQ(PressureOf(Stall("999.00", "0.00")), std::nullopt);
  EXPECT_EQ(PressureOf(Stall("-1.00", "0.00")), std::nullopt);
  EXPECT_EQ(PressureOf(Stall("nan", "0.00")), std::nullopt);
  EXPECT_EQ(PressureOf("some avg10=1"), std::nullopt);
}

TEST(ACgroupLimit, OfVersion2IsTheTotal) {
  const HostSample sample = SampleOf(
      {{"proc/meminfo", kMeminfo},
       {"proc/self/cgroup", "0::/user.slice/job\n"},
       {"cgroup/user.slice/memory.max", "max\n"},
       {"cgroup/user.slice/job/memory.max", "2147483648\n"},
       {"cgroup/user.slice/job/memory.current", "1610612736\n"},
       {"cgroup/user.slice/job/memory.stat", "anon 1\ninactive_file 268435456\nactive_file 9\n"}});
  EXPECT_EQ(sample.total, GiB(2));
  EXPECT_EQ(sample.available, MiB(768));  // 2 GiB - 1.5 GiB + 256 MiB
  EXPECT_EQ(sample.level, Percent{37.5});
  EXPECT_EQ(sample.swap_used, GiB(1));  // the machine's
}

TEST(ACgroupLimit, OfVersion1IsTheTotal) {
  const HostSample sample = SampleOf(
      {{"proc/meminfo", kMeminfo},
       {"proc/self/cgroup", "5:devices:/x\n4:cpu,memory:/a:b\n0::/\n"},
       {"cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
       {"cgroup/memory/a:b/memory.limit_in_bytes", "2147483648\n"},
       {"cgroup/memory/a:b/memory.usage_in_bytes", "1610612736\n"},
       {"cgroup/memory/a:b/memory.stat", "inactive_file 1\ntotal_inactive_file 268435456\n"}});
  EXPECT_EQ(sample.total, GiB(2));
  EXPECT_EQ(sample.available, MiB(768));
}

TEST(ACgroupLimit, IsFoundInAHybridLayout) {
  const HostSample sample = SampleOf({{"proc/meminfo", kMeminfo},
                                      {"proc/self/cgroup", "1:name=systemd:/x\n0::/x\n"},
                                      {"cgroup/unified/x/memory.max", "1073741824\n"},
                                      {"cgroup/unified/x/memory.current", "0\n"}});
  EXPECT_EQ(sample.total, GiB(1));
  EXPECT_EQ(sample.available, GiB(1));
}

TEST(ACgroupLimit, OfAnyAncestorCounts) {
  const HostSample sample = SampleOf({{"proc/meminfo", kMeminfo},
                                      {"proc/self/cgroup", "0::/a/b/c\n"},
                                      {"cgroup/a/memory.max", "4294967296\n"},
                                      {"cgroup/a/memory.current", "3758096384\n"},
                                      {"cgroup/a/b/memory.max", "max\n"},
                                      {"cgroup/a/b/c/memory.max", "2147483648\n"},
                                      {"cgroup/a/b/c/memory.current", "0\n"}});
  EXPECT_EQ(sample.total, GiB(2));
  EXPECT_EQ(sample.available, MiB(512));  // that is all its grandparent has left
}

TEST(ACgroupLimit, NeedsNoPathOfItsOwnInsideAContainer) {
  const HostSample sample = SampleOf({{"proc/meminfo", kMeminfo},
                                      {"proc/self/cgroup", "4:memory:/docker/0123\n"},
                                      {"cgroup/memory/memory.limit_in_bytes", "1073741824\n"},
                                      {"cgroup/memory/memory.usage_in_bytes", "536870912\n"}});
  EXPECT_EQ(sample.total, GiB(1));
  EXPECT_EQ(sample.available, MiB(512));

  const HostSample outside = SampleOf({{"proc/meminfo", kMeminfo},
                                       {"proc/self/cgroup", "0::/../../x\n"},
                                       {"cgroup/memory.max", "1073741824\n"},
                                       {"cgroup/memory.current", "0\n"}});
  EXPECT_EQ(outside.total, GiB(1));
}

TEST(ACgroupLimit, DoesNotMakeMoreAvailableThanTheMachineHas) {
  const HostSample sample = SampleOf({{"proc/meminfo", kMeminfo},
                                      {"proc/self/cgroup", "0::/a\n"},
                                      {"cgroup/a/memory.max", "8589934592\n"},
                                      {"cgroup/a/memory.current", "0\n"}});
  EXPECT_EQ(sample.total, GiB(8));
  EXPECT_EQ(sample.available, GiB(4));
  EXPECT_EQ(sample.level, Percent{50});
}

TEST(ACgroupLimit, ThatIsOverrunLeavesNothing) {
  const HostSample sample = SampleOf({{"proc/meminfo", kMeminfo},
                                      {"proc/self/cgroup", "0::/a\n"},
                                      {"cgroup/a/memory.max", "1073741824\n"},
                                      {"cgroup/a/memory.current", "18446744073709551615\n"}});
  EXPECT_EQ(sample.available, Bytes(0));
  EXPECT_EQ(sample.level, Percent{0});
}

TEST(ACgroupLimit, WithoutAUsageLeavesTheRoomUnknown) {
  const HostSample sample = SampleOf({{"proc/meminfo", kMeminfo},
                                      {"proc/self/cgroup", "0::/a/b\n"},
                                      {"cgroup/a/memory.max", "1073741824\n"},
                                      {"cgroup/a/b/memory.max", "1073741824\n"},
                                      {"cgroup/a/b/memory.current", "0\n"}});
  EXPECT_EQ(sample.total, GiB(1));
  EXPECT_EQ(sample.available, std::nullopt);
  EXPECT_EQ(sample.level, std::nullopt);
}

TEST(ACgroupLimit, ThatIsNoneChangesNothing) {
  for (const char* limit : {"max\n", "9223372036854771712\n", "17179869184\n", "", "garbage\n"}) {
    const HostSample sample = SampleOf({{"proc/meminfo", kMeminfo},
                                        {"proc/self/cgroup", "0::/a\n"},
                                        {"cgroup/a/memory.max", limit},
                                        {"cgroup/a/memory.current", "0\n"}});
    EXPECT_EQ(sample.total, GiB(16)) << limit;
    EXPECT_EQ(sample.available, GiB(4)) << limit;
  }
}

TEST(ACgroupLimit, IsReadAnewForEachSample) {
  ProcTree tree({{"proc/meminfo", kMeminfo},
                 {"proc/self/cgroup", "0::/a\n"},
                 {"cgroup/a/memory.max", "1073741824\n"},
                 {"cgroup/a/memory.current", "0\n"}});
  const auto host = tree.Open();
  EXPECT_EQ(host->Sample()->total, GiB(1));
  tree.Write("cgroup/a/memory.max", "2147483648\n");
  EXPECT_EQ(host->Sample()->total, GiB(2));
  tree.Write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(host->Sample()->total, GiB(16));
}

}  // namespace
}  // namespace stageload::host
