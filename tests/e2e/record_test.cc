// Recordings of real processes by the real daemon, held against what the processes say of
// themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/trace.h"
#include "tests/e2e/at_terminal.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;

// What the shells and a `stageloadctl mark` around a load take at most.
constexpr Bytes kCompany = MiB(48);

class Record : public DaemonTest {
 protected:
  std::string path() const { return PathOf("run.jsonl"); }
  Trace Read() const {
    absl::StatusOr<Trace> trace = ReadTrace(path());
    if (trace.ok()) return *std::move(trace);
    ADD_FAILURE() << trace.status();
    return {};
  }
  // Waits until some sample fulfils it.
  template <typename Condition>
  bool Samples(Condition condition) const {
    return Eventually([&] {
      const absl::StatusOr<Trace> trace = ReadTrace(path());
      return trace.ok() && std::any_of(trace->samples.begin(), trace->samples.end(), condition);
    });
  }
  std::size_t CountSamples() const {
    const absl::StatusOr<Trace> trace = ReadTrace(path());
    return trace.ok() ? trace->samples.size() : 0;
  }
  ChildProcess StartShell(const std::string& script) {
    return ChildProcess({{"/bin/sh", "-c", script}, Environment(), folder(), "", PathOf("shell")});
  }
};

std::int64_t Extra(const TraceSample& sample, const char* name) {
  return json::parse(sample.rest).value(name, std::int64_t{-1});
}

double Start(const Trace& trace) {
  absl::Time begin;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, trace.start->utc, &begin, nullptr));
  return absl::ToDoubleSeconds(begin - absl::UnixEpoch());
}

// One line of what the script below writes down.
struct Truth {
  double before = 0;  // a mark was set between these moments
  double after = 0;
  std::string stage;
};

std::vector<Truth> ReadTruth(const std::string& path) {
  std::vector<Truth> truths;
  std::istringstream lines(ReadFile(path));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Truth truth;
    words >> truth.before >> truth.after >> std::ws;
    std::getline(words, truth.stage);
    truths.push_back(truth);
  }
  return truths;
}

TEST_F(Record, OfALoadThatRampsHoldsAndFreesMatchesTheTruth) {
  StartDaemon();
  const std::string script = absl::StrCat(
      kLoadProgram,
      " --hold 64M --for 2500ms --then 256M:2500ms:300ms --then 32M:2500ms | while read line; do "
      "before=$(date +%s.%N); ",
      kCtlProgram,
      " mark --stage \"$line\" || exit 9; echo $before $(date +%s.%N) \"$line\" >> truth; done");
  const Result result =
      Ctl({"record", "-o", path(), "--interval", "100ms", "--", "sh", "-c", script});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.err, HasSubstr("samples in"));
  EXPECT_EQ(result.out, "");

  const Trace trace = Read();
  EXPECT_TRUE(trace.ended);
  EXPECT_EQ(trace.samples.front().t, 0);
  EXPECT_LT(*trace.samples.front().footprint, MiB(16));  // before its first instruction
  std::vector<TraceEvent> stages;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == "stage") stages.push_back(event);
  }
  const std::vector<Truth> truths = ReadTruth(PathOf("truth"));
  ASSERT_EQ(truths.size(), 3U);
  ASSERT_EQ(stages.size(), 3U);
  const Bytes sizes[] = {MiB(64), MiB(256), MiB(32)};
  const double start = Start(trace);
  for (std::size_t i = 0; i < 3; ++i) {
    const Truth& truth = truths[i];
    EXPECT_EQ(stages[i].stage, truth.stage);
    EXPECT_THAT(start + stages[i].t, AllOf(Ge(truth.before - 0.01), Le(truth.after + 0.01)));
    // It is read a little after it has begun to hold, and holds for 2.5 s.
    int samples = 0;
    for (const TraceSample& sample : trace.samples) {
      const double since = start + sample.t - truth.before;
      if (since < 0 || since > 1) continue;
      ++samples;
      EXPECT_THAT(*sample.footprint, AllOf(Ge(sizes[i]), Le(sizes[i] + kCompany)))
          << truth.stage << " at " << sample.t;
    }
    EXPECT_GE(samples, 2) << truth.stage;
  }

  const json summary = CtlJson({"summary", path(), "--json"});
  EXPECT_THAT(summary.at("peak_footprint").get<std::int64_t>(),
              AllOf(Ge(MiB(256).count()), Le((MiB(256) + kCompany).count())));
  ASSERT_EQ(summary.at("stages").size(), 4U);
  EXPECT_EQ(summary.at("stages").at(0).at("stage"), "setup");
  EXPECT_EQ(summary.at("stages").at(2).at("stage"), "holding 256 MiB");
  EXPECT_GE(summary.at("stages").at(2).at("peak_footprint").get<std::int64_t>(), MiB(256).count());
  EXPECT_TRUE(summary.contains("true_peak"));
}

