// The reader of a Mac as a whole: clocks, the boot's id, recorded values, and every call failing.
#include <filesystem>
#include <string>

#include "base/trace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/daemon/host/fake_mac.h"

namespace stageload::host {
namespace {

using std::string_literals::operator""s;

TEST(TheDarwinClock, CountsTicksOfEachKindOfMachine) {
  FakeMac apple;  // 24 MHz
  apple.absolute = 24'000'000ULL * 100 + 1;
  apple.continuous = 24'000'000ULL * 3700;
  const Instant now = NewDarwinHost(apple)->Clock();
  EXPECT_EQ(now.awake, absl::Seconds(100) + absl::Nanoseconds(41));
  EXPECT_EQ(now.continuous, absl::Seconds(3700));
  EXPECT_EQ(now.wall, apple.wall);

  FakeMac intel;
  intel.timebase = {1, 1};
  intel.absolute = 5'000'000'007;
  EXPECT_EQ(NewDarwinHost(intel)->Clock().awake, absl::Nanoseconds(5'000'000'007));
}

TEST(TheDarwinClock, DoesNotOverflowInAHundredYears) {
  FakeMac mac;
  mac.continuous = 24'000'000ULL * 3600 * 24 * 36500;
  EXPECT_EQ(NewDarwinHost(mac)->Clock().continuous, absl::Hours(24 * 36500));
}

TEST(TheDarwinClock, TakesATimebaseThatIsNotToldForNanoseconds) {
  for (const mach_timebase_info_data_t timebase :
       {mach_timebase_info_data_t{0, 0}, mach_timebase_info_data_t{1, 0},
        mach_timebase_info_data_t{0, 1}}) {
    FakeMac mac;
    mac.timebase = timebase;
    mac.absolute = 42;
    EXPECT_EQ(NewDarwinHost(mac)->Clock().awake, absl::Nanoseconds(42));
  }
}

TEST(TheDarwinClock, ShowsASleep) {
  FakeMac mac;
  const auto host = NewDarwinHost(mac);
  const Instant before = host->Clock();
  mac.absolute += 24'000'000;
  mac.continuous += 24'000'000ULL * 601;
  const Instant after = host->Clock();
  EXPECT_EQ(after.awake - before.awake, absl::Seconds(1));
  EXPECT_EQ(after.continuous - before.continuous, absl::Seconds(601));
}

TEST(TheDarwinBootId, IsTheKernelsAndEmptyWhereThereIsNone) {
  FakeMac mac;
  EXPECT_EQ(NewDarwinHost(mac)->BootId(), "0B2C9E0C-3D31-4C7B-9B5C-6F3A0E6D1A11");
  mac.sysctls["kern.bootsessionuuid"] = "not ended";
  EXPECT_EQ(NewDarwinHost(mac)->BootId(), "not ended");
  mac.sysctls["kern.bootsessionuuid"] = std::string(500, 'x');
  EXPECT_EQ(NewDarwinHost(mac)->BootId(), "");
  mac.sysctls.erase("kern.bootsessionuuid");
  EXPECT_EQ(NewDarwinHost(mac)->BootId(), "");
}

absl::Status NobodyWaits(int, std::function<void()>) {
  ADD_FAILURE() << "a Mac gives no descriptor to wait for";
  return absl::OkStatus();
}

TEST(TheDarwinPressure, HintsEachTimeItIsToldUntilTheHostIsGone) {
  FakeMac mac;
  auto host = NewDarwinHost(mac);
  const auto other = NewDarwinHost(mac);
  EXPECT_EQ(mac.TellPressure(), 0);
  int hints = 0;
  ASSERT_TRUE(host->OnPressure([&hints] { ++hints; }, NobodyWaits).ok());
  EXPECT_EQ(mac.TellPressure(), 1);
  EXPECT_EQ(mac.TellPressure(), 1);
  EXPECT_EQ(hints, 2);
  host.reset();
  EXPECT_EQ(mac.TellPressure(), 0);
  EXPECT_EQ(hints, 2);
}

TEST(TheDarwinPressure, ThatCannotBeWatchedIsAnErrorAndChangesNothing) {
  FakeMac mac;
  mac.fails["dispatch_source_create"] = ENOMEM;
  const auto host = NewDarwinHost(mac);
  const absl::Status status = host->OnPressure([] { ADD_FAILURE(); }, NobodyWaits);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), testing::HasSubstr("libdispatch"));
  EXPECT_EQ(mac.TellPressure(), 0);
  EXPECT_TRUE(host->Sample().ok());
}

// What a 48 GB M5 Pro showed in each half second of a run of its own, through the kernel's calls.
class RecordedMac : public testing::TestWithParam<const char*> {};

TEST_P(RecordedMac, IsReadAsItWasRecorded) {
  const std::string path = std::string(STAGELOAD_RECORDINGS) + "/" + GetParam();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "there is no recording " << path;
  const absl::StatusOr<Trace> trace = ReadTrace(path);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_GT(trace->samples.size(), 30U);
  FakeMac mac;
  MacProcess& python = mac.Add({.pid = 4242, .unique = 900'001});
  const auto host = NewDarwinHost(mac);
  for (const TraceSample& recorded : trace->samples) {
    SCOPED_TRACE(recorded.t);
    ASSERT_TRUE(recorded.level && recorded.swap_used && recorded.footprint);
    mac.Set("kern.memorystatus_level", static_cast<std::int32_t>(recorded.level->value));
    xsw_usage swap{};
    swap.xsu_used = static_cast<std::uint64_t>(recorded.swap_used->count());
    swap.xsu_total = swap.xsu_used + (1U << 30);
    mac.Set("vm.swapusage", swap);
    python.footprint = *recorded.footprint;
    const absl::StatusOr<core::HostSample> sample = host->Sample();
    ASSERT_TRUE(sample.ok()) << sample.status();
    EXPECT_EQ(sample->level, recorded.level);
    EXPECT_EQ(sample->swap_used, recorded.swap_used);
    EXPECT_EQ(sample->total, GiB(48));
    const absl::StatusOr<core::Usage> usage = host->Usage({4242, 900'001});
    ASSERT_TRUE(usage.ok()) << usage.status();
    EXPECT_EQ(usage->footprint, recorded.footprint);
  }
}

INSTANTIATE_TEST_SUITE_P(Of48GB, RecordedMac,
                         testing::Values("offload-1.trace.jsonl", "first-attempt.trace.jsonl",
                                         "staged-1.trace.jsonl"),
                         [](const auto& recording) {
                           return "Number" + std::to_string(recording.index + 1);
                         });

// ---- every call failing

struct Reading {
  absl::StatusOr<core::HostSample> sample = absl::UnknownError("");
  absl::StatusOr<std::vector<Process>> processes = absl::UnknownError("");
  absl::StatusOr<Process> found = absl::UnknownError("");
  absl::StatusOr<core::Usage> usage = absl::UnknownError("");
  absl::StatusOr<std::string> command = absl::UnknownError("");
};

Reading ReadAll(Host& host) {
  Reading reading;
  reading.sample = host.Sample();
  reading.processes = host.Processes();
  reading.found = host.Find(20);
  reading.usage = host.Usage({20, 7});
  reading.command = host.CommandLine({20, 7});
  return reading;
}

template <typename T>
void ExpectAbsentOr(const std::optional<T>& value, const std::optional<T>& truth) {
  if (value.has_value()) {
    EXPECT_EQ(value, truth);
  }
}

void ExpectNothingWrong(const Reading& reading, const Reading& truth) {
  if (reading.sample.ok()) {
    ExpectAbsentOr(reading.sample->level, truth.sample->level);
    ExpectAbsentOr(reading.sample->total, truth.sample->total);
    ExpectAbsentOr(reading.sample->swap_used, truth.sample->swap_used);
    ExpectAbsentOr(reading.sample->swap_total, truth.sample->swap_total);
    ExpectAbsentOr(reading.sample->pressure, truth.sample->pressure);
    ExpectAbsentOr(reading.sample->available, truth.sample->available);
    ExpectAbsentOr(reading.sample->pageable_internal, truth.sample->pageable_internal);
    ExpectAbsentOr(reading.sample->wired, truth.sample->wired);
    ExpectAbsentOr(reading.sample->compressed, truth.sample->compressed);
    ExpectAbsentOr(reading.sample->swapped_out_total, truth.sample->swapped_out_total);
  }
  if (reading.processes.ok()) {
    EXPECT_LE(reading.processes->size(), 2U);
    for (const Process& process : *reading.processes) {
      EXPECT_TRUE(process.identity.pid == 20 || process.identity.pid == 21);
      EXPECT_EQ(process.uid, kUser);
    }
  }
  if (reading.usage.ok()) {
    ExpectAbsentOr(reading.usage->footprint, truth.usage->footprint);
    ExpectAbsentOr(reading.usage->swapped, truth.usage->swapped);
  }
  if (reading.command.ok()) {
    EXPECT_TRUE(*reading.command == "a -v" || *reading.command == "python" ||
                reading.command->empty())
        << *reading.command;
  }
}

FakeMac& Populate(FakeMac& mac) {
  mac.Add({.pid = 20,
           .session = 10,
           .unique = 7,
           .arguments = Procargs2(2, "/a\0a\0-v\0"s),
           .footprint = GiB(2),
           .compressed = GiB(1)});
  mac.Add({.pid = 21, .parent = 20, .session = 10, .unique = 8, .maker = 7});
  return mac;
}

TEST(TheDarwinHost, WithAnyOneCallFailingTellsNothingWrongAndRecovers) {
  FakeMac whole;
  const Reading truth = ReadAll(*NewDarwinHost(Populate(whole)));
  ASSERT_TRUE(truth.sample.ok() && truth.processes.ok() && truth.found.ok() && truth.usage.ok() &&
              truth.command.ok());
  ASSERT_EQ(truth.processes->size(), 2U);
  ASSERT_EQ(*truth.command, "a -v");
  const std::size_t calls = whole.calls_in_all;
  ASSERT_GT(calls, 20U);
  for (const int error : {ENOENT, EPERM, ESRCH, ENOMEM, EINVAL, EIO, EFAULT}) {
    for (std::size_t failing = 1; failing <= calls; ++failing) {
      SCOPED_TRACE(testing::Message() << "call " << failing << " fails with " << error);
      FakeMac mac;
      Populate(mac);
      mac.failing_call = failing;
      mac.failing_error = error;
      const auto host = NewDarwinHost(mac);
      ExpectNothingWrong(ReadAll(*host), truth);
      EXPECT_LE(mac.open_ports(), 1U);
      mac.continuous += 24'000'000;
      const Reading again = ReadAll(*host);
      ExpectNothingWrong(again, truth);
      ASSERT_TRUE(again.sample.ok() && again.processes.ok() && again.usage.ok());
      EXPECT_EQ(again.sample->level, truth.sample->level);
      EXPECT_EQ(again.sample->available, truth.sample->available);
      EXPECT_EQ(again.usage->swapped, truth.usage->swapped);
      EXPECT_EQ(again.command.value_or("?"), *truth.command);
      ASSERT_EQ(again.processes->size(), 2U);
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ((*again.processes)[i].identity, (*truth.processes)[i].identity);
        EXPECT_EQ((*again.processes)[i].session, (*truth.processes)[i].session);
        EXPECT_EQ((*again.processes)[i].parent_at_fork, (*truth.processes)[i].parent_at_fork);
      }
    }
  }
}

TEST(TheDarwinHost, WithEveryCallFailingFailsAndTakesNothing) {
  for (const char* call :
       {"kern.proc.all", "kern.proc.pid", "proc_pidinfo", "proc_pid_rusage", "getsid",
        "task_name_for_pid", "task_info", "host_statistics64", "kern.procargs2", "kern.argmax"}) {
    FakeMac mac;
    Populate(mac);
    mac.fails[call] = EIO;
    ExpectNothingWrong(ReadAll(*NewDarwinHost(mac)), [] {
      FakeMac whole;
      return ReadAll(*NewDarwinHost(Populate(whole)));
    }());
    EXPECT_EQ(mac.open_ports(), 0U) << call;
  }
}

}  // namespace
}  // namespace stageload::host
