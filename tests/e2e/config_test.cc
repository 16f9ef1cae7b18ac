// The config file from end to end: written, checked, read again while jobs wait and run; and the
// daemon's log.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/units.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ConfigFile : public DaemonTest {
 protected:
  std::string File() const { return paths().config; }
  std::string LogText() const { return ReadFile(paths().logs + "/stageloadd.log"); }
  bool LogSays(const std::string& text) {
    return Eventually([&] { return absl::StrContains(LogText(), text); });
  }
  // The one setting of `config show --json`.
  nlohmann::json Setting(const std::string& key) {
    const Result shown = Ctl({"config", "show", "--json"});
    EXPECT_EQ(shown.exit_code, 0) << shown;
    const nlohmann::json document = nlohmann::json::parse(shown.out);
    for (const nlohmann::json& setting : document.at("settings")) {
      if (setting.at("key") == key) return setting;
    }
    return {};
  }
  std::vector<std::string> HistoryOf(const std::string& kind) {
    std::vector<std::string> texts;
    const Result result = Ctl({"history", "--kind", kind, "--json"});
    EXPECT_EQ(result.exit_code, 0) << result;
    for (const auto& line :
         std::vector<std::string>(absl::StrSplit(result.out, '\n', absl::SkipEmpty()))) {
      texts.push_back(nlohmann::json::parse(line).at("text"));
    }
    return texts;
  }
};

// ---- Without a daemon ----

TEST_F(ConfigFile, InitWritesAFileThatIsRightAndNeverOverOneThatIsThere) {
  EXPECT_EQ(Ctl({"config", "path"}).out, File() + "\n");
  EXPECT_EQ(Ctl({"config", "check"}).out, File() + ": there is none; the defaults hold\n");
  const Result init = Ctl({"config", "init"});
  EXPECT_EQ(init.exit_code, 0) << init;
  EXPECT_EQ(init.out, File() + "\n");
  const std::string text = ReadFile(File());
  EXPECT_THAT(text, AllOf(HasSubstr("\n[defaults]\n"), HasSubstr("\n#swap_budget = \"8G\"\n")));
  EXPECT_EQ(Ctl({"config", "check"}).out, File() + ": no mistakes\n");

  WriteConfig("max_queued = 7\n");
  const Result again = Ctl({"config", "init"});
  EXPECT_EQ(again.exit_code, 1) << again;
  EXPECT_THAT(again.err, HasSubstr("--force"));
  EXPECT_EQ(ReadFile(File()), "max_queued = 7\n");
  EXPECT_EQ(Ctl({"config", "init", "--force"}).exit_code, 0);
  EXPECT_EQ(ReadFile(File()), text);
  EXPECT_THAT(Daemons(), IsEmpty());
  for (const auto& entry : std::filesystem::directory_iterator(home())) {
    EXPECT_EQ(entry.path(), File()) << "left behind";
  }
}

