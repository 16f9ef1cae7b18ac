// The process table of recorded trees: odd names, zombies, kernel threads, and what vanishes while
// it is read.
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/host/host.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/daemon/host/proc_tree.h"

namespace stageload::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::int32_t> PidsOf(const ProcTree& tree) {
  const auto processes = tree.Open()->Processes();
  EXPECT_TRUE(processes.ok()) << processes.status();
  std::vector<std::int32_t> pids;
  if (!processes.ok()) return pids;
  for (const Process& process : *processes) pids.push_back(process.identity.pid);
  return pids;
}

TEST(TheProcessTable, IsAscendingAndComplete) {
  const ProcTree tree({{"proc/1/stat", StatLine{.pid = 1, .parent = 0}.Text()},
                       {"proc/1000/stat", StatLine{.pid = 1000}.Text()},
                       {"proc/99/stat", StatLine{.pid = 99}.Text()},
                       {"proc/meminfo", ""},
                       {"proc/self/stat", StatLine{.pid = 1}.Text()},
                       {"proc/12x/stat", StatLine{.pid = 12}.Text()},
                       {"proc/0/stat", StatLine{.pid = 0}.Text()}});
  EXPECT_THAT(PidsOf(tree), ElementsAre(1, 99, 1000));
}

TEST(TheProcessTable, TellsWhoAProcessIs) {
  const ProcTree tree({{"proc/7/stat", StatLine{.pid = 7,
                                                .comm = "sh",
                                                .state = 'R',
                                                .parent = 3,
                                                .group = 5,
                                                .session = 4,
                                                .start = "18446744073709551615"}
                                           .Text()}});
  const auto processes = tree.Open()->Processes();
  ASSERT_TRUE(processes.ok());
  ASSERT_EQ(processes->size(), 1u);
  const Process& process = processes->front();
  EXPECT_EQ(process.identity, (core::ProcessIdentity{7, UINT64_MAX}));
  EXPECT_EQ(process.parent, 3);
  EXPECT_EQ(process.group, 5);
  EXPECT_EQ(process.session, 4);
  EXPECT_EQ(process.state, 'R');
  EXPECT_EQ(process.uid, geteuid());  // who wrote the tree
}

TEST(TheProcessTable, IsNotFooledByAName) {
  for (const char* name : {"a) b (c", ")", "(", ") R 1 2 3", "x)\n8 (y) S 1", "", " ", "7 (z)"}) {
    const ProcTree tree({{"proc/7/stat", StatLine{.pid = 7, .comm = name, .parent = 3}.Text()}});
    const auto process = tree.Open()->Find(7);
    ASSERT_TRUE(process.ok()) << name << ": " << process.status();
    EXPECT_EQ(process->parent, 3) << name;
    EXPECT_EQ(process->identity.start, 100u) << name;
  }
}

TEST(TheProcessTable, LeavesOutWhatVanishesInMidRead) {
  ProcTree tree({{"proc/1/stat", StatLine{.pid = 1}.Text()},
                 {"proc/2/status", "Name:\tx\n"},  // its stat is gone already
                 {"proc/3/stat", ""},
                 {"proc/4/stat", StatLine{.pid = 4}.Text()}});
  const auto host = tree.Open();
  EXPECT_EQ(host->Processes()->size(), 2u);
  tree.Remove("proc/1");
  EXPECT_EQ(host->Processes()->size(), 1u);
}

TEST(TheProcessTable, LeavesOutLinesThatAreCutOrGarbage) {
  const std::string whole = StatLine{.pid = 7}.Text();
  const std::size_t after_start = whole.find(" 100 ") + 5;
  for (std::size_t length = 0; length < after_start; ++length) {
    EXPECT_THAT(PidsOf({{"proc/7/stat", whole.substr(0, length)}}), IsEmpty()) << length;
  }
  EXPECT_THAT(PidsOf({{"proc/7/stat", whole.substr(0, after_start)}}), ElementsAre(7));
  EXPECT_THAT(PidsOf({{"proc/7/stat", StatLine{.pid = 8}.Text()}}), IsEmpty());
  EXPECT_THAT(PidsOf({{"proc/7/stat", StatLine{.pid = 7, .start = "-1"}.Text()}}), IsEmpty());
  EXPECT_THAT(PidsOf({{"proc/7/stat", std::string(5000, 'x')}}), IsEmpty());
}

TEST(TheProcessTable, KnowsAZombieFromAProgramWhoseFirstThreadEnded) {
  const ProcTree tree({{"proc/1/stat", StatLine{.pid = 1, .state = 'Z'}.Text()},
                       {"proc/2/stat", StatLine{.pid = 2, .state = 'Z', .threads = 3}.Text()}});
  const auto host = tree.Open();
  EXPECT_EQ(host->Find(1)->state, 'Z');
  EXPECT_NE(host->Find(2)->state, 'Z');
}

