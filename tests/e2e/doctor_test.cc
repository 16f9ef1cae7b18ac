// `stageloadctl doctor` before the real daemon, well and ill, and before one that the test plays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/client/ctl/fake_daemon.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

// What `doctor --json` has said.
struct Report {
  int exit_code = -1;
  nlohmann::json json;

  nlohmann::json Line(const std::string& check) const {
    for (const nlohmann::json& line : json.value("checks", nlohmann::json::array())) {
      if (line.value("check", "") == check) return line;
    }
    return nlohmann::json::object();
  }
  std::string Verdict(const std::string& check) const { return Line(check).value("verdict", ""); }
  std::string Text(const std::string& check) const { return Line(check).value("text", ""); }
  std::string Fix(const std::string& check) const { return Line(check).value("fix", ""); }
  // The checks that have failed.
  std::vector<std::string> Failed() const {
    std::vector<std::string> failed;
    for (const nlohmann::json& line : json.value("checks", nlohmann::json::array())) {
      if (line.value("verdict", "") == "fail") failed.push_back(line.value("check", ""));
    }
    return failed;
  }
};

class Doctor : public DaemonTest {
 protected:
  // With this environment and these words before and after `doctor`.
  Report Examine(const Arguments& environment = {}, const Arguments& before = {},
                 const Arguments& after = {}) {
    // By env(1): of two values of a variable the first counts.
    const Result result =
        Ctl(environment + Arguments{kCtlProgram} + before + Arguments{"doctor", "--json"} + after,
            {.program = "/usr/bin/env"});
    Report report{result.exit_code, nlohmann::json::parse(result.out, nullptr, false)};
    EXPECT_TRUE(report.json.is_object()) << result;
    EXPECT_EQ(result.err, "") << result;
    for (const nlohmann::json& line : report.json.value("checks", nlohmann::json::array())) {
      EXPECT_EQ(line.value("fix", "") == "", line.value("verdict", "") == "ok") << line;
    }
    EXPECT_EQ(report.exit_code, report.Failed().empty() ? 0 : 1) << report.json.dump(2);
    EXPECT_EQ(report.json.value("healthy", false), report.exit_code == 0);
    return report;
  }

  // A stageloadd whose probe goes through this sed(1) script; returns what makes it be used.
  Arguments WithProbe(const std::string& script) {
    const std::string program = PathOf("bin/stageloadd");
    fs::create_directories(PathOf("bin"));
    WriteFile(program, absl::StrCat("#!/bin/sh\n[ \"$1\" = --probe ] || exec '", kDaemonProgram,
                                    "' \"$@\"\n'", kDaemonProgram, "' --probe | ", script, "\n"));
    fs::permissions(program, fs::perms::owner_all);
    const std::string shim = fs::path(kDaemonProgram).parent_path() / "stageload-shim";
    if (!fs::exists(PathOf("bin/stageload-shim"))) {
      fs::create_symlink(shim, PathOf("bin/stageload-shim"));
    }
    return {"STAGELOAD_DAEMON=" + program};
  }
};

TEST_F(Doctor, FindsNothingWrongWhereNothingIs) {
  StartDaemon();
  const Report report = Examine();
  EXPECT_THAT(report.Failed(), IsEmpty()) << report.json.dump(2);
  for (const char* check :
       {"account",          "programs",     "config",     "daemon", "version",
        "socket_folder",    "socket",       "level",      "memory", "pressure",
        "compressed_wired", "paging",       "processes",  "clocks", "swap",
        "swap_disk",        "daemon_reads", "state_disk", "limits", "daemon_limits",
        "service",          "stops",        "log_folder", "files",  "store"}) {
    EXPECT_NE(report.Verdict(check), "") << "no line about " << check;
  }
  EXPECT_THAT(report.Text("daemon"), HasSubstr("started by a user"));
  EXPECT_THAT(report.Text("daemon_limits"), HasSubstr("1000 sessions"));
  EXPECT_EQ(report.json["daemon"].value("pid", 0), DaemonPid());
  EXPECT_GT(report.json["machine"].value("memory_bytes", std::int64_t{0}), 0);
  EXPECT_TRUE(report.json["probe"]["host"].contains("level_percent"));
}