TEST_F(ConfigFile, InitWithForceWritesWhatALinkLeadsToAndKeepsTheLink) {
  const std::string kept = PathOf("dotfiles.toml");
  WriteFile(kept, "max_queued = 7\n");
  std::filesystem::create_directories(home());
  std::filesystem::create_symlink(kept, File());
  EXPECT_EQ(Ctl({"config", "init"}).exit_code, 1);
  EXPECT_EQ(ReadFile(kept), "max_queued = 7\n");
  EXPECT_EQ(Ctl({"config", "init", "--force"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(File()));
  EXPECT_THAT(ReadFile(kept), HasSubstr("\n[defaults]\n"));
}

TEST_F(ConfigFile, CheckSaysEveryMistakeWithItsLine) {
  WriteFile(PathOf("new.toml"), "max_queud = 5\nsettle = 3\n");
  const Result check = Ctl({"config", "check", PathOf("new.toml")});
  EXPECT_EQ(check.exit_code, 1) << check;
  EXPECT_EQ(check.out, "");
  const std::vector<std::string> lines = absl::StrSplit(check.err, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2u) << check;
  EXPECT_THAT(lines[0], AllOf(HasSubstr("new.toml:1: "), HasSubstr("did you mean max_queued?")));
  EXPECT_THAT(lines[1], AllOf(HasSubstr("new.toml:2: settle: "), HasSubstr("it is 3")));
  EXPECT_EQ(Ctl({"config", "check", PathOf("none.toml")}).exit_code, 1);
}

TEST_F(ConfigFile, ALinkToAFileThatIsNotThereIsAMistake) {
  std::filesystem::create_directory(home());
  std::filesystem::create_symlink("/nope/config.toml", File());
  for (const Arguments& check : {Arguments{"config", "check"}, Arguments{"daemon", "start"}}) {
    const Result result = Ctl(check);
    EXPECT_NE(result.exit_code, 0) << result;
    EXPECT_THAT(result.err, HasSubstr("is a symbolic link to /nope/config.toml"));
  }
  EXPECT_THAT(Daemons(), IsEmpty());
}

TEST_F(ConfigFile, WhatTheDaemonsProgramIsAskedForIsWrittenOrItIsNoSuccess) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const Result named =
      Ctl({"--check-config", "--config-file", "/nope"}, {.program = kDaemonProgram});
  EXPECT_EQ(named.exit_code, 1) << named;
  EXPECT_EQ(named.err, "stageloadd: read /nope: no such file\n");
  for (const char* asked :
       {"--help", "--version", "--config-template", "--show-config", "--check-config", "--probe"}) {
    const Result full =
        Ctl({"-c", "\"$0\" \"$1\" >/dev/full", kDaemonProgram, asked}, {.program = "/bin/sh"});
    EXPECT_EQ(full.exit_code, 1) << asked;
    EXPECT_EQ(full.err, "stageloadd: write to stdout: No space left on device\n") << asked;
  }
}

TEST_F(ConfigFile, ShowSaysWhatADaemonWouldBeStartedWith) {
  WriteConfig("\n[defaults]\nswap_budget = \"2G\"\n");
  const Result show = Ctl({"config", "show", "--origin"});
  EXPECT_EQ(show.exit_code, 0) << show;
  EXPECT_THAT(show.out, ::testing::ContainsRegex("defaults.swap_budget +\"2G\" +.*toml:3\n"));
  EXPECT_THAT(show.out, ::testing::ContainsRegex("defaults.grace +\"5s\" +default\n"));
  EXPECT_THAT(show.err, HasSubstr("no daemon runs"));
  EXPECT_EQ(Ctl({"config", "reload"}).exit_code, 69);
  EXPECT_THAT(Daemons(), IsEmpty());
}

// ---- Defaults ----

TEST_F(ConfigFile, DefaultsHoldForWhatARequestLeavesOutAndAreShownWithTheJob) {
  WriteConfig(
      "[defaults]\nwait_free = 100\nswap_budget = \"2G\"\nswap_limit = \"500G\"\ngrace = \"9s\"\n"
      "on_over_budget = \"warn\"\nstart_timeout = \"8h\"\nguard_start_timeout = \"300ms\"\n");
  StartDaemon();
  const nlohmann::json policy = Show(Submit({"--", "true"})).at("policy");
  EXPECT_EQ(policy.at("wait_free_percent"), 100);
  EXPECT_EQ(policy.at("swap_budget_bytes"), GiB(2).count());
  EXPECT_EQ(policy.at("swap_limit_bytes"), GiB(500).count());
  EXPECT_EQ(policy.at("grace_ns"), 9'000'000'000);
  EXPECT_EQ(policy.at("on_over_budget"), "WARN");
  EXPECT_EQ(policy.at("start_timeout_ns"), absl::ToInt64Nanoseconds(absl::Hours(8)));

  const nlohmann::json own =
      Show(Submit({"--swap-budget", "3G", "--swap-limit", "none", "--start-timeout", "none",
                   "--on-over-budget", "stop", "--", "true"}))
          .at("policy");
  EXPECT_EQ(own.at("swap_budget_bytes"), GiB(3).count());
  EXPECT_FALSE(own.contains("swap_limit_bytes")) << own;
  EXPECT_FALSE(own.contains("start_timeout_ns")) << own;
  EXPECT_EQ(own.at("on_over_budget"), "STOP");

  const Result guard = Ctl({"guard", "--", "true"});
  EXPECT_EQ(guard.exit_code, 4) << guard;
}

// ---- Reload ----

TEST_F(ConfigFile, ReloadChangesDefaultsAndLetsStartWhatHasRoomNow) {
  WriteConfig("settle = \"0s\"\nmemory_pool = \"2M\"\n");
  StartDaemon();
  const std::int64_t first =
      Submit(Arguments{"--wait-free", "0", "--memory", "1M", "--"} + UntilExists(PathOf("end")));
  const std::int64_t second =
      Submit(Arguments{"--wait-free", "0", "--memory", "2M", "--"} + UntilExists(PathOf("end")));
  ASSERT_TRUE(Reaches(first, "RUNNING"));
  ASSERT_TRUE(Eventually([&] { return BlockerOf(second, "MEMORY").has_value(); }));

  WriteConfig("settle = \"0s\"\nmemory_pool = \"3M\"\n[defaults]\nswap_budget = \"1G\"\n");
  const Result reload = Ctl({"config", "reload"});
  EXPECT_EQ(reload.exit_code, 0) << reload;
  EXPECT_EQ(reload.out, "memory_pool: \"2M\" -> \"3M\"\ndefaults.swap_budget: \"8G\" -> \"1G\"\n");
  EXPECT_TRUE(Reaches(second, "RUNNING")) << Show(second);
  EXPECT_EQ(Show(first).at("policy").at("swap_budget_bytes"), GiB(8).count()) << "keeps its terms";
  const std::int64_t third = Submit({"--wait-free", "100", "--", "true"});
  EXPECT_EQ(Show(third).at("policy").at("swap_budget_bytes"), GiB(1).count());
  EXPECT_THAT(HistoryOf("config_reloaded"),
              ElementsAre(AllOf(HasSubstr(File()), HasSubstr("memory_pool \"2M\" -> \"3M\""))));
  EXPECT_EQ(Setting("memory_pool").at("origin"), File() + ":2");
  EXPECT_EQ(Ctl({"config", "reload"}).out, "nothing has changed\n");
  Touch(PathOf("end"));
  EXPECT_TRUE(Reaches(second, "COMPLETED"));
}

TEST_F(ConfigFile, AFileWithAMistakeKeepsTheOldSettingsAndIsToldEverywhere) {
  WriteConfig("max_queued = 5\n");
  StartDaemon();
  WriteConfig("max_queued = 6\nmax_bypass = -1\n");
  const Result reload = Ctl({"config", "reload"});
  EXPECT_EQ(reload.exit_code, 1) << reload;
  EXPECT_EQ(reload.out, "");
  EXPECT_THAT(reload.err, AllOf(HasSubstr(File() + ":2: max_bypass: "), HasSubstr("it is -1"),
                                HasSubstr("goes on with the settings it has")));
  EXPECT_EQ(Setting("max_queued").at("value"), "5");
  EXPECT_THAT(HistoryOf("config_refused"), ElementsAre(HasSubstr(":2: max_bypass: ")));
  EXPECT_TRUE(LogSays("[error] config_refused asked by a client, the settings are as before: "))
      << LogText();
}

TEST_F(ConfigFile, SighupReadsItAgainAndEndsNobody) {
  WriteConfig("max_queued = 5\n");
  StartDaemon();
  WriteConfig("max_queued = 6\n");
  daemon().Signal(SIGHUP);
  EXPECT_TRUE(LogSays("config_reloaded SIGHUP: ")) << LogText();
  EXPECT_EQ(Setting("max_queued").at("value"), "6");
  WriteConfig("max_queued = six\n");
  daemon().Signal(SIGHUP);
  EXPECT_TRUE(LogSays("config_refused SIGHUP, ")) << LogText();
  EXPECT_EQ(Setting("max_queued").at("value"), "6");
  EXPECT_EQ(DaemonPid(), daemon().pid());
  EXPECT_THAT(Ctl({"config", "show"}).err, HasSubstr("was changed after"));
}

TEST_F(ConfigFile, WhatTakesARestartIsSaid) {
  StartDaemon();
  WriteConfig("[log]\nfiles = 2\n");
  EXPECT_THAT(Ctl({"config", "reload"}).out, HasSubstr("log.files: 5 -> 2 (at the next start"));
  EXPECT_EQ(Setting("log.files").at("value"), "5");
}

TEST_F(ConfigFile, OnEndIsAnotherAfterAReload) {
  WriteConfig(absl::StrCat("on_end = \"touch ", PathOf("old"), "\"\n"));
  StartDaemon();
  WriteConfig(absl::StrCat("on_end = \"touch ", PathOf("new"), "\"\n"));
  ASSERT_EQ(Ctl({"config", "reload"}).exit_code, 0);
  Submit({"--wait-free", "0", "--", "true"});
  EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(PathOf("new")); }));
  EXPECT_FALSE(std::filesystem::exists(PathOf("old")));
}