TEST(FindingAProcess, SaysNotFoundForNone) {
  const ProcTree tree({{"proc/1/stat", StatLine{.pid = 1}.Text()}});
  const auto host = tree.Open();
  EXPECT_TRUE(host->Find(1).ok());
  for (const std::int32_t pid : {2, 0, -1, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(host->Find(pid).status().code(), absl::StatusCode::kNotFound) << pid;
  }
}

const char kStatus[] =
    "Name:\tpython\n"
    "State:\tS (sleeping)\n"
    "VmRSS:\t  999999 kB\n"
    "RssAnon:\t    1024 kB\n"
    "RssFile:\t    4096 kB\n"
    "RssShmem:\t     512 kB\n"
    "VmSwap:\t     256 kB\n"
    "Threads:\t1\n";

absl::StatusOr<core::Usage> UsageOf(const std::string& status) {
  const ProcTree tree({{"proc/7/stat", StatLine{.pid = 7}.Text()}, {"proc/7/status", status}});
  return tree.Open()->Usage({7, 100});
}

TEST(TheUsage, IsWhatAProcessHasForItselfAlone) {
  const auto usage = UsageOf(kStatus);
  ASSERT_TRUE(usage.ok()) << usage.status();
  EXPECT_EQ(usage->footprint, KiB(1024 + 512 + 256));
  EXPECT_EQ(usage->swapped, KiB(256));
}

TEST(TheUsage, OfAZombieIsZero) {
  const auto usage = UsageOf("Name:\tx\nState:\tZ (zombie)\nThreads:\t1\n");
  ASSERT_TRUE(usage.ok());
  EXPECT_EQ(usage->footprint, Bytes(0));
  EXPECT_EQ(usage->swapped, Bytes(0));
}

TEST(TheUsage, OfAKernelThreadIsAbsent) {
  const auto usage = UsageOf("Name:\tkswapd0\nState:\tS (sleeping)\nThreads:\t1\n");
  ASSERT_TRUE(usage.ok());
  EXPECT_EQ(usage->footprint, std::nullopt);
  EXPECT_EQ(usage->swapped, std::nullopt);
}

TEST(TheUsage, OfAKernelWithoutSwapNeedsNone) {
  const auto usage = UsageOf("RssAnon:\t 8 kB\nRssShmem:\t 4 kB\n");
  ASSERT_TRUE(usage.ok());
  EXPECT_EQ(usage->footprint, KiB(12));
  EXPECT_EQ(usage->swapped, std::nullopt);
}

TEST(TheUsage, OfACutFileIsAbsent) {
  const auto usage = UsageOf("RssAnon:\t 8 kB\nRssShmem:\t 4");
  ASSERT_TRUE(usage.ok());
  EXPECT_EQ(usage->footprint, std::nullopt);
}

TEST(TheUsage, IsThatOfTheOtherThreadsWhenTheFirstHasEnded) {
  const ProcTree tree({{"proc/7/stat", StatLine{.pid = 7, .state = 'Z', .threads = 2}.Text()},
                       {"proc/7/status", "State:\tZ (zombie)\nThreads:\t2\n"},
                       {"proc/7/task/7/status", "State:\tZ (zombie)\nThreads:\t2\n"},
                       {"proc/7/task/9/status", kStatus}});
  const auto usage = tree.Open()->Usage({7, 100});
  ASSERT_TRUE(usage.ok());
  EXPECT_EQ(usage->footprint, KiB(1024 + 512 + 256));
}

TEST(TheUsage, IsNeverThatOfAnotherProcessWithThePid) {
  ProcTree tree({{"proc/7/stat", StatLine{.pid = 7}.Text()}, {"proc/7/status", kStatus}});
  const auto host = tree.Open();
  ASSERT_TRUE(host->Processes().ok());
  EXPECT_TRUE(host->Usage({7, 100}).ok());
  EXPECT_EQ(host->Usage({7, 101}).status().code(), absl::StatusCode::kNotFound);
  tree.Write("proc/7/stat", StatLine{.pid = 7, .start = "200"}.Text());
  EXPECT_EQ(host->Usage({7, 100}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(host->Usage({8, 100}).status().code(), absl::StatusCode::kNotFound);
}

TEST(TheUsage, OfAProcessThatVanishesInMidReadIsNotFound) {
  const ProcTree no_status({{"proc/7/stat", StatLine{.pid = 7}.Text()}});
  EXPECT_EQ(no_status.Open()->Usage({7, 100}).status().code(), absl::StatusCode::kNotFound);
  const ProcTree no_stat({{"proc/7/status", kStatus}});
  EXPECT_EQ(no_stat.Open()->Usage({7, 100}).status().code(), absl::StatusCode::kNotFound);
}

std::string CommandLineOf(const std::string& recorded) {
  const ProcTree tree({{"proc/7/stat", StatLine{.pid = 7}.Text()}, {"proc/7/cmdline", recorded}});
  const auto line = tree.Open()->CommandLine({7, 100});
  EXPECT_TRUE(line.ok()) << line.status();
  return line.value_or("");
}

TEST(TheCommandLine, IsJoinedByBlanks) {
  EXPECT_EQ(CommandLineOf(std::string("python\0-m\0a b\0", 14)), "python -m a b");
  EXPECT_EQ(CommandLineOf(std::string("nginx: worker\0\0\0\0", 17)), "nginx: worker");
  EXPECT_EQ(CommandLineOf(""), "");
}

TEST(TheCommandLine, IsWholeHoweverLongItIs) {
  for (const std::size_t length : {4095u, 4096u, 4097u, 1'000'000u}) {
    EXPECT_EQ(CommandLineOf(std::string(length, 'x') + '\0').size(), length);
  }
}

TEST(TheCommandLine, OfAnotherProcessIsNotFound) {
  const ProcTree tree({{"proc/7/stat", StatLine{.pid = 7}.Text()}, {"proc/7/cmdline", "x"}});
  const auto host = tree.Open();
  EXPECT_EQ(host->CommandLine({7, 99}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(host->CommandLine({8, 100}).status().code(), absl::StatusCode::kNotFound);
}

TEST(TheBootId, IsReadWithoutItsNewline) {
  EXPECT_EQ(ProcTree({{"proc/sys/kernel/random/boot_id", "0f-1a\n"}}).Open()->BootId(), "0f-1a");
  EXPECT_EQ(ProcTree({}).Open()->BootId(), "");
}

}  // namespace
}  // namespace stageload::host