TEST_F(Doctor, StartsNoDaemonAndMakesNothing) {
  const Report report = Examine();
  EXPECT_THAT(report.Failed(), IsEmpty()) << report.json.dump(2);
  EXPECT_THAT(report.Text("daemon"), HasSubstr("none runs; the next command"));
  EXPECT_THAT(report.Text("socket_folder"), HasSubstr("not there yet"));
  EXPECT_EQ(report.Verdict("daemon_reads"), "");
  EXPECT_THAT(Daemons(), IsEmpty());
  EXPECT_FALSE(fs::exists(home()));
  EXPECT_EQ(Examine({"STAGELOAD_NO_AUTOSTART=1"}).Verdict("daemon"), "warn");
}

TEST_F(Doctor, IsForPeopleTooWithVersionsAndTheMachineFirst) {
  const Result result = Ctl({"doctor"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out.find("stageloadctl 0."), 0u) << result;
  EXPECT_THAT(result.out, AllOf(HasSubstr("memory, pages of"), HasSubstr("socket " + home()),
                                HasSubstr("\nok    level "), HasSubstr("\nnothing has failed, ")));
  const Result help = Ctl({"doctor", "--help"});
  EXPECT_THAT(help.out, HasSubstr("stageloadctl doctor --json > doctor.json"));
}

TEST_F(Doctor, NamesAnOpenSocketFolderAndTheFix) {
  StartDaemon();
  ASSERT_EQ(::chmod(home().c_str(), 0777), 0);
  const Report report = Examine();
  EXPECT_EQ(report.Verdict("socket_folder"), "fail");
  EXPECT_THAT(report.Text("socket_folder"), HasSubstr(home() + " has mode 0777"));
  EXPECT_EQ(report.Fix("socket_folder"), "run: chmod 700 " + home());
  EXPECT_EQ(report.Verdict("daemon"), "ok");
  ASSERT_EQ(::chmod(home().c_str(), 0700), 0);
  EXPECT_EQ(Examine().Verdict("socket_folder"), "ok");
}

TEST_F(Doctor, WarnsOfAMachineWithoutSwap) {
  const auto with_swap = [](const std::string& total) {
    return "sed -E 's/(\"swap_total_bytes\": )[0-9]+/\\1" + total +
           "/; s/(\"swap_used_bytes\": )[0-9]+/\\10/'";
  };
  Report report = Examine(WithProbe(with_swap("0")));
  EXPECT_EQ(report.Verdict("swap"), "warn");
  EXPECT_THAT(report.Text("swap"), HasSubstr("the kernel kills"));
  EXPECT_THAT(report.Fix("swap"), HasSubstr("swapon"));
  report = Examine(WithProbe(with_swap("8589934592")));
  EXPECT_EQ(report.Verdict("swap"), "ok") << report.Text("swap");
}

TEST_F(Doctor, NamesACounterThatCannotBeReadAndADaemonProgramThatIsTooOld) {
  Report report = Examine(WithProbe("grep -v level_percent"));
  EXPECT_THAT(report.Failed(), Contains("level")) << report.json.dump(2);
  report = Examine(WithProbe("grep -v command_line >&2; exit 2"));
  EXPECT_THAT(report.Failed(), Contains("probe")) << report.json.dump(2);
  EXPECT_THAT(report.Text("probe"), HasSubstr("too old to know --probe"));
}

TEST_F(Doctor, NamesADeadDaemonAndTheFixHelps) {
  StartDaemon();
  const pid_t pid = DaemonPid();
  KillDaemon();
  Report report = Examine();
  EXPECT_EQ(report.Verdict("daemon"), "fail");
  EXPECT_THAT(report.Text("daemon"), AllOf(HasSubstr(absl::StrCat("(pid ", pid, ") was killed")),
                                           HasSubstr(paths().socket)));
  EXPECT_THAT(report.Fix("daemon"), HasSubstr("`stageloadctl daemon start`"));
  EXPECT_THAT(Daemons(), IsEmpty()) << "a doctor changes nothing";
  EXPECT_EQ(Ctl({"daemon", "start"}).exit_code, 0);
  EXPECT_EQ(Examine().Verdict("daemon"), "ok");
}

TEST_F(Doctor, DoesNotHangWithADaemonThatDoes) {
  StartDaemon();
  daemon().Signal(SIGSTOP);
  const absl::Time begin = absl::Now();
  const Report report = Examine();
  const absl::Duration took = absl::Now() - begin;
  daemon().Signal(SIGCONT);
  EXPECT_EQ(report.Verdict("daemon"), "fail");
  EXPECT_THAT(report.Text("daemon"), HasSubstr("has not answered within 3s: it is stopped"));
  EXPECT_THAT(report.Fix("daemon"), HasSubstr(absl::StrCat("kill -CONT ", DaemonPid())));
  EXPECT_GE(took, absl::Seconds(3));
  EXPECT_LT(took, absl::Seconds(12)) << "3 s, and what a loaded machine takes for the rest";
  EXPECT_EQ(report.Verdict("level"), "ok") << "what needs no daemon is still looked at";
}

TEST_F(Doctor, NamesADaemonThatListensElsewhere) {
  StartDaemon();
  const Report report = Examine({"STAGELOAD_SOCKET=" + PathOf("other.sock")});
  EXPECT_EQ(report.Verdict("daemon"), "fail");
  EXPECT_THAT(report.Text("daemon"),
              AllOf(HasSubstr(absl::StrCat("(pid ", DaemonPid(), ") listens at ")),
                    HasSubstr("STAGELOAD_SOCKET")));
}

TEST_F(Doctor, NamesADaemonOfAnotherAgeAndTheFix) {
  ctl::FakeDaemon fake;
  const Arguments socket = {"--socket", fake.home() + "/stageloadd.sock"};
  fake.api_level = 99;
  Report report = Examine({}, socket);
  EXPECT_EQ(report.Verdict("version"), "fail") << report.json.dump(2);
  EXPECT_THAT(report.Text("version"),
              AllOf(HasSubstr("9.9.9 (API level 99)"), HasSubstr("this program is too old")));
  EXPECT_THAT(report.Fix("version"), HasSubstr("install the stageloadctl of 9.9.9"));
  EXPECT_EQ(report.Verdict("daemon_reads"), "fail") << "it knows no GetSnapshot";
  fake.api_level = 0;
  report = Examine({}, socket);
  EXPECT_EQ(report.Verdict("version"), "fail");
  EXPECT_THAT(report.Fix("version"), HasSubstr("stageloadctl daemon restart"));
  fake.api_level = 1;
  EXPECT_EQ(Examine({}, socket).Verdict("version"), "warn");
}

TEST_F(Doctor, NamesWhatIsWrongWithTheConfig) {
  WriteConfig("settle = \"1s\"\nnonsense = 1\n");
  const Report report = Examine();
  EXPECT_EQ(report.Failed(), std::vector<std::string>{"config"}) << report.json.dump(2);
  EXPECT_THAT(report.Text("config"), AllOf(HasSubstr("nonsense"), HasSubstr("2")));
  EXPECT_THAT(report.Fix("config"), HasSubstr(paths().config));
}

TEST_F(Doctor, BlamesNoConfigForAProgramThatIsNoDaemonAndNamesTheVariable) {
  for (const char* program : {"/nonexistent", "/bin/false", "/bin/echo"}) {
    const Report report = Examine({absl::StrCat("STAGELOAD_DAEMON=", program)});
    EXPECT_EQ(report.Failed(), (std::vector<std::string>{"programs", "probe"})) << program;
    EXPECT_THAT(report.Text("programs"), HasSubstr(program));
    EXPECT_THAT(report.Fix("programs"), HasSubstr("STAGELOAD_DAEMON"));
    EXPECT_THAT(report.Text("config"), HasSubstr("not looked at"));
  }
  fs::create_directories(PathOf("bin"));
  const std::string crashes = PathOf("bin/stageloadd");
  WriteFile(crashes, absl::StrCat("#!/bin/sh\n[ \"$1\" = --check-config ] && kill -SEGV $$\nexec '",
                                  kDaemonProgram, "' \"$@\"\n"));
  fs::permissions(crashes, fs::perms::owner_all);
  const Report report = Examine({"STAGELOAD_DAEMON=" + crashes});
  EXPECT_EQ(report.Verdict("config"), "fail");
  EXPECT_THAT(report.Text("config"), HasSubstr("--check-config: exit code 139"));
  EXPECT_THAT(report.Fix("config"), HasSubstr("STAGELOAD_DAEMON"));
}

TEST_F(Doctor, TellsAFileInThePlaceOfTheSocketFromADaemonThatHasCrashed) {
  ASSERT_EQ(Ctl({"queue"}).exit_code, 0);
  ASSERT_EQ(Ctl({"daemon", "stop"}).exit_code, 0);
  WriteFile(paths().socket, "");
  const Report report = Examine();
  EXPECT_EQ(report.Failed(), (std::vector<std::string>{"daemon", "socket"})) << report.json.dump(2);
  EXPECT_THAT(report.Text("daemon"), HasSubstr("is there and no socket"));
}

TEST_F(Doctor, TellsWhatWasStoppedInTheLastDayAndWhy) {
  StartDaemon();
  const std::int64_t stopped =
      Submit({"--wait-free", "0", "--kill-free", "100", "--", "sleep", "600"});
  ASSERT_TRUE(Reaches(stopped, "OUT_OF_MEMORY"));
  const std::int64_t cancelled = Submit({"--wait-free", "0", "--", "sleep", "600"});
  ASSERT_TRUE(Reaches(cancelled, "RUNNING"));
  ASSERT_EQ(Ctl({"cancel", Id(cancelled)}).exit_code, 0);
  ASSERT_TRUE(Reaches(cancelled, "CANCELLED"));
  const Report report = Examine();
  EXPECT_THAT(report.Text("stops"), HasSubstr("1 in the last day"));
  EXPECT_EQ(report.Verdict("stop"), "warn");
  EXPECT_THAT(report.Text("stop"),
              AllOf(HasSubstr(absl::StrCat("job ", stopped, ", ")), HasSubstr("LOW_MEMORY: ")));
  EXPECT_THAT(report.Fix("stop"), HasSubstr(absl::StrCat("stageloadctl show ", stopped)));
  EXPECT_EQ(report.json["stops"].size(), 1u);
}

#ifdef __linux__
TEST_F(Doctor, LooksAtTheServiceAsItIs) {
  const Arguments environment = {absl::StrCat("PATH=", STAGELOAD_E2E_FAKE, ":/usr/bin:/bin"),
                                 "FAKE_STATE=" + PathOf("state")};
  const Arguments mac = {"--platform", "macos"};
  fs::create_directory(PathOf("state"));
  const auto daemon = [&](const std::string& command) {
    return Ctl(environment + Arguments{kCtlProgram, "daemon", command} + mac,
               {.program = "/usr/bin/env"});
  };
  EXPECT_THAT(Examine(environment, {}, mac).Text("service"), HasSubstr("not installed: launchd"));
  ASSERT_EQ(daemon("install").exit_code, 0);
  Report report = Examine(environment, {}, mac);
  EXPECT_EQ(report.Verdict("service"), "ok") << report.Text("service");
  EXPECT_THAT(report.Text("daemon"), HasSubstr("started by systemd"));

  const std::string plist = folder() + "/Library/LaunchAgents/dev.stageload.stageloadd.plist";
  const std::string right = ReadFile(plist);
  WriteFile(plist, absl::StrReplaceAll(right, {{"Interactive", "Background"}}));
  report = Examine(environment, {}, mac);
  EXPECT_EQ(report.Verdict("service"), "warn");
  EXPECT_THAT(report.Text("service"),
              HasSubstr("not as this version would write it, in text or mode: " + plist));
  EXPECT_THAT(report.Fix("service"), HasSubstr("daemon install"));
  WriteFile(plist, right);

  ASSERT_EQ(daemon("stop").exit_code, 0);
  report = Examine(environment, {}, mac);
  EXPECT_EQ(report.Verdict("service"), "warn");
  EXPECT_THAT(report.Text("service"), HasSubstr("not loaded by launchd"));
  ASSERT_EQ(daemon("uninstall").exit_code, 0);
}

TEST_F(Doctor, TellsAFolderOrAFifoInThePlaceOfTheServicesFile) {
  const Arguments environment = {absl::StrCat("PATH=", STAGELOAD_E2E_FAKE, ":/usr/bin:/bin"),
                                 "FAKE_STATE=" + PathOf("state")};
  fs::create_directory(PathOf("state"));
  const std::string plist = folder() + "/Library/LaunchAgents/dev.stageload.stageloadd.plist";
  const auto expect_told = [&](const std::string& what) {
    const Report report = Examine(environment, {}, {"--platform", "macos"});
    EXPECT_EQ(report.Verdict("service"), "fail") << what;
    EXPECT_THAT(report.Text("service"), HasSubstr(plist + " is no plain file")) << what;
  };
  fs::create_directories(plist);
  expect_told("a folder");
  fs::remove(plist);
  ASSERT_EQ(::mkfifo(plist.c_str(), 0600), 0);
  expect_told("a FIFO");
}
#endif

}  // namespace
}  // namespace stageload::e2e
