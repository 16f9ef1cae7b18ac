// Each check of `doctor`: from what was found to a line, with what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <ostream>
#include <string>

#include "base/private_folder.h"
#include "base/version.h"
#include "client/ctl/build_day.h"
#include "client/ctl/doctor_counters.h"
#include "client/ctl/doctor_daemon.h"
#include "client/ctl/doctor_files.h"
#include "client/ctl/doctor_machine.h"
#include "client/ctl/doctor_platform.h"
#include "client/ctl/doctor_service.h"
#include "tests/fixture.h"

namespace stageload::ctl {

void PrintTo(const Finding& finding, std::ostream* stream) {
  *stream << finding.check << " [" << static_cast<int>(finding.verdict) << "] " << finding.text
          << " -> " << finding.fix;
}

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;
using ::testing::Not;

// A line that fails or warns without saying what to do helps nobody.
Matcher<const Finding&> Is(Verdict verdict, const std::string& text, const std::string& fix) {
  return AllOf(Field(&Finding::verdict, verdict), Field(&Finding::text, HasSubstr(text)),
               Field(&Finding::fix, fix.empty() ? Matcher<const std::string&>(Not(IsEmpty()))
                                                : Matcher<const std::string&>(HasSubstr(fix))));
}
Matcher<const Finding&> Oks(const std::string& text) {
  return AllOf(Field(&Finding::verdict, Verdict::kOk), Field(&Finding::text, HasSubstr(text)),
               Field(&Finding::fix, IsEmpty()));
}
Matcher<const Finding&> Warns(const std::string& text, const std::string& fix = "") {
  return Is(Verdict::kWarn, text, fix);
}
Matcher<const Finding&> Fails(const std::string& text, const std::string& fix = "") {
  return Is(Verdict::kFail, text, fix);
}

// ---- counters ----

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Json LinuxProbe() {
  return {{"clock",
           {{"awake_ns", 5'000'000'000},
            {"continuous_ns", 5'000'000'000},
            {"wall_ns", 4'000'000'000'000'000'000}}},
          {"host",
           {{"level_percent", 75.0},
            {"total_bytes", 8 * kGiB},
            {"available_bytes", 6 * kGiB},
            {"swap_used_bytes", 0},
            {"swap_total_bytes", 2 * kGiB},
            {"pressure", "NORMAL"},
            {"wired_bytes", kGiB / 8},
            {"swapped_in_total_bytes", 1000},
            {"swapped_out_total_bytes", 2000}}},
          {"processes", 90},
          {"self",
           {{"uid", ::geteuid()},
            {"footprint_bytes", 2'000'000},
            {"swapped_bytes", 0},
            {"command_line", "/bin/stageloadd --probe"}}}};
}
Json MacProbe() {
  Json probe = LinuxProbe();
  probe["host"]["level_percent"] = 81;
  probe["host"]["compressed_bytes"] = kGiB;
  probe["host"]["pageable_internal_bytes"] = 2 * kGiB;
  return probe;
}
Json Later(Json probe) {
  for (const char* clock : {"awake_ns", "continuous_ns", "wall_ns"}) {
    probe["clock"][clock] = probe["clock"][clock].get<std::int64_t>() + 7'000'000;
  }
  return probe;
}

Machine LinuxMachine() {
  Machine machine;
  machine.platform = Platform::kLinux;
  machine.memory = GiB(8);
  return machine;
}
Machine Mac() {
  Machine machine = LinuxMachine();
  machine.platform = Platform::kMacos;
  machine.swap_enabled = true;
  return machine;
}

// The line of this check.
Finding Of(const std::string& check, const Json& probe, const Machine& machine) {
  for (const Finding& finding : CheckCounters(LinuxProbe(), probe, machine)) {
    if (finding.check == check) return finding;
  }
  return Fail("", "there is no line about " + check, "");
}

TEST(DoctorCounters, AllIsWellOnAMachineThatTellsAll) {
  for (const Finding& finding : CheckCounters(LinuxProbe(), Later(LinuxProbe()), LinuxMachine())) {
    EXPECT_THAT(finding, Oks(""));
  }
  for (const Finding& finding : CheckCounters(MacProbe(), Later(MacProbe()), Mac())) {
    EXPECT_THAT(finding, Oks(""));
  }
}

TEST(DoctorCounters, TheLevelMustBeThereBeAPercentageAndFitTheBytes) {
  Json probe = LinuxProbe();
  EXPECT_THAT(Of("level", probe, LinuxMachine()), Oks("75 % of memory available"));
  probe["host"]["level_percent"] = 30;
  EXPECT_THAT(Of("level", probe, LinuxMachine()), Fails("6 GiB of 8 GiB are 75 %"));
  EXPECT_THAT(Of("level", probe, Mac()), Oks("30 %")) << "a Mac's level is the kernel's own";
  probe["host"]["level_percent"] = 140;
  EXPECT_THAT(Of("level", probe, Mac()), Fails("it reads 140"));
  probe["host"]["level_percent"] = 6;
  EXPECT_THAT(Of("level", probe, Mac()), Warns("low: 6 %", "stageloadctl top"));
  probe["host"].erase("level_percent");
  EXPECT_THAT(Of("level", probe, Mac()), Fails("cannot be read", "doctor --json"));
  probe["host"]["level_percent"] = "75";
  EXPECT_THAT(Of("level", probe, Mac()), Fails("cannot be read"));
}

TEST(DoctorCounters, MemoryIsNoMoreThanThereIs) {
  Json probe = LinuxProbe();
  probe["host"]["available_bytes"] = 9 * kGiB;
  EXPECT_THAT(Of("memory", probe, LinuxMachine()), Fails("makes no sense: 9 GiB of 8 GiB"));
  probe = LinuxProbe();
  Machine machine = LinuxMachine();
  machine.memory = GiB(32);
  EXPECT_THAT(Of("memory", probe, machine), Oks("a cgroup limits it, the machine has 32 GiB"));
  machine.memory = GiB(4);
  EXPECT_THAT(Of("memory", probe, machine), Fails("but the machine has 4 GiB"));
  machine = Mac();
  machine.memory = GiB(48);
  EXPECT_THAT(Of("memory", MacProbe(), machine), Fails("but the machine has 48 GiB"));
  probe["host"].erase("available_bytes");
  EXPECT_THAT(Of("memory", probe, LinuxMachine()), Fails("cannot be read"));
}

TEST(DoctorCounters, PressureIsToldAndMayBeMissingOnLinuxOnly) {
  Json probe = LinuxProbe();
  probe["host"]["pressure"] = "CRITICAL";
  EXPECT_THAT(Of("pressure", probe, LinuxMachine()), Warns("CRITICAL", "stageloadctl top"));
  probe["host"].erase("pressure");
  EXPECT_THAT(Of("pressure", probe, LinuxMachine()), Warns("does not tell", "psi=1"));
  EXPECT_THAT(Of("pressure", probe, Mac()), Fails("cannot be read"));
}

TEST(DoctorCounters, CompressedAndWiredAreThereOnAMacAndNoMoreThanMemory) {
  EXPECT_THAT(Of("compressed_wired", LinuxProbe(), LinuxMachine()), Oks("compressed unknown"));
  EXPECT_THAT(Of("compressed_wired", LinuxProbe(), Mac()), Fails("not all can be read"));
  Json probe = MacProbe();
  probe["host"]["wired_bytes"] = 64'000 * kGiB;
  EXPECT_THAT(Of("compressed_wired", probe, Mac()), Fails("more than there is memory"));
}

TEST(DoctorCounters, WhatCountsSinceBootDoesNotGoBack) {
  Json probe = LinuxProbe();
  probe["host"]["swapped_out_total_bytes"] = 1999;
  EXPECT_THAT(Of("paging", probe, LinuxMachine()), Fails("went back from 2000 to 1999"));
  probe["host"].erase("swapped_out_total_bytes");
  EXPECT_THAT(Of("paging", probe, LinuxMachine()), Warns("cannot be read"));
  EXPECT_THAT(Of("paging", probe, Mac()), Fails("cannot be read"));
}

TEST(DoctorCounters, AProbesOwnProcessIsFoundAndOfAPlausibleSize) {
  Json probe = LinuxProbe();
  EXPECT_THAT(Of("processes", probe, LinuxMachine()), Oks("90 listed"));
  probe["self"]["footprint_bytes"] = 12;
  EXPECT_THAT(Of("processes", probe, LinuxMachine()), Fails("makes no sense"));
  probe = LinuxProbe();
  probe["self"]["uid"] = ::geteuid() + 1;
  EXPECT_THAT(Of("processes", probe, LinuxMachine()), Fails("makes no sense"));
  probe = LinuxProbe();
  probe["self"].erase("swapped_bytes");
  EXPECT_THAT(Of("processes", probe, Mac()), Warns("charged by footprints"));
  probe["self"].erase("footprint_bytes");
  EXPECT_THAT(Of("processes", probe, Mac()), Fails("footprint cannot be read"));
  probe = LinuxProbe();
  probe["self"].erase("command_line");
  EXPECT_THAT(Of("processes", probe, LinuxMachine()), Warns("no --busy works"));
  probe["processes"] = 0;
  EXPECT_THAT(Of("processes", probe, LinuxMachine()), Fails("list of processes"));
}

TEST(DoctorCounters, WhatAProbeCouldNotReadIsALineOfItsOwn) {
  Json probe = LinuxProbe();
  probe["errors"] = {{"usage", "proc_pid_rusage: Operation not permitted"}};
  EXPECT_THAT(Of("probe", probe, LinuxMachine()),
              Fails("usage: proc_pid_rusage: Operation not permitted", "doctor --json"));
}

TEST(DoctorCounters, ADocumentOfAnotherShapeIsJudgedAndNotThrownAt) {
  for (const Json& odd : {Json::object(), Json{{"host", 7}, {"self", "x"}, {"clock", nullptr}},
                          Json{{"processes", "many"}, {"errors", {1, 2}}}}) {
    EXPECT_THAT(Of("level", odd, Mac()), Fails("cannot be read"));
    EXPECT_THAT(CheckClocks(odd, odd, BuildTime()), Fails("cannot be read"));
  }
}

TEST(DoctorClocks, GoForwardAndDifferByTheTimeAsleep) {
  const Json first = LinuxProbe();
  const absl::Time built = absl::FromUnixSeconds(1'700'000'000);
  EXPECT_THAT(CheckClocks(first, Later(first), built), Oks("asleep never"));
  Json slept = Later(first);
  slept["clock"]["continuous_ns"] = 7'205'007'000'000;
  EXPECT_THAT(CheckClocks(first, slept, built), Oks("up 2h00m, asleep 2h00m"));
  EXPECT_THAT(CheckClocks(Later(first), first, built), Fails("do not go forward"));
  EXPECT_THAT(CheckClocks(first, first, built), Fails("do not go forward"));
  Json behind = Later(first);
  behind["clock"]["awake_ns"] = 9'000'000'000;
  EXPECT_THAT(CheckClocks(first, behind, built), Fails("behind the one that stops"));
}

TEST(DoctorClocks, AWallClockFromBeforeTheBuildIsWrong) {
  Json second = Later(LinuxProbe());
  second["clock"]["wall_ns"] = 0;
  EXPECT_THAT(CheckClocks(LinuxProbe(), second, BuildTime()), Fails("1970-01-01", "set the clock"));
  EXPECT_LT(BuildTime(), absl::Now()) << BuildDay();
  EXPECT_GT(BuildTime(), absl::FromUnixSeconds(1'577'836'800)) << BuildDay();
}

TEST(DoctorSnapshot, TheDaemonMustReadWhatAProbeReads) {
  const Json probe = LinuxProbe();
  Snapshot snapshot{79.5, GiB(8), absl::Milliseconds(600)};
  EXPECT_THAT(CheckSnapshot(snapshot, probe), Oks("level 79.5 %, and a probe 75 %"));
  snapshot.level = 80.5;
  EXPECT_THAT(CheckSnapshot(snapshot, probe), Fails("80.5 %", "daemon restart"));
  snapshot.total = GiB(2);
  EXPECT_THAT(CheckSnapshot(snapshot, probe), Warns("cgroups of different limits"));
  snapshot.age = absl::Seconds(9);
  EXPECT_THAT(CheckSnapshot(snapshot, probe), Fails("9s old: it admits nothing"));
  EXPECT_THAT(CheckSnapshot({std::nullopt, GiB(8), absl::ZeroDuration()}, probe),
              Fails("tells no level", "log"));
}

// ---- swap, disks, limits ----

TEST(DoctorSwap, OnLinuxNoneIsAWarningAndAFullOneToo) {
  Machine machine = LinuxMachine();
  EXPECT_THAT(CheckSwap(machine, Bytes(0), Bytes(0)),
              Warns("the kernel kills what does not fit", "swapon"));
  machine.swap_areas = {{"/dev/sda2", "partition", GiB(4)}};
  EXPECT_THAT(CheckSwap(machine, GiB(1), GiB(4)),
              Oks("1 GiB used of 4 GiB: /dev/sda2 (partition, 4 GiB)"));
  EXPECT_THAT(CheckSwap(machine, MiB(3900), GiB(4)), Warns("nearly full"));
  EXPECT_THAT(CheckSwap(machine, std::nullopt, GiB(4)), Fails("cannot be read"));
}

#ifdef __linux__
TEST(DoctorSwap, AnAreasPathIsReadAsTheKernelWritesIt) {
  const auto areas = SwapAreasIn(
      "Filename\tType\tSize\tUsed\tPriority\n"
      "/swap\\040file\\134x file 1024 0 -2\n"
      "/dev/vda2 partition 2048 0 -3\n");
  ASSERT_EQ(areas.size(), 2u);
  EXPECT_EQ(areas[0].path, "/swap file\\x");
  EXPECT_EQ(areas[0].size, MiB(1));
  EXPECT_EQ(areas[1].path, "/dev/vda2");
}
#endif

TEST(DoctorSwap, OnAMacNoneYetIsWellAndOffIsNot) {
  Machine machine = Mac();
  EXPECT_THAT(CheckSwap(machine, Bytes(0), Bytes(0)), Oks("it makes more as it needs it"));
  EXPECT_THAT(CheckSwap(machine, MiB(1000), MiB(1024)), Oks("")) << "it makes another file";
  machine.swap_enabled = false;
  EXPECT_THAT(CheckSwap(machine, Bytes(0), Bytes(0)), Warns("it is off", "switch it on"));
}

TEST(DoctorSwap, OnlyAMacsTakesDiskAsItGrows) {
  Disk disk{"/System/Volumes/VM", absl::OkStatus(), GiB(1), GiB(500)};
  EXPECT_THAT(CheckSwapDisk(LinuxMachine(), disk), Oks("does not grow"));
  EXPECT_THAT(CheckSwapDisk(Mac(), disk), Fails("1 GiB free of 500 GiB at /System/Volumes/VM"));
  disk.free = GiB(5);
  EXPECT_THAT(CheckSwapDisk(Mac(), disk), Warns("little for swap", "free some disk"));
  disk.free = GiB(50);
  EXPECT_THAT(CheckSwapDisk(Mac(), disk), Oks("50 GiB free"));
}

TEST(DoctorDisk, AFullOrReadOnlyHomeFailsSinceSubmitsDo) {
  Disk disk{"/home/me", absl::OkStatus(), GiB(20), GiB(100)};
  EXPECT_THAT(CheckStateDisk(disk), Oks("20 GiB free of 100 GiB at /home/me"));
  disk.free = MiB(500);
  EXPECT_THAT(CheckStateDisk(disk), Warns("little: 500 MiB", "stageloadctl clear"));
  disk.free = MiB(20);
  EXPECT_THAT(CheckStateDisk(disk), Fails("too little: 20 MiB", "submits fail"));
  disk.free = GiB(20);
  disk.out_of_files = true;
  EXPECT_THAT(CheckStateDisk(disk), Fails("no inode left"));
  disk.read_only = true;
  EXPECT_THAT(CheckStateDisk(disk), Fails("mounted read-only", "mount it writable"));
}

TEST(DoctorDisk, AFolderThatIsNotThereYetIsJudgedByTheOneAbove) {
  const Disk disk = ReadDisk("/tmp/not-there-yet/at all");
  EXPECT_TRUE(disk.read.ok()) << disk.read;
  EXPECT_GT(disk.size, Bytes(0));
  EXPECT_LE(disk.free, disk.size);
}

TEST(DoctorMachine, OfThisMachineIsFilledIn) {
  const Machine machine = ReadMachine();
  EXPECT_GT(machine.memory, MiB(64));
  EXPECT_GE(machine.page, KiB(4));
  EXPECT_GT(machine.processors, 0);
  EXPECT_THAT(Described(machine), AllOf(HasSubstr(machine.release), HasSubstr("memory, pages of")));
  const Limits own = OwnLimits();
  ASSERT_TRUE(own.files && own.processes);
#ifdef __linux__
  const auto same = LimitsOf(::getpid());
  ASSERT_TRUE(same && same->files && same->processes);
  EXPECT_EQ(same->files->soft, own.files->soft);
  EXPECT_EQ(same->files->hard, own.files->hard);
  EXPECT_EQ(same->processes->soft, own.processes->soft);
  EXPECT_EQ(StateOf(::getpid()), 'R');
  EXPECT_EQ(LimitsOf(0), std::nullopt) << "there is no such process";
#endif
}

TEST(DoctorLimits, TooFewFilesForTheSessionsAreAWarning) {
  constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
  const Limits plenty{Limit{1024, 524288}, Limit{kUnlimited, kUnlimited}};
  EXPECT_THAT(CheckOwnLimits(plenty, false), Oks("open files 1024 (at most 524288), processes "
                                                 "unlimited"));
  EXPECT_THAT(CheckOwnLimits({Limit{64, 64}, plenty.processes}, false), Warns("64", "ulimit -n"));
  EXPECT_THAT(CheckOwnLimits({plenty.files, Limit{100, 100}}, false), Warns("100", "ulimit -u"));
  EXPECT_THAT(CheckOwnLimits({plenty.files, Limit{100, 100}}, true), Oks("100"))
      << "root is not held by it";
  EXPECT_THAT(CheckDaemonLimits(plenty, std::nullopt, 1000), Oks("room for 8192 open files"));
  EXPECT_THAT(CheckDaemonLimits({Limit{256, 1024}, plenty.processes}, std::nullopt, 1000),
              Warns("room for 1024 open files; 1000 sessions (max_sessions) take up to 2128",
                    "ulimit -Hn 2128"));
  EXPECT_THAT(CheckDaemonLimits(plenty, Limits{Limit{1024, 1024}, {}}, 100), Oks("the daemon has"));
  EXPECT_THAT(CheckDaemonLimits(plenty, Limits{Limit{256, 1024}, {}}, 100), Warns("up to 328"));
}

// ---- the daemon ----

DaemonFacts Silent(const absl::Status& status) {
  DaemonFacts facts;
  facts.paths.socket = "/run/s.sock";
  facts.paths.state = "/home/s";
  facts.paths.logs = "/home/s/log";
  facts.paths.lock = "/home/s/lock";
  facts.silence = status;
  return facts;
}

TEST(DoctorDaemon, NoneThatRunsIsWellUnlessNobodyMayStartOne) {
  DaemonFacts facts = Silent(absl::UnavailableError("no daemon answers"));
  EXPECT_THAT(CheckDaemon(facts, absl::Now()), Oks("the next command that needs one starts it"));
  facts.may_start = false;
  EXPECT_THAT(CheckDaemon(facts, absl::Now()), Warns("NO_AUTOSTART", "daemon start"));
}

TEST(DoctorDaemon, ADeadOneIsKnownByTheSocketThatItLeft) {
  DaemonFacts facts = Silent(absl::UnavailableError("no daemon answers"));
  facts.socket_file = true;
  facts.lock_pid = 99;
  EXPECT_THAT(CheckDaemon(facts, absl::Now()),
              Fails("the last (pid 99) was killed or has crashed", "`stageloadctl daemon start`"));
  facts.socket_of_service = true;
  EXPECT_THAT(CheckDaemon(facts, absl::Now()), Oks("none runs")) << "systemd leaves its file";
  facts.socket_file = false;
  facts.in_the_way = true;
  EXPECT_THAT(CheckDaemon(facts, absl::Now()), Fails("none can: /run/s.sock", "move away"));
}

TEST(DoctorDaemon, OneThatHangsIsToldFromOneThatIsStopped) {
  DaemonFacts facts = Silent(absl::DeadlineExceededError("..."));
  facts.lock_held = true;
  facts.lock_pid = 99;
  facts.lock_state = 'S';
  EXPECT_THAT(CheckDaemon(facts, absl::Now()), Fails("has not answered within 3s", "kill -9 99"));
  facts.served_twice = true;
  EXPECT_THAT(CheckDaemon(facts, absl::Now()), Fails("loaded twice", "daemon restart"));
  EXPECT_THAT(CheckDaemon(facts, absl::Now()).fix, Not(HasSubstr("kill")));
  facts.served_twice = false;
  facts.lock_state = 'T';
  EXPECT_THAT(CheckDaemon(facts, absl::Now()), Fails("it is stopped", "kill -CONT 99"));
}

TEST(DoctorDaemon, OneThatKeepsTheServiceWaitingIsNamedAndEndedInOrder) {
  DaemonFacts facts = Silent(absl::DeadlineExceededError("..."));
  facts.lock_held = true;
  facts.lock_pid = 99;
  facts.service_pid = 98;
  const Finding finding = CheckDaemon(facts, absl::Now());
  EXPECT_THAT(finding, Fails("(pid 99), which the service has not started, has /home/s/lock",
                             "`kill 99`, as `stageloadctl daemon start` does (jobs run on)"));
  EXPECT_THAT(finding.text, HasSubstr("its daemon (pid 98) waits"));
  facts.lock_state = 'T';
  EXPECT_THAT(CheckDaemon(facts, absl::Now()), Fails("it is stopped", "kill -CONT 99"));
  facts.lock_state = 'S';
  facts.service_pid = 99;
  EXPECT_THAT(CheckDaemon(facts, absl::Now()), Fails("has not answered within 3s", "kill -9 99"));
}

TEST(DoctorDaemon, ASocketThatAServiceHoldsForADaemonThatDoesNotComeIsTold) {
  DaemonFacts facts = Silent(absl::DeadlineExceededError("..."));
  facts.lock_pid = 99;
  EXPECT_THAT(CheckDaemon(facts, absl::Now()),
              Fails("somebody holds /run/s.sock open, but no daemon has /home/s/lock", "service"));
}

TEST(DoctorDaemon, OneThatListensElsewhereIsKnownByItsLock) {
  DaemonFacts facts = Silent(absl::UnavailableError("no daemon answers"));
  facts.lock_held = true;
  facts.lock_pid = 99;
  EXPECT_THAT(CheckDaemon(facts, absl::Now()),
              Fails("(pid 99) has /home/s/lock, but nobody listens at /run/s.sock", "kill 99"));
}

TEST(DoctorDaemon, ASocketThatCannotBeUsedIsToldWithItsError) {
  EXPECT_THAT(
      CheckDaemon(Silent(absl::PermissionDeniedError("connect to /run/s.sock: no")), absl::Now()),
      Fails("connect to /run/s.sock: no"));
}

TEST(DoctorDaemon, OneThatAnswersIsToldWithWhoStartedItAndWhen) {
  DaemonFacts facts = Silent(absl::OkStatus());
  v1::GetVersionResponse version;
  version.set_version("0.2.0");
  version.set_pid(5);
  version.set_started_by(v1::STARTED_BY_AUTOSTART);
  version.set_state_directory("/home/s");
  const absl::Time now = absl::Now();
  version.set_start_time_ns(absl::ToUnixNanos(now - absl::Minutes(3)));
  facts.version = version;
  EXPECT_THAT(CheckDaemon(facts, now), Oks("pid 5, answers at /run/s.sock; started by a client "
                                           "3m"));
  facts.version->set_dry_run(true);
  EXPECT_THAT(CheckDaemon(facts, now), Warns("dry run", "daemon restart"));
  facts.unit = "run-u12.service";
  EXPECT_THAT(CheckDaemon(facts, now),
              Warns("inside systemd's unit run-u12.service", "daemon install"));
  facts.version->set_started_by(v1::STARTED_BY_SERVICE);
  EXPECT_THAT(CheckDaemon(facts, now), Warns("dry run")) << "a unit of its own";
  facts.program_change = "/Cellar/1/stageloadd was removed";
  EXPECT_THAT(CheckDaemon(facts, now),
              Warns("since then /Cellar/1/stageloadd was removed", "daemon restart"));
  facts.service_program_gone = true;
  EXPECT_THAT(CheckDaemon(facts, now), Warns("was removed", "daemon install"));
  facts.version->set_state_directory("/home/other");
  EXPECT_THAT(CheckDaemon(facts, now), Warns("its home is /home/other", "STAGELOAD_HOME"));
}

#ifdef __linux__
TEST(DoctorDaemon, TheUnitThatItIsInIsReadFromItsCgroup) {
  const std::string manager = "0::/user.slice/user-1000.slice/user@1000.service/";
  EXPECT_EQ(UnitIn(manager + "app.slice/run-u12.service\n"), "run-u12.service");
  EXPECT_EQ(UnitIn(manager + "app.slice/run-p7-i8.scope\n"), "run-p7-i8.scope");
  EXPECT_EQ(UnitIn("0::/system.slice/cron.service/payload\n"), "cron.service");
  EXPECT_EQ(UnitIn("2:memory:/x.service\n1:name=systemd:/system.slice/cron.service\n0::/\n"),
            "cron.service");
  for (const std::string& lasts :
       {std::string("0::/\n"), std::string("0::/user.slice/user-1000.slice/session-3.scope\n"),
        manager + "app.slice/app-gnome-terminal-7.scope\n", manager + "init.scope\n",
        manager + "app.slice/stageloadd.service\n", manager + "app.slice\n", std::string()}) {
    EXPECT_EQ(UnitIn(lasts), "") << lasts;
  }
}
#endif

TEST(DoctorVersion, SaysWhichOfTheThreeIsOld) {
  Programs programs;
  programs.daemon = std::string("/bin/stageloadd");
  programs.version = std::string(kVersion);
  EXPECT_THAT(CheckPrograms(programs), Oks("/bin/stageloadd"));
  v1::GetVersionResponse running;
  running.set_version(kVersion);
  running.set_api_level(kApiLevel);
  EXPECT_THAT(CheckVersions(running, programs), Oks(kVersion));
  running.set_version("0.0.1");
  EXPECT_THAT(CheckVersions(running, programs), Warns("the daemon is 0.0.1", "daemon restart"));
  running.set_api_level(kApiLevel - 1);
  EXPECT_THAT(CheckVersions(running, programs),
              Fails("the daemon is too old", std::string("has it be ") + kVersion));
  running.set_api_level(kApiLevel + 1);
  EXPECT_THAT(CheckVersions(running, programs),
              Fails("this program is too old", "install the stageloadctl of 0.0.1"));
  programs.version = std::string("0.0.7");
  EXPECT_THAT(CheckPrograms(programs), Warns("stageloadd 0.0.7", "install both of one version"));
  programs.shim = "/bin/stageload-shim";
  EXPECT_THAT(CheckPrograms(programs), Fails("no /bin/stageload-shim"));
  programs.version = absl::FailedPreconditionError("exit code 127");
  EXPECT_THAT(CheckPrograms(programs), Fails("exit code 127"));
  programs.named = true;
  EXPECT_THAT(CheckPrograms(programs), Fails("exit code 127", "STAGELOAD_DAEMON names it"));
  programs.daemon = absl::UnavailableError("none");
  EXPECT_THAT(CheckPrograms(programs), Fails("there is no stageloadd", "STAGELOAD_DAEMON"));
}

TEST(DoctorFolders, TheDaemonsOwnWordsAreSplitIntoWhatIsAndWhatToDo) {
  EXPECT_THAT(CheckFolder("socket_folder", "/run/x", absl::OkStatus()), Oks("/run/x"));
  EXPECT_THAT(CheckFolder("socket_folder", "/run/x", absl::NotFoundError("")),
              Oks("not there yet"));
  const Finding finding =
      CheckFolder("socket_folder", "/run/x",
                  absl::FailedPreconditionError(
                      "/run/x has mode 0777, it must be 0700; run: chmod 700 /run/x"));
  EXPECT_THAT(finding, Fails("has mode 0777", "run: chmod 700 /run/x"));
  EXPECT_THAT(finding.text, Not(HasSubstr("chmod")));
}

TEST(DoctorFolders, WhatIsNoSocketIsInTheWay) {
  std::string folder = (std::filesystem::temp_directory_path() / "doctor-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/s.sock";
  EXPECT_EQ(CheckSocketFile(path), std::nullopt);
  std::ofstream(path) << "x";
  const auto finding = CheckSocketFile(path);
  ASSERT_TRUE(finding);
  EXPECT_THAT(*finding, Fails("is no socket", "mv " + path));
  std::filesystem::remove_all(folder);
}

// A home of uid 65534, seen as that one; some things in it belong to root.
class DoctorFiles : public ::testing::Test {
 protected:
  static constexpr uid_t kNobody = 65534;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can leave files of root";
    const Environment environment = [this](const std::string& name) {
      return name == "STAGELOAD_HOME" ? std::optional(home_.path()) : std::nullopt;
    };
    paths_ = *ResolvePaths(environment);
    std::filesystem::create_directories(paths_.logs);
    std::filesystem::create_directories(paths_.jobs);
    for (const std::string& file : Files()) std::ofstream(file) << "";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(home_.path())) {
      ASSERT_EQ(::chown(entry.path().c_str(), kNobody, kNobody), 0);
    }
    ASSERT_EQ(::chown(home_.path().c_str(), kNobody, kNobody), 0);
  }
  std::vector<std::string> Files() const {
    return {paths_.lock, paths_.store, paths_.logs + "/stageloadd.log"};
  }
  static Finding AsNobody(const std::function<Finding()>& check) {
    EXPECT_EQ(::seteuid(kNobody), 0);
    Finding finding = check();
    EXPECT_EQ(::seteuid(0), 0);
    return finding;
  }
  Finding OfFiles() {
    return AsNobody([this] { return CheckFiles(paths_); });
  }
  Finding OfLogFolder() {
    return AsNobody([this] {
      return CheckFolder("log_folder", paths_.logs,
                         CheckPrivateFolder(paths_.logs, Readable::kByOwnerOnly));
    });
  }

  const TemporaryFolder home_;
  Paths paths_;
};

TEST_F(DoctorFiles, WhatOneCommandUnderSudoLeavesIsNamedWithTheWayToHaveItBack) {
  EXPECT_THAT(OfFiles(), Oks("lock, store, log"));
  std::vector<std::string> left = Files();
  left.push_back(paths_.jobs);
  for (const std::string& path : left) {
    ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
    EXPECT_THAT(OfFiles(), Fails(path + " belongs to root", "sudo chown -R 65534 " + path));
    ASSERT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
  }
  ASSERT_EQ(::chmod(paths_.logs.c_str(), 0700), 0);
  EXPECT_THAT(OfLogFolder(), Oks(paths_.logs));
  ASSERT_EQ(::chown(paths_.logs.c_str(), 0, 0), 0);
  EXPECT_THAT(OfLogFolder(),
              Fails(paths_.logs + " belongs to root", "sudo chown -R 65534 " + paths_.logs));
}

TEST_F(DoctorFiles, NobodyIsToldToTakeAFolderThatIsRootsByRight) {
  const Finding finding = AsNobody([] {
    return CheckFolder("log_folder", "/usr/bin",
                       CheckPrivateFolder("/usr/bin", Readable::kByAnyone));
  });
  EXPECT_THAT(finding, Fails("/usr/bin belongs to uid 0"));
  EXPECT_THAT(finding.fix, Not(HasSubstr("chown")));
}

TEST_F(DoctorFiles, AFileWhereAFolderShouldBeAndTheOtherWayRoundIsInTheWay) {
  std::filesystem::remove(paths_.store);
  std::filesystem::create_directory(paths_.store);
  EXPECT_THAT(OfFiles(), Fails(paths_.store + " is no plain file"));
  std::filesystem::remove_all(paths_.logs);
  std::ofstream(paths_.logs) << "";
  EXPECT_THAT(OfLogFolder(), Fails(paths_.logs + " is not a folder", "move it away"));
}

TEST_F(DoctorFiles, AStoreThatIsALinkIsWellOnceItLeadsToTheWholeOfIt) {
  const std::string place = home_.path() + "/place.db";
  std::filesystem::rename(paths_.store, place);
  std::filesystem::create_symlink(place, paths_.store);
  EXPECT_THAT(OfFiles(), Oks("lock, store, log"));
  std::ofstream(paths_.store + "-wal") << "rows";
  EXPECT_THAT(OfFiles(), Fails(paths_.store + " is a link, and what was written last",
                               "mv " + place + " " + paths_.store));
  std::filesystem::remove(place);
  EXPECT_THAT(OfFiles(), Fails("is a link that leads to no file", "bring that file back"));
}

TEST(DoctorConfig, IsValidAbsentOrToldWithItsError) {
  EXPECT_THAT(CheckConfigFile("/c.toml", true, absl::OkStatus()), Oks("/c.toml is valid"));
  EXPECT_THAT(CheckConfigFile("/c.toml", false, absl::OkStatus()), Oks("the defaults hold"));
  EXPECT_THAT(CheckConfigFile("/c.toml", true, absl::FailedPreconditionError("line 3: what?")),
              Fails("line 3: what?", "/c.toml"));
}

TEST(DoctorStore, WhatTheDaemonSaysOfItIsTold) {
  const absl::Time now = absl::Now();
  const auto event = [&](const std::string& kind, const std::string& text, absl::Duration ago) {
    v1::Event out;
    out.set_kind(kind);
    out.set_text(text);
    out.set_time_ns(absl::ToUnixNanos(now - ago));
    return out;
  };
  using Events = std::vector<v1::Event>;  // newest first
  const v1::Event failed = event("store_failed", "write to /s: disk is full", absl::Minutes(5));
  EXPECT_THAT(CheckStore(Events{}, now), Oks("reads and writes it"));
  EXPECT_THAT(CheckStore(Events{failed}, now), Fails("for 5m00s: write to /s: disk is full"));
  EXPECT_THAT(CheckStore(Events{event("store_works", "", absl::Minutes(1)), failed}, now),
              Oks("reads and writes it"));
  EXPECT_THAT(CheckStore(Events{failed, event("store_works", "", absl::Minutes(6))}, now),
              Fails("disk is full"));
  EXPECT_THAT(
      CheckStore(Events{event("store_damaged", "/s was cut: it is kept as /a", absl::Hours(2))},
                 now),
      Warns("2h00m ago: /s was cut: it is kept as /a", "what is kept can be removed"));
  EXPECT_THAT(CheckStore(Events{event("store_damaged", "/s was removed", absl::Hours(2))}, now),
              AllOf(Warns("/s was removed", "find out who changed the file"),
                    Not(Warns("", "what is kept"))));
  EXPECT_THAT(CheckStore(absl::UnavailableError("read /s: malformed"), now),
              Fails("cannot read it: read /s: malformed", "daemon restart"));
}

TEST(DoctorStore, AFileThatWasCutOrWrittenOverIsKnownByItsBeginning) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/stageload.db";
  const auto found = [&] { return CheckStoreFile(path).value_or(Well("store", "sound")); };
  EXPECT_THAT(found(), Oks("sound"));  // not there
  std::string sound(2 * 4096, '\0');
  sound.replace(0, 18, std::string("SQLite format 3\0\x10\0", 18));
  sound[31] = 2;
  std::ofstream(path) << sound;
  EXPECT_THAT(found(), Oks("sound"));
  std::ofstream(path) << sound.substr(0, 4096);
  EXPECT_THAT(found(), Fails("has 4096 of 8192 bytes: it was cut", "at its start"));
  // The write-ahead log has what a full disk has kept from the file.
  std::ofstream(path + "-wal") << "pages";
  EXPECT_THAT(found(), Oks("sound"));
  std::ofstream(path + "-wal") << "";
  EXPECT_THAT(found(), Fails("it was cut"));
  std::ofstream(path) << std::string(8192, 'x');
  EXPECT_THAT(found(), Fails("is no database", "at its start"));
  std::ofstream(path) << "";
  EXPECT_THAT(found(), Fails("is empty", "at its start"));
}

TEST(DoctorStops, EachOfTheLastDayIsTold) {
  const absl::Time now = absl::Now();
  EXPECT_THAT(CheckStops({}, now), ElementsAre(Oks("none")));
  const auto stop = [&](std::int64_t job, const std::string& text) {
    v1::Event event;
    event.set_kind("stopping");
    event.set_job_id(job);
    event.set_text(text);
    event.set_time_ns(absl::ToUnixNanos(now - absl::Hours(2)));
    return event;
  };
  EXPECT_THAT(CheckStops({stop(7, "SWAP_BUDGET: 114 MiB is over 64 MiB"), stop(8, "TIMEOUT: 1h"),
                          stop(9, "LOW_MEMORY: level 4 %")},
                         now),
              ElementsAre(Oks("3 in the last day"),
                          Warns("job 7, 2h00m ago: SWAP_BUDGET: 114 MiB", "--swap-budget"),
                          Oks("job 8, 2h00m ago: TIMEOUT"),
                          Warns("job 9, 2h00m ago: LOW_MEMORY: level 4 %", "--memory")));
  const std::vector<v1::Event> many(40, stop(1, "LOW_MEMORY: x"));
  EXPECT_EQ(CheckStops(many, now).size(), 6u);
  EXPECT_THAT(CheckStops(many, now).front(), Oks("40 in the last day, the newest 5"));
}

// ---- the service ----

ServiceFacts Installed() {
  ServiceFacts facts;
  facts.supervisor = "launchd";
  facts.found = {"/L/x.plist"};
  facts.serves_here = facts.current = true;
  facts.state = Supervised{true, "gui/501", 5, "running"};
  return facts;
}

TEST(DoctorService, NotInstalledIsWellAndSoIsHomebrews) {
  ServiceFacts facts;
  facts.supervisor = "launchd";
  facts.missing = {"/L/x.plist"};
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_AUTOSTART), Oks("not installed"));
  facts.state = absl::NotFoundError("no launchctl");
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_AUTOSTART), Oks("not installed"));
  facts.brewed = "/L/homebrew.plist";
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_SERVICE), Oks("Homebrew"));
  facts.state = Supervised{true, "gui/501", 5, "running"};
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_SERVICE),
              Fails("its file is gone: /L/x.plist", "daemon uninstall"));
}