TEST_F(Record, OfAProcessTakesItsChildrenInAndEndsWithThem) {
  StartDaemon();
  const std::string load = absl::StrCat(kLoadProgram, " --hold 64M --for 10m");
  ChildProcess shell = StartShell(absl::StrCat(load, " & ", load, " & wait"));
  ChildProcess record = StartCtl(
      {"record", "-o", path(), "--interval", "50ms", "--pid", std::to_string(shell.pid())});
  EXPECT_TRUE(Samples([](const TraceSample& sample) {
    return sample.footprint >= MiB(128) && Extra(sample, "processes") == 3;
  }));
  EXPECT_TRUE(record.Running());
  for (const FoundProcess& process : ProcessesOf(folder())) {
    if (process.command.find("--for 10m") != std::string::npos) kill(process.pid, SIGKILL);
  }
  (void)shell.Wait();
  EXPECT_EQ(record.Wait().exit_code, 0);
  const Trace trace = Read();
  EXPECT_TRUE(trace.ended);
  for (const TraceSample& sample : trace.samples) {
    // They may end between the look at who is there and the readings: then there is none.
    EXPECT_LE(sample.footprint.value_or(Bytes(0)).count(), (MiB(128) + kCompany).count());
  }
}

TEST_F(Record, AProcessThatDoesNothingIsStillSampled) {
  StartDaemon();
  ChildProcess shell = StartShell("sleep 600");
  ChildProcess record = StartCtl(
      {"record", "-o", path(), "--interval", "20ms", "--pid", std::to_string(shell.pid())});
  ASSERT_TRUE(Eventually([&] { return CountSamples() > 0; }));
  shell.Signal(SIGSTOP);
  const std::size_t before = CountSamples();
  EXPECT_TRUE(Eventually([&] { return CountSamples() >= before + 10; }));
  shell.Signal(SIGCONT);
  record.Signal(SIGTERM);
  EXPECT_EQ(record.Wait().exit_code, 0);
  EXPECT_TRUE(Read().ended);
}

TEST_F(Record, KilledItLeavesATraceThatCanBeRead) {
  StartDaemon();
  ChildProcess record =
      StartCtl({"record", "-o", path(), "--interval", "20ms", "--", "sleep", "600"});
  ASSERT_TRUE(Eventually([&] { return CountSamples() >= 5; }));
  record.Signal(SIGKILL);
  EXPECT_EQ(record.Wait().exit_code, 128 + SIGKILL);
  const Trace trace = Read();
  EXPECT_GE(trace.samples.size(), 5U);
  EXPECT_FALSE(trace.ended);
  EXPECT_THAT(trace.notes, Contains("the trace ends without \"end\""));
  EXPECT_EQ(Ctl({"summary", path()}).exit_code, 0);
}

TEST_F(Record, CtrlCEndsTheCommandAndWritesTheEnd) {
  StartDaemon();
  AtTerminal record({kCtlProgram, "record", "-o", path(), "--", "sh", "-c", "echo up; sleep 600"},
                    Environment());
  ASSERT_TRUE(record.Shows("up"));
  record.Type(kCtrlC);
  EXPECT_EQ(record.Wait(), 128 + SIGINT);
  EXPECT_TRUE(Read().ended);
}

TEST_F(Record, AZombieThatNobodyWaitsForDoesNotKeepItFromItsEnd) {
  StartDaemon();
  ChildProcess record = StartCtl({"record", "-o", path(), "--", STAGELOAD_E2E_TREE, "zombie"});
  ASSERT_TRUE(Eventually([&] { return ReadFile(PathOf("keeper")) != ""; })) << record.Err();
  ASSERT_TRUE(Eventually([&] { return ReadFile(PathOf("command")) != ""; })) << record.Err();
  record.Signal(SIGTERM);
  const absl::Time signalled = absl::Now();
  EXPECT_EQ(record.Wait().exit_code, 128 + SIGTERM);
  EXPECT_LE(absl::Now() - signalled, absl::Seconds(4)) << "the grace time is 5 s";
  const Trace trace = Read();
  EXPECT_TRUE(trace.ended);
  EXPECT_THAT(trace.events, Contains(Field(&TraceEvent::note, HasSubstr("ended by signal 15"))));
}

TEST_F(Record, CtrlCEndsTheRecordingOfAProcessAndNotTheProcess) {
  StartDaemon();
  ChildProcess shell = StartShell("sleep 600");
  AtTerminal record({kCtlProgram, "record", "-o", path(), "--pid", std::to_string(shell.pid())},
                    Environment());
  ASSERT_TRUE(Eventually([&] { return CountSamples() > 0; }));
  record.Type(kCtrlC);
  EXPECT_EQ(record.Wait(), 0);
  EXPECT_TRUE(Read().ended);
  EXPECT_TRUE(shell.Running());
}

