// A Mac's processes: the table, who is whose, what each holds and what it was called with.
#include <algorithm>
#include <string>

#include "daemon/host/darwin_command_line.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/daemon/host/fake_mac.h"

namespace stageload::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using std::string_literals::operator""s;

std::vector<Process> ListOf(Host& host) {
  auto processes = host.Processes();
  EXPECT_TRUE(processes.ok()) << processes.status();
  return processes.value_or(std::vector<Process>{});
}

std::vector<std::int32_t> PidsOf(Host& host) {
  std::vector<std::int32_t> pids;
  for (const Process& process : ListOf(host)) pids.push_back(process.identity.pid);
  return pids;
}

Process FindIn(Host& host, std::int32_t pid) {
  for (const Process& process : ListOf(host)) {
    if (process.identity.pid == pid) return process;
  }
  ADD_FAILURE() << pid << " is not in the table";
  return {};
}

// ---- the table

TEST(TheDarwinProcessTable, HasWhatIsToBeKnownOfEachProcess) {
  FakeMac mac;
  mac.Add({.pid = 412, .parent = 400, .group = 405, .session = 400, .unique = 7001, .maker = 6900});
  mac.Add({.pid = 88, .session = 88, .uid = 0, .state = SSTOP, .unique = 300});
  const auto host = NewDarwinHost(mac);
  const std::vector<Process> processes = ListOf(*host);
  ASSERT_EQ(processes.size(), 2U);
  EXPECT_EQ(processes[0].identity, (core::ProcessIdentity{88, 300}));
  EXPECT_EQ(processes[0].session, 88);
  EXPECT_EQ(processes[0].uid, 0U);
  EXPECT_EQ(processes[0].state, 'T');
  EXPECT_EQ(processes[0].parent_at_fork, 0U);
  EXPECT_EQ(processes[1].identity, (core::ProcessIdentity{412, 7001}));
  EXPECT_EQ(processes[1].parent, 400);
  EXPECT_EQ(processes[1].group, 405);
  EXPECT_EQ(processes[1].session, 400);
  EXPECT_EQ(processes[1].uid, kUser);
  EXPECT_EQ(processes[1].state, 'R');
  EXPECT_EQ(processes[1].parent_at_fork, 6900U);
}

TEST(TheDarwinProcessTable, NamesEachState) {
  FakeMac mac;
  std::string states;
  for (const int state : {SIDL, SRUN, SSLEEP, SSTOP, SZOMB, 9}) {
    mac.Add({.pid = 10 + state, .state = state});
  }
  for (const Process& process : ListOf(*NewDarwinHost(mac))) states += process.state;
  EXPECT_EQ(states, "IRSTZ?");
}

TEST(TheDarwinProcessTable, LeavesTheKernelItselfOut) {
  FakeMac mac;
  mac.Add({.pid = 0});
  mac.Add({.pid = 1});
  EXPECT_THAT(PidsOf(*NewDarwinHost(mac)), ElementsAre(1));
}

TEST(TheDarwinProcessTable, MakesRoomForMoreProcesses) {
  FakeMac mac;
  for (int pid = 1; pid <= 5000; ++pid) mac.Add({.pid = pid});
  const auto host = NewDarwinHost(mac);
  EXPECT_EQ(ListOf(*host).size(), 5000U);
  EXPECT_EQ(mac.calls["kern.proc.all"], 4);  // 1024, 2048, 4096, 8192
  EXPECT_EQ(ListOf(*host).size(), 5000U);
  EXPECT_EQ(mac.calls["kern.proc.all"], 5) << "the room is kept";
}

TEST(TheDarwinProcessTable, FailsWhenThereIsNeverRoomEnough) {
  FakeMac mac;
  mac.fails["kern.proc.all"] = ENOMEM;
  const auto processes = NewDarwinHost(mac)->Processes();
  ASSERT_FALSE(processes.ok());
  EXPECT_THAT(std::string(processes.status().message()),
              HasSubstr("kern.proc.all, room for 131072"));
  EXPECT_EQ(mac.calls["kern.proc.all"], 8);
}

