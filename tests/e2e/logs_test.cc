// A job's output as users read it: its end, its times, while it is written, and when it is far more
// than is kept.
//
// STAGELOAD_LOG_BYTES makes the large output larger or smaller; it is 2 GiB.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/units.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class Logs : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
  }
  std::int64_t SubmitScript(const std::string& script, const Arguments& options = {}) {
    return Submit(options + Arguments{"--", "sh", "-c", script});
  }
  std::int64_t Ended(const std::string& script) {
    const std::int64_t id = SubmitScript(script);
    Ctl({"wait", Id(id)});
    return id;
  }
  std::string LogOf(std::int64_t id, const Arguments& options) {
    const Result result = Ctl(Arguments{"logs"} + options + Arguments{Id(id)});
    EXPECT_EQ(result.exit_code, 0) << result;
    return result.out;
  }
  // Waits for another job until `go` exists.
  std::int64_t SubmitWaiting(const std::string& script) {
    const std::int64_t first = Submit(Arguments{"--"} + UntilExists(PathOf("go")));
    return SubmitScript(script, {"--after", Id(first)});
  }
};

// ---- The last lines ----

TEST_F(Logs, TailGivesTheLastLinesOfEachOutputOrOfBoth) {
  // Each line is there before the next is written, so that their order is known.
  const std::int64_t id = Ended(
      "for i in 1 2 3; do echo out$i; sleep 0.05; echo err$i >&2; sleep 0.05; done; printf end");
  EXPECT_EQ(LogOf(id, {"--tail", "2", "--stdout"}), "out3\nend");
  EXPECT_EQ(LogOf(id, {"--tail", "0"}), "");
  EXPECT_EQ(LogOf(id, {"-n", "100", "--stdout"}), "out1\nout2\nout3\nend");
  const Result both = Ctl({"logs", "--tail", "3", Id(id)});
  EXPECT_EQ(both.out, "out3\nend");
  EXPECT_EQ(both.err, "err3\n");
  EXPECT_EQ(Ctl({"logs", "--tail", "1", "--stderr", Id(id)}).err, "err3\n");
}

TEST_F(Logs, ATailThatIsNoNumberIsAUsageError) {
  const std::int64_t id = Ended("echo x");
  for (const std::string lines : {"-1", "x", "1.5"}) {
    const Result result = Ctl({"logs", "--tail=" + lines, Id(id)});
    EXPECT_EQ(result.exit_code, 2) << result;
    EXPECT_THAT(result.err, HasSubstr("--tail")) << result;
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(Logs, TailAndFollowBeginWithTheLastLinesAndGoOnOverTheNextDaemon) {
  const CtlOptions alone{.environment = {"STAGELOAD_NO_AUTOSTART=1"}};
  const std::string wait = "while [ ! -e go ]; do sleep 0.02; done; ";
  const std::int64_t id = SubmitScript("echo 1; echo 2; echo 3; " + wait + "echo 4; echo 5");
  ASSERT_TRUE(Eventually([&] { return LogOf(id, {}) == "1\n2\n3\n"; }));
  ChildProcess follow = StartCtl({"logs", "-f", "--tail", "2", Id(id)}, alone);
  ASSERT_TRUE(follow.Prints("2\n3\n"));
  KillDaemon();
  StartDaemon();
  Touch(PathOf("go"));
  const Result result = follow.Wait();
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out, "2\n3\n4\n5\n");
}

// ---- Times and JSON ----

TEST_F(Logs, TimestampsStandBeforeEachLine) {
  const std::int64_t id = Ended("printf 'a\\nb'; sleep 0.3; printf 'c\\n'");
  const std::string time = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}";
  // A zone that needs no file.
  const CtlOptions an_hour_ahead{.environment = {"TZ=Fixed/UTC+01:00:00"}};
  const std::string printed = Ctl({"logs", "-t", Id(id)}, an_hour_ahead).out;
  EXPECT_THAT(printed, ContainsRegex("^" + time + "\\+01:00 a\n" + time + "\\+01:00 bc\n$"));
  absl::Time first;
  std::string error;
  ASSERT_TRUE(absl::ParseTime(absl::RFC3339_full, printed.substr(0, 29), &first, &error)) << error;
  EXPECT_GT(first, absl::Now() - absl::Minutes(2));
  EXPECT_LE(first, absl::Now());
  EXPECT_EQ(Ctl({"logs", "-t", "--json", Id(id)}).exit_code, 2);
}