// ---- The log ----

class DaemonLog : public ConfigFile {
 protected:
  std::vector<nlohmann::json> JsonLines() {
    std::vector<nlohmann::json> lines;
    for (const auto& line :
         std::vector<std::string>(absl::StrSplit(LogText(), '\n', absl::SkipEmpty()))) {
      lines.push_back(nlohmann::json::parse(line, nullptr, false));
      EXPECT_TRUE(lines.back().is_object()) << line;
    }
    return lines;
  }
};

TEST_F(DaemonLog, AsJsonEachLineIsAnObjectAndEachEventOfAJobHasItsIdAndReadings) {
  StartDaemon({"--log-json"});
  const std::int64_t id = Submit({"--wait-free", "0", "--name", "a\"b", "--", "true"});
  ASSERT_TRUE(Reaches(id, "COMPLETED"));
  ASSERT_TRUE(LogSays("\"event\":\"ended\""));
  std::set<std::string> events;
  for (const nlohmann::json& line : JsonLines()) {
    for (const char* field : {"time", "level", "event", "text"}) {
      EXPECT_TRUE(line.at(field).is_string()) << line;
    }
    absl::Time time;
    std::string error;
    EXPECT_TRUE(
        absl::ParseTime(absl::RFC3339_full, line.at("time").get<std::string>(), &time, &error))
        << error;
    const std::string event = line.at("event");
    if (event != "submitted" && event != "admitted" && event != "ended") continue;
    events.insert(event);
    EXPECT_EQ(line.at("job"), id) << line;
    EXPECT_TRUE(line.at("readings").at("level_percent").is_number()) << line;
    EXPECT_TRUE(line.at("readings").at("swap_used_bytes").is_number_integer()) << line;
    EXPECT_TRUE(line.at("readings").at("reserved_bytes").is_number_integer()) << line;
  }
  EXPECT_EQ(events, (std::set<std::string>{"admitted", "ended", "submitted"}));
}

