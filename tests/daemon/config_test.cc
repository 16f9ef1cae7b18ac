// The config file: what it can say, and how it is refused.
#include "daemon/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "daemon/settings.h"
#include "tests/fixture.h"

namespace stageload {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class ConfigTest : public testing::Test {
 protected:
  absl::StatusOr<DaemonConfig> Load(const std::string& text) {
    std::ofstream(folder_ + "/config.toml") << text;
    return LoadConfig(folder_ + "/config.toml");
  }
  std::string ErrorOf(const std::string& text) {
    const auto config = Load(text);
    EXPECT_TRUE(absl::IsInvalidArgument(config.status())) << text;
    return std::string(config.status().message());
  }

  const TemporaryFolder temporary_;
  const std::string& folder_ = temporary_.path();
};

TEST_F(ConfigTest, NoFileAndAnEmptyFileGiveTheDefaults) {
  const auto none = LoadConfig(folder_ + "/config.toml");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->core.reserve_fraction, 0.10);
  EXPECT_FALSE(none->core.memory_pool);
  EXPECT_TRUE(Load("").ok());
  EXPECT_TRUE(Load("# nothing\n").ok());
}

TEST_F(ConfigTest, AFileThatWasNamedOrIsLinkedToHasToBeThere) {
  const std::string path = folder_ + "/config.toml";
  const auto named = LoadConfig(path, IfMissing::kError);
  EXPECT_EQ(named.status().message(), "read " + path + ": no such file");
  std::filesystem::create_symlink("elsewhere.toml", path);
  const auto linked = LoadConfig(path);
  EXPECT_EQ(linked.status().message(),
            "read " + path + ": is a symbolic link to elsewhere.toml, which is not there");
  std::ofstream(folder_ + "/elsewhere.toml") << "max_queued = 7\n";
  EXPECT_TRUE(LoadConfig(path, IfMissing::kError).ok());
}