TEST_F(Logs, JsonGivesEachPieceWithItsStreamAsTextOrAsBase64) {
  const std::int64_t id = Ended("echo caf\303\251; sleep 0.1; printf '\\377' >&2");
  std::istringstream text(LogOf(id, {"--json"}));
  std::vector<nlohmann::json> pieces;
  for (std::string line; std::getline(text, line);) pieces.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].at("stream"), "STDOUT");
  EXPECT_EQ(pieces[0].at("data"), "caf\303\251\n");
  EXPECT_EQ(pieces[1].at("stream"), "STDERR");
  EXPECT_EQ(pieces[1].at("data_base64"), "/w==");
  EXPECT_GT(pieces[1].at("time_ns"), pieces[0].at("time_ns"));
}

// ---- Before the start, and after the end ----

TEST_F(Logs, OfAJobThatHasNotStartedSaySoAndAreNoError) {
  const std::int64_t id = SubmitWaiting("echo late");
  const Result result = Ctl({"logs", Id(id)});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            absl::StrCat("stageload: job ", id, " has not started, so it has no output yet\n"));
  ChildProcess follow = StartCtl({"logs", "-f", Id(id)});
  EXPECT_TRUE(
      Eventually([&] { return absl::StrContains(follow.Err(), "waiting for its output"); }));
  Touch(PathOf("go"));
  const Result followed = follow.Wait();
  EXPECT_EQ(followed.exit_code, 0) << followed;
  EXPECT_EQ(followed.out, "late\n");
}

TEST_F(Logs, OfAJobThatWasCancelledWhileItWaitedSaySo) {
  const std::int64_t id = SubmitWaiting("true");
  ChildProcess follow = StartCtl({"logs", "-f", Id(id)});
  EXPECT_TRUE(
      Eventually([&] { return absl::StrContains(follow.Err(), "waiting for its output"); }));
  EXPECT_EQ(Ctl({"cancel", Id(id)}).exit_code, 0);
  EXPECT_EQ(follow.Wait().exit_code, 0);
  const Result after = Ctl({"logs", Id(id)});
  EXPECT_EQ(after.exit_code, 0) << after;
  EXPECT_THAT(after.err, HasSubstr("ended as CANCELLED before it started"));
}

TEST_F(Logs, ThatAreGoneAreAnErrorAlsoWhileTheyAreFollowed) {
  const std::int64_t ended = Ended("echo one");
  std::filesystem::remove_all(absl::StrCat(paths().jobs, "/", ended));
  const Result gone = Ctl({"logs", Id(ended)});
  EXPECT_EQ(gone.exit_code, 1) << gone;
  EXPECT_THAT(gone.err, HasSubstr(absl::StrCat("the log of job ", ended, " is gone: there is no ",
                                               paths().jobs, "/", ended)));

  const std::int64_t runs = SubmitScript("echo two; while [ ! -e go ]; do sleep 0.05; done");
  ChildProcess follow = StartCtl({"logs", "-f", Id(runs)});
  ASSERT_TRUE(Eventually([&] { return absl::StrContains(follow.Out(), "two"); }));
  std::filesystem::rename(absl::StrCat(paths().jobs, "/", runs), PathOf("away"));
  EXPECT_EQ(follow.Wait().exit_code, 1);
  EXPECT_THAT(follow.Err(), HasSubstr("is gone"));
  Ctl({"cancel", Id(runs)});
}

TEST_F(Logs, FollowOfAnEndedJobEnds) {
  const std::int64_t id = Ended("echo done");
  const Result result = Ctl({"logs", "-f", Id(id)});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out, "done\n");
}

// ---- Far more than is kept ----

// What a process holds, and held at most since it was last asked to forget that (proc(5)).
struct Memory {
  Bytes now;
  Bytes anonymous;
  Bytes most;
};
Memory MemoryOf(pid_t pid) {
  const std::string status = ReadFile(absl::StrCat("/proc/", pid, "/status"));
  const auto field = [&status](const std::string& name) {
    const std::size_t at = status.find("\n" + name + ":");
    return at == std::string::npos ? Bytes(0)
                                   : KiB(std::atoll(status.c_str() + at + name.size() + 2));
  };
  return {field("VmRSS"), field("RssAnon"), field("VmHWM")};
}
void ForgetMost(pid_t pid) { WriteFile(absl::StrCat("/proc/", pid, "/clear_refs"), "5"); }

std::ostream& operator<<(std::ostream& stream, const Memory& memory) {
  return stream << memory.now.count() / 1024 << " KiB (anonymous "
                << memory.anonymous.count() / 1024 << ", at most " << memory.most.count() / 1024
                << ")";
}