TEST_F(DaemonLog, AsTextEachLineHasTheIdAndTheReadings) {
  StartDaemon();
  const std::int64_t id = Submit({"--wait-free", "0", "--", "true"});
  ASSERT_TRUE(Reaches(id, "COMPLETED"));
  ASSERT_TRUE(LogSays("] ended job="));
  for (const char* event : {"submitted", "admitted", "ended"}) {
    EXPECT_THAT(LogText(), ::testing::ContainsRegex(absl::StrCat("\\] ", event, " job=", id,
                                                                 " .*\\[level=[0-9.]+% .*swap=.*"
                                                                 "reserved=.*pending=.*active=")));
  }
}

TEST_F(DaemonLog, TheLevelDecidesWhatIsWrittenAndChangesWithTheConfig) {
  StartDaemon({"--log-level", "debug"});
  const std::int64_t id = Submit({"--wait-free", "100", "--", "true"});
  EXPECT_TRUE(LogSays(absl::StrCat("[debug] waits job=", id, " LEVEL: "))) << LogText();
  KillDaemon();
  std::filesystem::remove(paths().logs + "/stageloadd.log");

  WriteConfig("[log]\nlevel = \"error\"\n");
  StartDaemon();
  Submit({"--wait-free", "100", "--", "true"});
  EXPECT_EQ(LogText(), "");
  WriteConfig("[log]\nlevel = \"info\"\nformat = \"json\"\n");
  ASSERT_EQ(Ctl({"config", "reload"}).exit_code, 0);
  ASSERT_TRUE(LogSays("config_reloaded"));
  Submit({"--wait-free", "100", "--", "true"});
  ASSERT_TRUE(LogSays("submitted"));
  JsonLines();
  EXPECT_THAT(LogText(), Not(HasSubstr("waits")));
}

TEST_F(DaemonLog, AWrongLevelIsRefusedWithTheRightOnes) {
  const Result result = StartDaemonProgram({"--log-level", "loud"}).Wait();
  EXPECT_EQ(result.exit_code, 2) << result;
  EXPECT_THAT(result.err, AllOf(HasSubstr("--log-level: \"loud\""), HasSubstr("\"debug\"")));
}

}  // namespace
}  // namespace stageload::e2e