TEST_F(ConfigTest, ReadsEveryKey) {
  const auto config = Load(
      "memory_pool = \"2.5G\"\nreserve = 1073741824\nreserve_percent = 12.5\n"
      "max_pressure = \"warn\"\nmax_queued = 7\nmax_sessions = 8\nmax_bypass = 3\nsettle = "
      "\"20s\"\n"
      "keep_history = \"7d\"\non_end = \"say done\"\n"
      "anonymous_credit = 0.25\ngroup_limits = { gpu = 1, \"the net\" = 3 }\n"
      "[defaults]\nwait_free = 55.5\nswap_budget = \"4G\"\nswap_limit = \"20G\"\nkill_free = 7\n"
      "memory = \"12G\"\ncharge = \"own\"\non_over_budget = \"suspend\"\nbusy = [\"[o]llama\"]\n"
      "quiet_for = \"2m\"\nstart_timeout = \"8h\"\nguard_start_timeout = \"none\"\ntime = \"12h\"\n"
      "grace = \"9s\"\npriority = -3\n"
      "[log]\nlevel = \"debug\"\nformat = \"json\"\nfile_size = \"1M\"\nfiles = 2\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->core.memory_pool, MiB(2560));
  EXPECT_EQ(config->core.reserve, GiB(1));
  EXPECT_EQ(config->core.reserve_fraction, 0.125);
  EXPECT_EQ(config->core.max_pressure, core::Pressure::kWarn);
  EXPECT_EQ(config->core.max_queued, 7);
  EXPECT_EQ(config->core.max_sessions, 8);
  EXPECT_EQ(config->core.max_bypass, 3);
  EXPECT_EQ(config->core.settle, absl::Seconds(20));
  EXPECT_EQ(config->core.anonymous_credit, 0.25);
  EXPECT_THAT(config->core.group_limits, ElementsAre(Pair("gpu", 1), Pair("the net", 3)));
  EXPECT_EQ(config->keep_history, absl::Hours(7 * 24));
  EXPECT_EQ(config->on_end, "say done");
  EXPECT_FALSE(config->core.dry_run) << "only a flag says so";
  core::Policy terms;
  terms.wait_free = Percent{55.5};
  terms.swap_budget = GiB(4);
  terms.swap_limit = GiB(20);
  terms.kill_free = Percent{7};
  terms.memory = GiB(12);
  terms.charge_mode = core::ChargeMode::kOwn;
  terms.on_over_budget = core::OverBudget::kSuspend;
  terms.busy = {"[o]llama"};
  terms.quiet_for = absl::Minutes(2);
  terms.start_timeout = absl::Hours(8);
  terms.time_limit = absl::Hours(12);
  terms.grace = absl::Seconds(9);
  terms.priority = -3;
  EXPECT_EQ(config->defaults.policy, terms);
  EXPECT_FALSE(config->defaults.guard_start_timeout);
  EXPECT_EQ(config->log.level, LogLevel::kDebug);
  EXPECT_TRUE(config->log.json);
  EXPECT_EQ(config->log.file_size, MiB(1));
  EXPECT_EQ(config->log.files, 2);
  EXPECT_EQ(config->lines.size(), SettingsOf(*config).size()) << "a key is missing in this test";
}

TEST_F(ConfigTest, WhatIsNotSaidKeepsItsDefault) {
  const auto config = Load("max_queued = 7\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->core.max_bypass, 5);
  EXPECT_EQ(config->core.settle, absl::Seconds(15));
  EXPECT_EQ(config->core.anonymous_credit, 0);
  EXPECT_THAT(config->core.group_limits, IsEmpty());
}

TEST_F(ConfigTest, TheEndsOfEachRangeAreTaken) {
  const auto least = Load(
      "max_bypass = 0\nsettle = \"0s\"\nanonymous_credit = 0\ngroup_limits = { a = 1 }\n"
      "reserve_percent = 0\nmax_queued = 1\n");
  ASSERT_TRUE(least.ok()) << least.status();
  EXPECT_EQ(least->core.max_bypass, 0);
  EXPECT_EQ(least->core.settle, absl::ZeroDuration());
  const auto most = Load(
      "max_bypass = 1000\nanonymous_credit = 1\ngroup_limits = { a = 100000 }\n"
      "reserve_percent = 90\nmax_queued = 100000\n");
  ASSERT_TRUE(most.ok()) << most.status();
  EXPECT_EQ(most->core.anonymous_credit, 1);
}

TEST_F(ConfigTest, GroupLimitsMayStandInATableOfTheirOwn) {
  const auto config = Load("max_queued = 7\n[group_limits]\ngpu = 2\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->core.group_limits, ElementsAre(Pair("gpu", 2)));
}

TEST_F(ConfigTest, UnknownKeyIsRefusedWithItsLineAndTheKeysThereAre) {
  const std::string error = ErrorOf("\nmemory_pol = \"2G\"\n");
  EXPECT_THAT(error, HasSubstr("config.toml:2: unknown key \"memory_pol\""));
  EXPECT_THAT(error, HasSubstr("did you mean memory_pool?"));
  EXPECT_THAT(ErrorOf("colour = 1\n"), HasSubstr("the keys are memory_pool, "));
}

TEST_F(ConfigTest, AKeyThatBelongsIntoATableIsFoundThere) {
  EXPECT_THAT(ErrorOf("swap-budget = \"8G\"\n"),
              HasSubstr("unknown key \"swap-budget\"; did you mean swap_budget in the table "
                        "[defaults]?"));
  EXPECT_THAT(ErrorOf("[defaults]\nmax_queued = 5\n"),
              HasSubstr("config.toml:2: unknown key \"defaults.max_queued\": what stands below the "
                        "line [defaults] belongs to that table; max_queued is to stand above the "
                        "first line in brackets"));
  EXPECT_THAT(
      ErrorOf("[log]\nmemory_poool = 5\n"),
      HasSubstr("unknown key \"log.memory_poool\"; did you mean memory_pool? What stands "
                "below the line [log] belongs to that table; memory_pool is to stand above"));
  EXPECT_THAT(ErrorOf("[default]\nswap_budget = \"8G\"\n"), HasSubstr("unknown key \"default\""));
  EXPECT_THAT(ErrorOf("log = \"debug\"\n"), HasSubstr("log: needs a table"));
}

TEST_F(ConfigTest, EveryMistakeIsToldInTheOrderOfTheFile) {
  const std::vector<std::string> lines = absl::StrSplit(
      ErrorOf("settle = \"soon\"\n[log]\nlevel = \"loud\"\nfiles = 0\n[defaults]\ngrace = 5\n"),
      '\n');
  ASSERT_EQ(lines.size(), 4u) << ::testing::PrintToString(lines);
  EXPECT_THAT(lines[0], HasSubstr("config.toml:1: settle: duration \"soon\""));
  EXPECT_THAT(lines[1], AllOf(HasSubstr("config.toml:3: log.level: needs \"trace\""),
                              HasSubstr("it is \"loud\"")));
  EXPECT_THAT(lines[2], HasSubstr("config.toml:4: log.files: needs a whole number from 1 to 100"));
  EXPECT_THAT(lines[3], AllOf(HasSubstr("config.toml:6: defaults.grace: "), HasSubstr("\"5s\""),
                              HasSubstr("it is 5")));
}

TEST_F(ConfigTest, TakesTheWordsThatTheOptionsTake) {
  const auto config = Load(
      "memory_pool = \"none\"\nreserve = \"none\"\nreserve_percent = \"12.5%\"\n"
      "[defaults]\nwait_free = \"55%\"\nkill_free = \"7\"\nmemory = \"none\"\nswap_limit = "
      "\"none\"\nbusy = \"none\"\ntime = \"none\"\nstart_timeout = \"none\"\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->core.reserve_fraction, 0.125);
  EXPECT_FALSE(config->core.memory_pool || config->core.reserve);
  const core::Policy& policy = config->defaults.policy;
  EXPECT_EQ(policy.wait_free.value, 55);
  EXPECT_EQ(policy.kill_free.value, 7);
  EXPECT_FALSE(policy.memory || policy.memory_auto || policy.swap_limit || policy.time_limit ||
               policy.start_timeout);
  EXPECT_THAT(policy.busy, IsEmpty());
}

TEST_F(ConfigTest, BadDefaultsAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"wait_free = 101", "from 0 to 100"},
      {"wait_free = \"140%\"", "from 0 to 100, such as 15 or \"15%\""},
      {"kill_free = \"ten\"", "from 0 to 100"},
      {"swap_limit = true", "or \"none\""},
      {"swap_limit = \"no\"", "size \"no\""},
      {"swap_budget = -1", "needs a size"},
      {"memory = \"lots\"", "size \"lots\""},
      {"memory = true", "or \"auto\""},
      {"charge = \"both\"", "\"system\" or \"own\""},
      {"on_over_budget = 1", "\"suspend\""},
      {"busy = \"x\"", "needs a list"},
      {"busy = [\"[\"]", "["},
      {"busy = [1]", "needs a list"},
      {"start_timeout = \"never\"", "\"never\""},
      {"start_timeout = 5", "or \"none\""},
      {"time = \"0s\"", "at least \"1s\", or \"none\""},
      {"time = 5", "or \"none\""},
      {"priority = 1001", "from -1000 to 1000"}};
  for (const auto& [line, words] : cases) {
    EXPECT_THAT(ErrorOf(std::string("[defaults]\n") + line + "\n"),
                AllOf(HasSubstr("config.toml:2: defaults."), HasSubstr(words)))
        << line;
  }
}

// What `config init` writes, with the # taken from every key.
std::string AllKeys() {
  std::string text;
  for (const auto& line : std::vector<std::string>(absl::StrSplit(ConfigTemplate(), '\n'))) {
    const bool key = line.size() > 1 && line[0] == '#' && line[1] != ' ';
    text += (key ? line.substr(1) : line) + "\n";
  }
  return text;
}

TEST_F(ConfigTest, TheTemplateChangesNothingAsItStands) {
  const auto config = Load(ConfigTemplate());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->lines, IsEmpty());
}

TEST_F(ConfigTest, TheTemplateHasEveryKeyWithItsDefault) {
  const auto config = Load(AllKeys());
  ASSERT_TRUE(config.ok()) << config.status();
  const std::vector<Setting> defaults = SettingsOf(DaemonConfig());
  const std::vector<Setting> settings = SettingsOf(*config);
  ASSERT_EQ(settings.size(), defaults.size());
  for (std::size_t i = 0; i < settings.size(); ++i) {
    EXPECT_TRUE(settings[i].line) << settings[i].key;
    EXPECT_TRUE(settings[i].value) << settings[i].key;
    EXPECT_EQ(settings[i].value, defaults[i].value ? defaults[i].value : settings[i].value)
        << settings[i].key;
  }
}

TEST_F(ConfigTest, WhatIsShownMayBeWrittenIntoTheFile) {
  const auto config = Load(
      "on_end = \"say \\\"a\\\\b\\\"\\tx\"\nreserve = 5\nsettle = \"90s\"\nanonymous_credit = 0.1\n"
      "[defaults]\nbusy = [\"a\", \"b c\"]\ngrace = \"1.5s\"\nmemory = \"1536M\"\ntime = "
      "\"1h30m\"\n");
  ASSERT_TRUE(config.ok()) << config.status();
  std::string again;
  for (const Setting& setting : SettingsOf(*config)) {
    if (setting.line) again += setting.key + " = " + *setting.value + "\n";
  }
  const auto read = Load(again);
  ASSERT_TRUE(read.ok()) << read.status() << "\n" << again;
  EXPECT_EQ(read->on_end, config->on_end);
  EXPECT_EQ(read->defaults.policy, config->defaults.policy);
  EXPECT_THAT(again, HasSubstr("defaults.grace = \"1500ms\"\n"));
  EXPECT_THAT(again, HasSubstr("settle = \"90s\"\n"));
}

// The keys of the tables of docs/config.md: "| `defaults.grace` | ...".
TEST_F(ConfigTest, TheDocumentationHasTheSameKeysWithTheSameDefaults) {
  std::ifstream page(std::string(STAGELOAD_SOURCE_DIR) + "/docs/config.md");
  ASSERT_TRUE(page) << "docs/config.md is gone";
  std::vector<std::pair<std::string, std::string>> documented;
  const std::regex row(R"(\| `([a-z_.]+)` \| (.*?) \|.*)");
  for (std::string line; std::getline(page, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row)) continue;
    documented.emplace_back(cells[1], cells[2]);
  }
  std::vector<std::pair<std::string, std::string>> there;
  for (const Setting& setting : SettingsOf(DaemonConfig())) {
    there.emplace_back(setting.key, setting.value ? "`" + *setting.value + "`" : "");
  }
  for (auto& [key, value] : documented) {
    if (value[0] != '`') value.clear();  // said in words
  }
  EXPECT_EQ(documented, there);
}