class LargeLog : public Logs {
 protected:
  static std::int64_t Size() {
    std::int64_t bytes = 0;
    const char* text = getenv("STAGELOAD_LOG_BYTES");
    return text != nullptr && absl::SimpleAtoi(text, &bytes) ? bytes : GiB(2).count();
  }
  pid_t ShimOf(std::int64_t id) {
    pid_t pid = 0;
    std::istringstream(ReadFile(absl::StrCat(paths().jobs, "/", id, "/job.lock"))) >> pid;
    return pid;
  }
  // Its stdout in a file, since it is large.
  ChildProcess Follow(std::int64_t id, const std::string& file) {
    return StartCtl({"-c", absl::StrCat("exec '", kCtlProgram, "' logs -f ", id, " > ", file)},
                    {.program = "/bin/sh"});
  }
  Bytes LogSizeOf(std::int64_t id) {
    Bytes size;
    for (const auto& entry :
         std::filesystem::directory_iterator(absl::StrCat(paths().jobs, "/", id))) {
      std::error_code gone;
      const auto bytes = entry.file_size(gone);
      if (!gone) size = size + Bytes::FromUnsigned(bytes);
    }
    return size;
  }
};

TEST_F(LargeLog, S21_AJobThatPrintsTwoGibibytesWithoutANewlineTakesBoundedDiskAndMemory) {
  constexpr Bytes kMore = MiB(5);
  const auto until = [](const std::string& file) {
    return absl::StrCat("while [ ! -e ", file, " ]; do sleep 0.02; done; ");
  };
  const std::int64_t id =
      SubmitScript(absl::StrCat("echo ready; ", until("go"), "head -c ", Size(),
                                " /dev/zero; touch printed; ", until("finish"), "exit 6"));
  // One that reads all the time, and one that stops to.
  ChildProcess follow = Follow(id, "/dev/null");
  ChildProcess stalled = Follow(id, "stalled");
  ASSERT_TRUE(Eventually([&] { return ReadFile(PathOf("stalled")) == "ready\n"; }));
  stalled.Signal(SIGSTOP);

  // Nobody sees what this one reads; it has begun once it has grown to its size.
  ASSERT_TRUE(Eventually([&] {
    const Bytes size = MemoryOf(follow.pid()).now;
    absl::SleepFor(absl::Milliseconds(200));
    return size > MiB(8) && MemoryOf(follow.pid()).now == size;
  }));

  const pid_t shim = ShimOf(id);
  const pid_t serving = DaemonPid();
  std::array<Memory, 3> before = {MemoryOf(shim), MemoryOf(serving), MemoryOf(follow.pid())};
  for (const pid_t pid : {shim, serving, follow.pid()}) ForgetMost(pid);
  const absl::Time start = absl::Now();
  Touch(PathOf("go"));
  Bytes largest;
  ASSERT_TRUE(Eventually([&] {
    largest = std::max(largest, LogSizeOf(id));
    return std::filesystem::exists(PathOf("printed"));
  }));
  const absl::Duration took = absl::Now() - start;
  const std::array<Memory, 3> after = {MemoryOf(shim), MemoryOf(serving), MemoryOf(follow.pid())};
  const std::array<const char*, 3> names = {"the shim", "the daemon", "logs -f"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::cout << names[i] << ": " << before[i] << " before, " << after[i] << " after\n";
    // A reader holds what is on its way through gRPC; it goes on reading at this moment.
    const Bytes more = kMore * (i == 2 ? 4 : 1);
    EXPECT_LE(after[i].now, before[i].now + more) << names[i];
    EXPECT_LE(after[i].most, before[i].now + more) << names[i];
  }
  std::cout << Size() << " bytes in " << took << "; log at most " << largest.count() << " bytes\n";
  // The spec, the lock and the like lie beside the log, and its segments are looked at one by one.
  EXPECT_LE(largest, MiB(257));

  stalled.Signal(SIGCONT);
  Touch(PathOf("finish"));
  EXPECT_TRUE(Reaches(id, "FAILED"));
  EXPECT_EQ(follow.Wait().exit_code, 0);
  const Result late = stalled.Wait();
  EXPECT_EQ(late.exit_code, 0);
  EXPECT_THAT(late.err, HasSubstr("of output were dropped here"));
  EXPECT_EQ(Show(id).value("exit_code", 0), 6);
  EXPECT_EQ(Show(id).value("log_dropped_bytes", -1), 0) << "what was rotated away had been written";
}

}  // namespace
}  // namespace stageload::e2e