TEST(DoctorService, EachWayToBeInstalledWronglyIsTold) {
  EXPECT_THAT(CheckService(Installed(), v1::STARTED_BY_SERVICE), Oks("gui/501: running, pid 5"));
  EXPECT_THAT(CheckService(Installed(), v1::STARTED_BY_USER),
              Warns("the daemon that answers is another", "daemon start"));
  ServiceFacts facts = Installed();
  facts.ours = absl::PermissionDeniedError("/L/x.plist belongs to uid 0; run: sudo rm");
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_SERVICE), Fails("belongs to uid 0"));
  facts = Installed();
  facts.missing = {"/L/y"};
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_SERVICE), Fails("half installed", "install"));
  facts = Installed();
  facts.serves_here = false;
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_SERVICE), Warns("another home", "install"));
  facts.runtime_folder = "/run/user/7";
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_SERVICE),
              Warns("XDG_RUNTIME_DIR is not set", "export XDG_RUNTIME_DIR=/run/user/7"));
  facts = Installed();
  facts.current = false;
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_SERVICE), Warns("not as this version", "install"));
  facts = Installed();
  facts.state->twice = "user/501";
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_SERVICE),
              Fails("two daemons contend", "daemon restart"));
  facts = Installed();
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_UNSPECIFIED),
              Warns("pid 5, but it has not taken the home", "daemon restart"));
  facts.home_pid = 4;
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_UNSPECIFIED),
              Warns("pid 5, but it waits: pid 4 has the home", "daemon start"));
  facts.home_pid = 5;
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_UNSPECIFIED), Oks("running, pid 5"));
  facts = Installed();
  facts.state->enabled = false;
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_SERVICE), Warns("was disabled", "install"));
  facts.state = Supervised{};
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_AUTOSTART), Warns("not loaded", "daemon start"));
  facts.state = Supervised{true, "gui/501", 0, "exited, last exit code 1"};
  facts.last_words = "stageloadd: config";
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_UNSPECIFIED),
              Fails("last exit code 1, but no daemon of it runs; it has said: stageloadd: config"));
  facts.state = absl::FailedPreconditionError("systemctl: no bus");
  EXPECT_THAT(CheckService(facts, v1::STARTED_BY_UNSPECIFIED), Warns("systemctl: no bus"));
}

}  // namespace
}  // namespace stageload::ctl