class SettingsTest : public ConfigTest {
 protected:
  std::unique_ptr<Settings> Start(const std::string& text, Overrides overrides = {}) {
    EXPECT_TRUE(Load(text).ok());
    auto settings = Settings::Load(path_, overrides);
    EXPECT_TRUE(settings.ok()) << settings.status();
    return *std::move(settings);
  }
  std::string OriginOf(const Settings& settings, const std::string& key) {
    for (const auto& setting : settings.View().settings) {
      if (setting.key == key) return setting.origin;
    }
    return "no such key";
  }

  const std::string path_ = folder_ + "/config.toml";
};

TEST_F(SettingsTest, AReloadAppliesWhatHasChangedAndSaysIt) {
  const auto settings = Start("max_queued = 5\nmax_bypass = 3\n");
  std::ofstream(path_) << "max_bypass = 3\n[defaults]\nswap_budget = \"2G\"\n";
  int applied = 0;
  const auto changes = settings->Reload([&](const DaemonConfig& config) {
    ++applied;
    EXPECT_EQ(config.core.max_queued, 100'000);
  });
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_EQ(applied, 1);
  EXPECT_EQ(Described(*changes), "max_queued 5 -> 100000; defaults.swap_budget \"8G\" -> \"2G\"");
  EXPECT_EQ(settings->config()->defaults.policy.swap_budget, GiB(2));
  EXPECT_EQ(OriginOf(*settings, "defaults.swap_budget"), path_ + ":3");
  EXPECT_EQ(OriginOf(*settings, "max_queued"), "default");
}

TEST_F(SettingsTest, AFileWithAMistakeChangesNothing) {
  const auto settings = Start("max_queued = 5\n");
  std::ofstream(path_) << "max_queued = 6\nmax_bypass = -1\n";
  const auto changes = settings->Reload([](const DaemonConfig&) { ADD_FAILURE() << "applied"; });
  EXPECT_TRUE(absl::IsInvalidArgument(changes.status())) << changes.status();
  EXPECT_EQ(settings->config()->core.max_queued, 5);
  EXPECT_EQ(OriginOf(*settings, "max_queued"), path_ + ":1");
}

TEST_F(SettingsTest, WhatTakesARestartIsNamedAndStaysUntilThen) {
  const auto settings = Start("[log]\nfiles = 3\n");
  std::ofstream(path_) << "\n\n[log]\nfiles = 4\n";
  for (int i = 0; i < 2; ++i) {
    const auto changes = settings->Reload([](const DaemonConfig&) {});
    ASSERT_TRUE(changes.ok()) << changes.status();
    EXPECT_EQ(Described(*changes), "log.files 3 -> 4 (at the next start)");
    EXPECT_EQ(settings->config()->log.files, 3);
    EXPECT_EQ(OriginOf(*settings, "log.files"), path_ + ":2") << "of the value in force";
  }
}

TEST_F(SettingsTest, TheCommandLineIsOverTheFile) {
  Overrides overrides;
  overrides.log_level = LogLevel::kDebug;
  overrides.dry_run = true;
  const auto settings = Start("[log]\nlevel = \"error\"\n", overrides);
  EXPECT_EQ(settings->config()->log.level, LogLevel::kDebug);
  EXPECT_EQ(OriginOf(*settings, "log.level"), "--log-level");
  std::ofstream(path_) << "[log]\nlevel = \"warn\"\n";
  const auto changes = settings->Reload([](const DaemonConfig& config) {
    EXPECT_EQ(config.log.level, LogLevel::kDebug);
    EXPECT_TRUE(config.core.dry_run);
  });
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_EQ(Described(*changes), "nothing has changed");
}

TEST_F(ConfigTest, BadValueIsRefusedWithItsLineAndARightOne) {
  EXPECT_THAT(ErrorOf("memory_pool = \"8X\"\n"), HasSubstr("config.toml:1: memory_pool: "));
  EXPECT_THAT(ErrorOf("memory_pool = -1\n"), HasSubstr("needs a size such as \"8G\""));
  EXPECT_THAT(ErrorOf("reserve = true\n"), HasSubstr("needs a size"));
  EXPECT_THAT(ErrorOf("reserve_percent = 140\n"), HasSubstr("needs a number from 0 to 90"));
  EXPECT_THAT(ErrorOf("reserve_percent = \"95%\"\n"), HasSubstr("needs a number from 0 to 90"));
  // No job that declares its memory would ever fit.
  EXPECT_THAT(ErrorOf("memory_pool = 0\n"), HasSubstr("memory_pool: needs a size such as \"8G\" "
                                                      "above 0 or a number of bytes, or \"none\""));
  EXPECT_THAT(ErrorOf("max_pressure = \"loud\"\n"), HasSubstr("\"warn\" or \"critical\""));
  EXPECT_THAT(ErrorOf("max_queued = 0\n"), HasSubstr("from 1 to 100000"));
  for (const char* wrong : {"-1", "1001", "1.5", "\"5\""}) {
    EXPECT_THAT(ErrorOf(std::string("\nmax_bypass = ") + wrong + "\n"),
                HasSubstr("config.toml:2: max_bypass: needs a whole number from 0 to 1000"));
  }
  for (const char* wrong : {"15", "true", "-1"}) {
    EXPECT_THAT(ErrorOf(std::string("settle = ") + wrong + "\n"),
                HasSubstr("config.toml:1: settle: needs a duration such as \"15s\""));
  }
  EXPECT_THAT(ErrorOf("settle = \"soon\"\n"), HasSubstr("settle: duration \"soon\""));
  EXPECT_THAT(ErrorOf("settle = \"-1s\"\n"), HasSubstr("negative"));
  for (const char* wrong : {"-0.1", "1.1", "\"0.5\"", "nan", "true"}) {
    EXPECT_THAT(ErrorOf(std::string("anonymous_credit = ") + wrong + "\n"),
                HasSubstr("anonymous_credit: needs a number from 0 to 1"));
  }
  for (const char* wrong : {"1", "\"gpu\"", "[]", "{ gpu = 0 }", "{ gpu = \"1\" }", "{ gpu = 1.5 }",
                            "{ gpu = 100001 }", "{ cpu = 1, gpu = -1 }"}) {
    EXPECT_THAT(ErrorOf(std::string("group_limits = ") + wrong + "\n"),
                AllOf(HasSubstr("config.toml:1: group_limits: "), HasSubstr("gpu = 1")));
  }
  EXPECT_THAT(ErrorOf("group_limits = { cpu = 1, gpu = -1 }\n"),
              HasSubstr("gpu has something else"));
}

TEST_F(ConfigTest, BrokenSyntaxIsRefusedWithItsLine) {
  EXPECT_THAT(ErrorOf("max_queued = 5\nmemory_pool = \n"), HasSubstr("config.toml:2: "));
}

TEST_F(ConfigTest, FolderInPlaceOfTheFileIsRefused) {
  const auto config = LoadConfig(folder_);
  EXPECT_TRUE(absl::IsInvalidArgument(config.status())) << config.status();
}

}  // namespace
}  // namespace stageload
