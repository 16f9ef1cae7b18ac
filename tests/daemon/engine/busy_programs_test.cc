// Which programs count as busy.
#include "daemon/engine/busy_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace stageload::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A machine with these processes and no more.
class Machine : public host::Host {
 public:
  // Each started at the tick of its pid.
  void Run(std::int32_t pid, std::string command, char state = 'S') {
    host::Process process;
    process.identity = {pid, static_cast<std::uint64_t>(pid)};
    process.state = state;
    table.push_back(process);
    commands_[pid] = std::move(command);
  }
  // In the table, and gone when it is looked at.
  void Vanish(std::int32_t pid) { commands_.erase(pid); }

  absl::StatusOr<std::string> CommandLine(const core::ProcessIdentity& identity) override {
    read.push_back(identity.pid);
    const auto found = commands_.find(identity.pid);
    if (found == commands_.end()) return absl::NotFoundError("it is gone");
    return found->second;
  }
  absl::StatusOr<core::HostSample> Sample() override { return absl::UnimplementedError(""); }
  absl::StatusOr<std::vector<host::Process>> Processes() override { return table; }
  absl::StatusOr<core::Usage> Usage(const core::ProcessIdentity&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<host::Process> Find(std::int32_t) override { return absl::UnimplementedError(""); }
  absl::Status OnPressure(std::function<void()>, const WaitForUrgent&) override {
    return absl::UnimplementedError("");
  }
  Instant Clock() override { return {}; }
  const std::string& BootId() override { return boot_id_; }

  std::vector<host::Process> table;
  std::vector<std::int32_t> read;  // whose command lines were asked for

 private:
  std::map<std::int32_t, std::string> commands_;
  std::string boot_id_;
};

class BusyPrograms : public testing::Test {
 protected:
  // What matches each of the patterns; empty for none.
  std::vector<std::string> Look(const std::vector<std::string>& patterns) {
    std::vector<std::string> matches;
    std::size_t next = 0;
    for (const core::BusyReading& reading :
         LookForBusy(patterns, machine_.table, machine_,
                     [this](const core::ProcessIdentity& p) { return p == ours_; })) {
      EXPECT_EQ(reading.pattern, patterns.at(next++));
      matches.push_back(reading.match);
    }
    return matches;
  }