TEST_F(Record, StartsTheNextDaemonAfterACrashAndGoesOn) {
  StartDaemon();
  ChildProcess record =
      StartCtl({"record", "-o", path(), "--interval", "50ms", "--", "sh", "-c",
                absl::StrCat("while [ ! -e ", PathOf("go"), " ]; do sleep 0.05; done; exit 5")});
  ASSERT_TRUE(Eventually([&] { return CountSamples() >= 3; }));
  KillDaemon();
  ASSERT_TRUE(Eventually(
      [&] { return ReadFile(path()).find(": the daemon went away") != std::string::npos; }));
  const std::size_t before = CountSamples();
  ASSERT_TRUE(Eventually([&] { return CountSamples() > before + 3; }));
  Touch(PathOf("go"));
  EXPECT_EQ(record.Wait().exit_code, 5);
  const Trace trace = Read();
  EXPECT_TRUE(trace.ended);
  EXPECT_TRUE(std::any_of(trace.events.begin(), trace.events.end(), [](const TraceEvent& event) {
    return event.note.find("no samples for ") == 0;
  }));
}

TEST_F(Record, SamplesThatAreMissingAtItsEndAreSaid) {
  for (const bool silent : {false, true}) {
    SCOPED_TRACE(silent ? "the daemon does not answer" : "the daemon is gone");
    StartDaemon();
    ChildProcess record =
        StartCtl({"record", "-o", path(), "--force", "--interval", "50ms", "--", "sh", "-c",
                  absl::StrCat("while [ ! -e ", PathOf("go"), " ]; do sleep 0.05; done; exit 5")});
    ASSERT_TRUE(Eventually([&] { return CountSamples() >= 3; }));
    if (silent) {
      daemon().Signal(SIGSTOP);
    } else {
      ASSERT_EQ(Ctl({"daemon", "stop"}).exit_code, 0);
    }
    absl::SleepFor(absl::Seconds(1.2));
    Touch(PathOf("go"));
    const Result ended = record.Wait();
    EXPECT_EQ(ended.exit_code, 5);
    EXPECT_THAT(ended.err, HasSubstr("; at the end no samples for 1."));
    const Trace trace = Read();
    EXPECT_TRUE(trace.ended);
    EXPECT_TRUE(std::any_of(trace.events.begin(), trace.events.end(), [](const auto& event) {
      return event.note.find("no samples for 1.") == 0;
    }));
    if (silent) KillDaemon();
    std::filesystem::remove(PathOf("go"));
    std::filesystem::remove(path());
  }
}

TEST_F(Record, HasTheSwapBudgetAndWhatIsDoneToAGuardedCommand) {
  StartDaemon();
  ChildProcess guard = StartCtl(
      {"guard", "--swap-budget", "3G", "--wait-free", "0", "--", "sh", "-c", "echo $$; sleep 600"});
  ASSERT_TRUE(guard.Prints("\n"));
  const std::string pid = guard.Out().substr(0, guard.Out().find('\n'));
  ChildProcess record = StartCtl({"record", "-o", path(), "--interval", "50ms", "--pid", pid});
  ASSERT_TRUE(Samples([](const TraceSample& sample) { return Extra(sample, "charge") >= 0; }));
  EXPECT_EQ(Ctl({"cancel", "1"}).exit_code, 0);
  EXPECT_EQ(record.Wait().exit_code, 0);
  (void)guard.Wait();
  const Trace trace = Read();
  EXPECT_EQ(json::parse(trace.start->rest).at("swap_budget"), GiB(3).count());
  std::vector<std::string> kinds;
  for (const TraceEvent& event : trace.events) {
    if (!event.rest.empty()) kinds.push_back(json::parse(event.rest).value("event", ""));
  }
  EXPECT_THAT(kinds, Contains("stopping"));
}

TEST_F(Record, InAGuardThatIsStoppedItSaysWhyAndHasItsEnd) {
  StartDaemon();
  ChildProcess guard =
      StartCtl({"guard", "--wait-free", "0", "--grace", "1s", "--", kCtlProgram, "record", "-o",
                path(), "--interval", "1h", "--", "sh", "-c", "sleep 600; true"});
  ASSERT_TRUE(Eventually([&] { return CountSamples() > 0; })) << guard.Err();
  EXPECT_EQ(Ctl({"cancel", "1"}).exit_code, 0);
  (void)guard.Wait();
  const Trace trace = Read();
  EXPECT_TRUE(trace.ended);
  EXPECT_THAT(trace.events, Contains(Field(&TraceEvent::note, HasSubstr("ended by signal 15"))));
  EXPECT_THAT(trace.events, Contains(Field(&TraceEvent::note, HasSubstr("CANCELLED"))));
}

TEST_F(Record, AMarkFromOutsideOfEveryRecordingIsOfNobody) {
  StartDaemon();
  const Result result = Ctl({"mark", "--stage", "x"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("nobody records or manages"));
  EXPECT_EQ(Ctl({"mark", "--stage", "x", "--require"}).exit_code, 1);
}

TEST_F(Record, AProcessThatIsNotThereIsRefused) {
  StartDaemon();
  const Result result = Ctl({"record", "-o", path(), "--pid", "999999999"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("999999999"));
  EXPECT_THAT(ReadFile(path()), IsEmpty());
}

}  // namespace
}  // namespace stageload::e2e