TEST(TheDarwinProcessTable, TellsWhyItCannotBeRead) {
  FakeMac mac;
  mac.Add({.pid = 5});
  const auto host = NewDarwinHost(mac);
  mac.fails["kern.proc.all"] = EPERM;
  const auto processes = host->Processes();
  EXPECT_EQ(processes.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(processes.status().message()), HasSubstr("list processes"));
  mac.fails.clear();
  EXPECT_THAT(PidsOf(*host), ElementsAre(5));
}

TEST(TheDarwinProcessTable, IsNotTakenFromAKernelWithProcessesOfAnotherSize) {
  class Strange : public FakeMac {
   public:
    int Sysctl(std::span<int> name, void* out, std::size_t* size) override {
      const int error = FakeMac::Sysctl(name, out, size);
      if (name[1] == KERN_PROC) *size += 8;
      return error;
    }
  };
  Strange mac;
  mac.Add({.pid = 5});
  const auto host = NewDarwinHost(mac);
  EXPECT_EQ(host->Processes().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(host->Find(5).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(host->Find(5).status().message()), HasSubstr("656 bytes"));
}

TEST(TheDarwinProcessTable, LeavesOutAProcessThatVanishesInMidRead) {
  FakeMac mac;
  mac.Add({.pid = 5});
  mac.Add({.pid = 6});
  mac.before = [&](const std::string& call) {
    if (call == "proc_pidinfo") mac.processes.erase(6);
  };
  EXPECT_THAT(PidsOf(*NewDarwinHost(mac)), ElementsAre(5));
}

TEST(TheDarwinProcessTable, AsksForWhatDoesNotChangeOnce) {
  FakeMac mac;
  for (int pid = 1; pid <= 50; ++pid) mac.Add({.pid = pid});
  const auto host = NewDarwinHost(mac);
  ListOf(*host);
  EXPECT_EQ(mac.calls["proc_pidinfo"], 50);
  EXPECT_EQ(mac.calls["getsid"], 49);  // pid 1 leads its session
  mac.Add({.pid = 51});
  ListOf(*host);
  EXPECT_EQ(mac.calls["proc_pidinfo"], 51);
  EXPECT_EQ(mac.calls["getsid"], 50);
}

TEST(TheDarwinProcessTable, SeesANewParentAGroupAndAnExecAtOnce) {
  FakeMac mac;
  MacProcess& process = mac.Add({.pid = 20, .parent = 10, .group = 10, .unique = 7, .maker = 6});
  const auto host = NewDarwinHost(mac);
  EXPECT_EQ(FindIn(*host, 20).parent, 10);
  process.parent = 1;
  process.group = 20;
  process.uid = 0;
  process.state = SSTOP;
  process.version = 2;
  const Process after = FindIn(*host, 20);
  EXPECT_EQ(after.parent, 1);
  EXPECT_EQ(after.parent_at_fork, 6U);
  EXPECT_EQ(after.group, 20);
  EXPECT_EQ(after.uid, 0U);
  EXPECT_EQ(after.state, 'T');
  EXPECT_EQ(after.identity.start, 7U);
}

TEST(TheDarwinProcessTable, SeesAProcessLeaveForASessionOfItsOwn) {
  FakeMac mac;
  MacProcess& process = mac.Add({.pid = 20, .session = 10});
  const auto host = NewDarwinHost(mac);
  EXPECT_EQ(FindIn(*host, 20).session, 10);
  process.session = 20;
  EXPECT_EQ(FindIn(*host, 20).session, 20);
  EXPECT_EQ(FindIn(*host, 20).session, 20);
}

TEST(TheDarwinProcessTable, KnowsAPidThatIsUsedAgainForAnotherProcess) {
  FakeMac mac;
  mac.Add({.pid = 20, .session = 10, .started = 100, .unique = 7, .maker = 6});
  const auto host = NewDarwinHost(mac);
  EXPECT_EQ(FindIn(*host, 20).identity.start, 7U);
  mac.Add({.pid = 20, .session = 11, .started = 101, .unique = 9, .maker = 8});
  const Process again = FindIn(*host, 20);
  EXPECT_EQ(again.identity.start, 9U);
  EXPECT_EQ(again.parent_at_fork, 8U);
  EXPECT_EQ(again.session, 11);
  mac.processes.erase(20);
  EXPECT_THAT(PidsOf(*host), IsEmpty());
}

TEST(TheDarwinProcessTable, PutsAZombieInASessionOfNobody) {
  FakeMac mac;
  mac.Add({.pid = 20, .session = 10, .state = SZOMB});
  mac.Add({.pid = 21, .session = 10, .state = SZOMB});
  MacProcess& ends = mac.Add({.pid = 22, .session = 10});
  const auto host = NewDarwinHost(mac);
  EXPECT_EQ(FindIn(*host, 20).session, 20);
  EXPECT_EQ(FindIn(*host, 21).session, 21);
  EXPECT_EQ(FindIn(*host, 20).identity.start, 1020U) << "its identity can be told";
  ends.state = SZOMB;
  EXPECT_EQ(FindIn(*host, 22).session, 10) << "it was known before";
}

TEST(TheDarwinProcessTable, KnowsAProcessByItsStartWhereThereAreNoUniqueIds) {
  for (const int error : {EINVAL, EPERM, ENOMEM}) {
    FakeMac mac;
    mac.Add({.pid = 20, .started = 1'760'000'123, .maker = 6});
    mac.fails["proc_pidinfo"] = error;
    const auto host = NewDarwinHost(mac);
    const Process process = FindIn(*host, 20);
    EXPECT_EQ(process.identity.start, 1'760'000'123'250'000U) << error;
    EXPECT_EQ(process.parent_at_fork, 0U);
    EXPECT_TRUE(host->Usage(process.identity).ok());
    mac.processes[20].started += 1;
    EXPECT_TRUE(absl::IsNotFound(host->Usage(process.identity).status()));
    mac.processes.erase(20);
    EXPECT_TRUE(absl::IsNotFound(host->Usage(process.identity).status()));
    mac.fails["kern.proc.pid"] = EPERM;
    EXPECT_TRUE(absl::IsPermissionDenied(host->Usage(process.identity).status()));
  }
}

TEST(TheDarwinProcessTable, TakesUniqueIdsFromKernelsThatTellLessOrMore) {
  FakeMac mac;
  mac.Add({.pid = 20, .unique = 7, .maker = 6});
  mac.identifiers_size = 96;  // more behind them
  EXPECT_EQ(FindIn(*NewDarwinHost(mac), 20).parent_at_fork, 6U);
  mac.identifiers_size = 24;  // up to p_uniqueid
  EXPECT_EQ(FindIn(*NewDarwinHost(mac), 20).identity.start, 7U);
  EXPECT_EQ(FindIn(*NewDarwinHost(mac), 20).parent_at_fork, 0U);
  mac.identifiers_size = 16;
  EXPECT_GT(FindIn(*NewDarwinHost(mac), 20).identity.start, 1'000'000'000'000U) << "its start";
}

// ---- one process

TEST(ADarwinProcess, IsFoundByItsPid) {
  FakeMac mac;
  mac.Add({.pid = 20, .parent = 3, .unique = 7});
  const auto host = NewDarwinHost(mac);
  const auto process = host->Find(20);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(process->identity, (core::ProcessIdentity{20, 7}));
  EXPECT_EQ(process->parent, 3);
}

TEST(ADarwinProcess, IsTheOneThatHasThePidNow) {
  FakeMac mac;
  mac.Add({.pid = 20, .started = 100, .unique = 7});
  const auto host = NewDarwinHost(mac);
  ListOf(*host);
  EXPECT_EQ(host->Find(20)->identity.start, 7U);
  EXPECT_EQ(mac.calls["proc_pidinfo"], 1) << "it is known from the table";
  mac.Add({.pid = 20, .started = 101, .unique = 9});
  EXPECT_EQ(host->Find(20)->identity.start, 9U);
}

TEST(ADarwinProcess, IsNotFoundWhenThereIsNone) {
  FakeMac mac;
  mac.Add({.pid = 0});
  const auto host = NewDarwinHost(mac);
  EXPECT_TRUE(absl::IsNotFound(host->Find(21).status()));
  EXPECT_TRUE(absl::IsNotFound(host->Find(0).status()));
  EXPECT_TRUE(absl::IsNotFound(host->Find(-1).status()));
  mac.Add({.pid = 22});
  mac.fails["kern.proc.pid"] = ESRCH;
  EXPECT_TRUE(absl::IsNotFound(host->Find(22).status()));
  mac.fails.clear();
  mac.fails["proc_pidinfo"] = ESRCH;  // it ended in between
  EXPECT_TRUE(absl::IsNotFound(host->Find(22).status()));
}

TEST(ADarwinProcess, ThatCannotBeReadIsNotSaidToBeGone) {
  FakeMac mac;
  mac.Add({.pid = 20});
  mac.fails["kern.proc.pid"] = EIO;
  const auto process = NewDarwinHost(mac)->Find(20);
  ASSERT_FALSE(process.ok());
  EXPECT_FALSE(absl::IsNotFound(process.status()));
  EXPECT_THAT(std::string(process.status().message()), HasSubstr("kern.proc.pid.20"));
}

// ---- what it holds

TEST(ADarwinUsage, IsTheFootprintAndWhatIsCompressedOfIt) {
  FakeMac mac;
  mac.Add({.pid = 20, .unique = 7, .footprint = GiB(29), .compressed = GiB(11)});
  const auto usage = NewDarwinHost(mac)->Usage({20, 7});
  ASSERT_TRUE(usage.ok()) << usage.status();
  EXPECT_EQ(usage->footprint, GiB(29));
  EXPECT_EQ(usage->swapped, GiB(11));
  EXPECT_EQ(mac.calls["proc_pid_rusage"], 0) << "one of the two tells it all";
}

TEST(ADarwinUsage, FallsBackToTheFootprintAlone) {
  for (const char* call : {"task_name_for_pid", "task_info"}) {
    FakeMac mac;
    mac.Add({.pid = 20, .unique = 7, .footprint = GiB(29), .compressed = GiB(11)});
    mac.fails[call] = KERN_FAILURE;
    const auto usage = NewDarwinHost(mac)->Usage({20, 7});
    ASSERT_TRUE(usage.ok()) << call << usage.status();
    EXPECT_EQ(usage->footprint, GiB(29)) << call;
    EXPECT_EQ(usage->swapped, std::nullopt) << call;
    EXPECT_EQ(mac.open_ports(), 0U) << call;
  }
  FakeMac old;
  old.Add({.pid = 20, .unique = 7, .footprint = GiB(29)});
  old.task_words = 36;  // without phys_footprint
  EXPECT_EQ(NewDarwinHost(old)->Usage({20, 7})->footprint, GiB(29));
  EXPECT_EQ(NewDarwinHost(old)->Usage({20, 7})->swapped, std::nullopt);
  EXPECT_EQ(old.open_ports(), 0U);
}

TEST(ADarwinUsage, GivesBackEveryPort) {
  FakeMac mac;
  mac.Add({.pid = 20, .unique = 7, .footprint = GiB(1)});
  const auto host = NewDarwinHost(mac);
  const std::size_t before = mac.open_ports();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(host->Usage({20, 7}).ok());
  mac.fails["task_info"] = KERN_FAILURE;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(host->Usage({20, 7}).ok());
  EXPECT_EQ(mac.calls["task_name_for_pid"], 200);
  EXPECT_EQ(mac.open_ports(), before);
}

TEST(ADarwinUsage, TakesAPortOfNobodyForNone) {
  class Losing : public FakeMac {
   public:
    kern_return_t TaskNameForPid(pid_t, mach_port_t* task) override {
      *task = port;
      return KERN_SUCCESS;
    }
    mach_port_t port = MACH_PORT_NULL;
  };
  Losing mac;
  mac.Add({.pid = 20, .unique = 7, .footprint = GiB(3), .compressed = GiB(1)});
  for (const mach_port_t port : {mach_port_t{MACH_PORT_NULL}, mach_port_t{MACH_PORT_DEAD}}) {
    mac.port = port;
    const auto usage = NewDarwinHost(mac)->Usage({20, 7});
    ASSERT_TRUE(usage.ok());
    EXPECT_EQ(usage->footprint, GiB(3));
    EXPECT_EQ(usage->swapped, std::nullopt);
  }
  EXPECT_EQ(mac.calls["task_info"], 0);
}

TEST(ADarwinUsage, OfAnotherUserIsAbsentAndNotZero) {
  FakeMac mac;
  mac.Add({.pid = 20, .uid = 0, .unique = 7, .footprint = GiB(1)});
  const auto usage = NewDarwinHost(mac)->Usage({20, 7});
  ASSERT_TRUE(usage.ok()) << usage.status();
  EXPECT_EQ(usage->footprint, std::nullopt);
  EXPECT_EQ(usage->swapped, std::nullopt);
}

TEST(ADarwinUsage, OfAZombieIsNothing) {
  FakeMac mac;
  mac.Add({.pid = 20, .state = SZOMB, .unique = 7, .footprint = GiB(1), .compressed = GiB(1)});
  const auto usage = NewDarwinHost(mac)->Usage({20, 7});
  ASSERT_TRUE(usage.ok()) << usage.status();
  EXPECT_EQ(usage->footprint, Bytes(0));
  EXPECT_EQ(usage->swapped, Bytes(0));
}

TEST(ADarwinUsage, IsNotToldOfAProcessThatIsGoneOrAnother) {
  FakeMac mac;
  mac.Add({.pid = 20, .unique = 7, .footprint = GiB(1)});
  const auto host = NewDarwinHost(mac);
  EXPECT_TRUE(absl::IsNotFound(host->Usage({20, 6}).status())) << "another one's";
  EXPECT_TRUE(absl::IsNotFound(host->Usage({21, 7}).status()));
  // It ends, and its pid is used again, after its figures were read.
  mac.before = [&](const std::string& call) {
    if (call == "proc_pidinfo") mac.processes[20].unique = 8;
  };
  EXPECT_TRUE(absl::IsNotFound(host->Usage({20, 7}).status()));
}

TEST(ADarwinUsage, ThatCannotBeReadIsAnErrorThatSaysWhat) {
  FakeMac mac;
  mac.Add({.pid = 20, .unique = 7});
  mac.fails["task_name_for_pid"] = KERN_FAILURE;
  mac.fails["proc_pid_rusage"] = EINVAL;
  const auto usage = NewDarwinHost(mac)->Usage({20, 7});
  ASSERT_FALSE(usage.ok());
  EXPECT_THAT(std::string(usage.status().message()), HasSubstr("rusage of process 20"));
  mac.fails["proc_pid_rusage"] = ESRCH;
  EXPECT_TRUE(absl::IsNotFound(NewDarwinHost(mac)->Usage({20, 7}).status()));
}

TEST(ADarwinUsage, DoesNotWrapAround) {
  FakeMac mac;
  // As the kernel would give a balance that has gone below zero.
  mac.Add({.pid = 20, .unique = 7, .footprint = Bytes(-1), .compressed = Bytes(-16384)});
  EXPECT_EQ(NewDarwinHost(mac)->Usage({20, 7})->footprint, Bytes::Max());
}

// ---- what it was called with

TEST(ADarwinCommandLine, IsTheArgumentsWithoutPathAndEnvironment) {
  FakeMac mac;
  mac.Add({.pid = 20,
           .unique = 7,
           .arguments = Procargs2(3,
                                  "/usr/bin/python3\0\0\0\0\0\0\0\0python\0gen.py\0--x=a b\0"
                                  "SECRET=1\0HOME=/\0"s)});
  EXPECT_EQ(NewDarwinHost(mac)->CommandLine({20, 7}).value_or("?"), "python gen.py --x=a b");
}

TEST(ADarwinCommandLine, IsReadOncePerProcessAndExec) {
  FakeMac mac;
  MacProcess& process = mac.Add({.pid = 20, .unique = 7, .arguments = Procargs2(1, "/a\0a\0"s)});
  const auto host = NewDarwinHost(mac);
  ListOf(*host);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(host->CommandLine({20, 7}).value_or("?"), "a");
    ListOf(*host);
  }
  EXPECT_EQ(mac.calls["kern.procargs2"], 1);
  process.arguments = Procargs2(2, "/b\0b\0-v\0"s);
  EXPECT_EQ(host->CommandLine({20, 7}).value_or("?"), "a") << "without an exec";
  process.version = 2;
  EXPECT_EQ(host->CommandLine({20, 7}).value_or("?"), "b -v");
  EXPECT_EQ(host->CommandLine({20, 7}).value_or("?"), "b -v");
  EXPECT_EQ(mac.calls["kern.procargs2"], 2);
  // Another process with its pid, in the same state.
  mac.Add(
      {.pid = 20, .started = 5, .unique = 8, .version = 2, .arguments = Procargs2(1, "/c\0c\0"s)});
  EXPECT_TRUE(absl::IsNotFound(host->CommandLine({20, 7}).status()));
  EXPECT_EQ(host->CommandLine({20, 8}).value_or("?"), "c");
  ListOf(*host);
  EXPECT_EQ(host->CommandLine({20, 8}).value_or("?"), "c");
}

TEST(ADarwinCommandLine, ReadInTheMiddleOfAnExecIsNotKept) {
  FakeMac mac;
  MacProcess& process = mac.Add({.pid = 20, .unique = 7, .arguments = Procargs2(1, "/a\0a\0"s)});
  const auto host = NewDarwinHost(mac);
  ListOf(*host);
  mac.before = [&](const std::string& call) {
    if (call == "kern.procargs2") process.version = 2;
  };
  EXPECT_EQ(host->CommandLine({20, 7}).value_or("?"), "a");
  mac.before = nullptr;
  process.arguments = Procargs2(1, "/b\0b\0"s);
  EXPECT_EQ(host->CommandLine({20, 7}).value_or("?"), "b");
}

TEST(ADarwinCommandLine, ThatMayNotBeReadIsTheName) {
  FakeMac mac;
  mac.Add({.pid = 20, .uid = 0, .unique = 7, .name = "mds_stores", .arguments = "x"});
  mac.Add({.pid = 21, .state = SZOMB, .unique = 8, .name = "seventeen letters long"});
  mac.Add({.pid = 22, .unique = 9, .name = "wiped", .arguments = Procargs2(1, "")});
  const auto host = NewDarwinHost(mac);
  ListOf(*host);
  EXPECT_EQ(host->CommandLine({20, 7}).value_or("?"), "mds_stores");
  EXPECT_EQ(host->CommandLine({21, 8}).value_or("?"), "seventeen letters");
  EXPECT_EQ(host->CommandLine({22, 9}).value_or("?"), "wiped");
  EXPECT_EQ(host->CommandLine({20, 7}).value_or("?"), "mds_stores");
  EXPECT_EQ(mac.calls["kern.proc.pid"], 0) << "the table has the names";
}

TEST(ADarwinCommandLine, ThatCannotBeReadJustNowIsTheNameOnlyForNow) {
  FakeMac mac;
  mac.Add({.pid = 20, .unique = 7, .name = "nm", .arguments = Procargs2(1, "/a\0a\0"s)});
  const auto host = NewDarwinHost(mac);
  ListOf(*host);
  for (const int error : {EIO, EINVAL, ENOMEM}) {  // EINVAL also in the middle of an exec
    mac.fails["kern.procargs2"] = error;
    EXPECT_EQ(host->CommandLine({20, 7}).value_or("?"), "nm");
    const auto stranger = NewDarwinHost(mac);  // that has no table
    EXPECT_EQ(stranger->CommandLine({20, 7}).value_or("?"), "nm");
    mac.fails["kern.proc.pid"] = EIO;
    EXPECT_EQ(stranger->CommandLine({20, 7}).value_or("?"), "") << "nor its name";
    mac.fails.clear();
  }
  EXPECT_EQ(host->CommandLine({20, 7}).value_or("?"), "a");
}

TEST(ADarwinCommandLine, OfAProcessThatIsGoneIsNotFound) {
  FakeMac mac;
  mac.Add({.pid = 20, .unique = 7, .arguments = Procargs2(1, "/a\0a\0"s)});
  const auto host = NewDarwinHost(mac);
  EXPECT_TRUE(absl::IsNotFound(host->CommandLine({21, 7}).status()));
  mac.before = [&](const std::string& call) {
    if (call == "kern.procargs2") mac.processes.erase(20);
  };
  EXPECT_TRUE(absl::IsNotFound(host->CommandLine({20, 7}).status()));
}

TEST(ADarwinCommandLine, IsReadInFullHoweverLong) {
  for (const int argmax : {1024 * 1024, 4 * 1024 * 1024}) {
    FakeMac mac;
    mac.argmax = argmax;
    const std::string longest(static_cast<std::size_t>(argmax) - 4, 'x');
    mac.Add({.pid = 20, .unique = 7, .arguments = Procargs2(1, "/a\0"s + longest + "\0"s)});
    EXPECT_EQ(NewDarwinHost(mac)->CommandLine({20, 7}).value_or("?"), longest);
  }
  FakeMac untold;
  untold.fails["kern.argmax"] = ENOENT;
  untold.Add({.pid = 20, .unique = 7, .arguments = Procargs2(1, "/a\0ab\0"s)});
  EXPECT_EQ(NewDarwinHost(untold)->CommandLine({20, 7}).value_or("?"), "ab");
  FakeMac negative;
  negative.argmax = -1;
  negative.Add({.pid = 20, .unique = 7, .arguments = Procargs2(1, "/a\0ab\0"s)});
  EXPECT_EQ(NewDarwinHost(negative)->CommandLine({20, 7}).value_or("?"), "ab");
}

TEST(ADarwinCommandLine, IsWhatItsTextSaysWhateverAProcessWroteThere) {
  EXPECT_EQ(ArgumentsOf(""), "");
  EXPECT_EQ(ArgumentsOf("\1\0\0"s), "") << "not even a count";
  EXPECT_EQ(ArgumentsOf(Procargs2(1, "")), "");
  EXPECT_EQ(ArgumentsOf(Procargs2(0, "/a\0a\0"s)), "");
  EXPECT_EQ(ArgumentsOf(Procargs2(-5, "/a\0a\0"s)), "");
  EXPECT_EQ(ArgumentsOf(Procargs2(1, "/a"s)), "") << "a path without an end";
  EXPECT_EQ(ArgumentsOf(Procargs2(1, "/a\0\0\0"s)), "") << "nothing behind the path";
  EXPECT_EQ(ArgumentsOf(Procargs2(1, "/a\0\0\0cut"s)), "cut") << "an argument without an end";
  EXPECT_EQ(ArgumentsOf(Procargs2(2, "/a\0b\0c"s)), "b c");
  EXPECT_EQ(ArgumentsOf(Procargs2(3, "/a\0b\0\0c\0D=1\0"s)), "b  c") << "an empty one counts";
  EXPECT_EQ(ArgumentsOf(Procargs2(2147483647, "/a\0b\0c\0"s)), "b c") << "a count that lies";
  EXPECT_EQ(ArgumentsOf(Procargs2(1, "\0\0\0b\0"s)), "b") << "without a path";
  EXPECT_EQ(ArgumentsOf(std::string(1000, '\0')), "");
  EXPECT_EQ(ArgumentsOf(std::string(1000, '\xff')), "") << "a negative count, and no end";
}

// Every cut of a good one, and every byte of it another: nothing is read from outside of it, which
// the asan preset sees, and nothing comes that was not in it.
TEST(ADarwinCommandLine, IsNeverLongerThanWhatItWasReadFrom) {
  const std::string good = Procargs2(3, "/usr/bin/x\0\0\0\0x\0-a\0b c\0E=1\0"s);
  ASSERT_EQ(ArgumentsOf(good), "x -a b c");
  for (std::size_t cut = 0; cut <= good.size(); ++cut) {
    const std::string part(good.data(), cut);
    EXPECT_LE(ArgumentsOf(part).size(), cut);
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char byte : {'\0', '\1', '\x7f', '\x80', '\xff', '/'}) {
      std::string other = good;
      other[at] = byte;
      EXPECT_LE(ArgumentsOf(other).size(), other.size());
    }
  }
}

}  // namespace
}  // namespace stageload::host