  Machine machine_;
  core::ProcessIdentity ours_{-1, 0};
};

TEST_F(BusyPrograms, MatchAnywhereInTheWholeCommandLine) {
  machine_.Run(10, "/usr/bin/python3 -m mlx_lm generate --model llama");
  EXPECT_THAT(
      Look({"mlx_lm", "^/usr/bin/python3 ", "llama$", "(mlx|vllm)_lm +gen", "MLX", "^llama"}),
      ElementsAre("10 /usr/bin/python3 -m mlx_lm generate --model llama",
                  "10 /usr/bin/python3 -m mlx_lm generate --model llama",
                  "10 /usr/bin/python3 -m mlx_lm generate --model llama",
                  "10 /usr/bin/python3 -m mlx_lm generate --model llama", "", ""));
}

TEST_F(BusyPrograms, TheFirstThatMatchesIsNamedForEachPattern) {
  machine_.Run(10, "vim notes");
  machine_.Run(11, "ollama serve");
  machine_.Run(12, "ollama run llama");
  machine_.Run(13, "blender -b");
  EXPECT_THAT(Look({"blender", "ollama", "none of these"}),
              ElementsAre("13 blender -b", "11 ollama serve", ""));
}

TEST_F(BusyPrograms, ThereIsAReadingAlsoWhenNothingRuns) {
  EXPECT_THAT(Look({"a", "b"}), ElementsAre("", ""));
  EXPECT_THAT(Look({}), IsEmpty());
}

TEST_F(BusyPrograms, AZombieHoldsNothing) {
  machine_.Run(10, "trainer", 'Z');
  EXPECT_THAT(Look({"trainer"}), ElementsAre(""));
  machine_.Run(11, "trainer", 'D');
  EXPECT_THAT(Look({"trainer"}), ElementsAre("11 trainer"));
}

TEST_F(BusyPrograms, WhatHasNoCommandLineOrIsGoneIsPassedOver) {
  machine_.Run(2, "");  // a kernel thread, or a zombie whose state is not read yet
  machine_.Run(10, "trainer");
  machine_.Vanish(10);
  machine_.Run(11, "trainer late");
  EXPECT_THAT(Look({"trainer", ".*"}), ElementsAre("11 trainer late", "11 trainer late"));
}

TEST_F(BusyPrograms, ProcessesOfJobsAreLeftOutByTheirIdentityAndNotOnlyTheirPid) {
  machine_.Run(10, "trainer");
  ours_ = {10, 10};
  EXPECT_THAT(Look({"trainer"}), ElementsAre(""));
  ours_ = {10, 9};  // the one that had the pid before
  EXPECT_THAT(Look({"trainer"}), ElementsAre("10 trainer"));
}

TEST_F(BusyPrograms, StageloadsOwnProgramsAreLeftOutSinceTheyHoldThePattern) {
  machine_.Run(10, "stageloadctl submit --busy trainer -- x");
  machine_.Run(11, "/opt/bin/stageload guard --busy trainer -- x");
  machine_.Run(12, "stageload-shim trainer");
  machine_.Run(getpid(), "trainer");
  EXPECT_THAT(Look({"trainer"}), ElementsAre(""));
  // By the program's name, and not by where it lies or what it is told.
  machine_.Run(13, "/home/stageload/python trainer /bin/stageload");
  EXPECT_THAT(Look({"trainer"}), ElementsAre("13 /home/stageload/python trainer /bin/stageload"));
}

TEST_F(BusyPrograms, ALongCommandLineIsMatchedWholeAndShownWhereItMatches) {
  const std::string end = " --the-end";
  machine_.Run(10, "trainer " + std::string(5000, 'x') + end);
  const std::vector<std::string> matches = Look({end + "$"});
  EXPECT_THAT(matches, ElementsAre("10 trainer ..." + std::string(20, 'x') + end));
  EXPECT_THAT(Look({"x+"}), ElementsAre("10 trainer " + std::string(80 - 8, 'x') + "..."));
}

TEST_F(BusyPrograms, APatternThatIsNoneIsLeftOutAndTheOthersAreLookedFor) {
  machine_.Run(10, "trainer");
  const auto readings = LookForBusy({"(", "trainer"}, machine_.table, machine_,
                                    [](const core::ProcessIdentity&) { return false; });
  ASSERT_EQ(readings.size(), 1u);
  EXPECT_EQ(readings[0].pattern, "trainer");
  EXPECT_EQ(readings[0].match, "10 trainer");
}

TEST_F(BusyPrograms, EachCommandLineIsReadOnceForAllPatterns) {
  machine_.Run(10, "a");
  machine_.Run(11, "b");
  Look({"a", "b", "c"});
  EXPECT_THAT(machine_.read, ElementsAre(10, 11));
}

TEST_F(BusyPrograms, PatternsThatWereWrittenForPythonOrForPosixMeanTheSame) {
  machine_.Run(10, "/opt/ComfyUI/python3.11 main.py --port 8188");
  for (const char* matches :
       {"(?i)comfyui", "python\\d\\.\\d+", "\\bmain\\.py\\b", "main\\.py\\s--port",
        "(?:main|app)[.]py", "(?P<name>main)", "\\w+\\.py", "[\\w.]+ --p.*?8",
        "[[:alpha:]]+[.]py --port [0-9]{4}$", "[c]omfyui|[C]omfyUI"}) {
    EXPECT_THAT(Look({matches}), ElementsAre("10 /opt/ComfyUI/python3.11 main.py --port 8188"))
        << matches;
  }
  for (const char* no : {"comfyui", "python\\D", "\\bain", "(?i)comfyuis"}) {
    EXPECT_THAT(Look({no}), ElementsAre("")) << no;
  }
}

TEST_F(BusyPrograms, ACommandLineThatIsNotUtf8IsMatchedByItsBytes) {
  machine_.Run(10, "trainer \xff\xc3\xa4 end");
  EXPECT_THAT(Look({"trainer ..\xa4 end"}), ElementsAre("10 trainer \xff\xc3\xa4 end"));
  EXPECT_THAT(Look({"r .+ end$"}), ElementsAre("10 trainer \xff\xc3\xa4 end"));
}

TEST(CheckBusyPattern, TakesExpressionsAndRefusesOthersWithThePatternAndTheReason) {
  for (const char* good : {"ollama", "a|b", "^python3? .*train[.]py$", "x{2,3}", "a b"}) {
    EXPECT_TRUE(CheckBusyPattern(good).ok()) << good;
  }
  for (const char* bad :
       {"(", "[a", "a{3,2}", "\\", "(?=a)b", "(a)\\1", "((((a{255}){255}){255}){255})"}) {
    const absl::Status status = CheckBusyPattern(bad);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("\"" + std::string(bad) + "\" is no regular expression (RE2's syntax): "));
  }
}

}  // namespace
}  // namespace stageload::engine
