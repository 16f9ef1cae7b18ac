// The daemon as a service: the commands of `daemon` before a launchctl and a systemctl of the
// test's, which start the real daemon; systemd_test.sh has them before the real systemd.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

namespace fs = std::filesystem;

class ServiceTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    fs::create_directory(PathOf("state"));
    gui_ = absl::StrCat("gui/", geteuid());
    user_ = absl::StrCat("user/", geteuid());
  }

  Result Daemon(const std::string& command, Arguments more = {},
                const Arguments& environment = {}) {
    // By env(1): of two PATHs in an environment the first counts.
    Arguments call = {absl::StrCat("PATH=", STAGELOAD_E2E_FAKE, ":/usr/bin:/bin"),
                      "FAKE_STATE=" + PathOf("state")};
    return Ctl(call + environment + Arguments{kCtlProgram, "daemon", command, "--platform"} +
                   Arguments{platform_} + more,
               {.program = "/usr/bin/env"});
  }
  // A stageloadd that the test may spoil, which is then the service's.
  std::string InstallCopy() {
    const fs::path bin = PathOf("a copy");
    fs::create_directory(bin);
    for (const char* name : {"stageloadd", "stageload-shim"}) {
      fs::copy_file(fs::path(kDaemonProgram).parent_path() / name, bin / name);
    }
    const std::string program = bin / "stageloadd";
    const Result result = Daemon("install", {}, {"STAGELOAD_DAEMON=" + program});
    EXPECT_EQ(result.exit_code, 0) << result;
    return program;
  }
  void ExpectNoRestartUntilAnInstall(const std::string& program, const std::string& why) {
    Calls();
    const int pid = Status()["daemon"].value("pid", 0);
    const Result restart = Daemon("restart");
    EXPECT_EQ(restart.exit_code, 1) << restart;
    EXPECT_THAT(restart.err, AllOf(HasSubstr("nothing was changed"), HasSubstr(program + why),
                                   HasSubstr("`stageloadctl daemon install`")));
    EXPECT_THAT(Calls(), IsEmpty());
    EXPECT_EQ(Status()["daemon"].value("pid", 1), pid);
    EXPECT_EQ(Daemon("install").exit_code, 0);
    EXPECT_NE(Status()["daemon"].value("pid", pid), pid);
    EXPECT_EQ(Daemon("restart").exit_code, 0);
  }
  // What launchctl or systemctl was called with since the last look, but for questions.
  std::vector<std::string> Calls() {
    std::vector<std::string> calls;
    const std::string file = PathOf("state/calls");
    for (const std::string& line :
         std::vector<std::string>(absl::StrSplit(ReadFile(file), '\n', absl::SkipEmpty()))) {
      if (!absl::StartsWith(line, "print") && !absl::StartsWith(line, "show")) {
        calls.push_back(
            absl::StrReplaceAll(line, {{"/dev.stageload.stageloadd", ""}, {" " + plist(), ""}}));
      }
    }
    fs::remove(file);
    return calls;
  }
  std::string plist() const {
    return folder() + "/Library/LaunchAgents/dev.stageload.stageloadd.plist";
  }
  std::string unit() const { return folder() + "/.config/systemd/user/stageloadd.service"; }
  nlohmann::json Status() {
    const Result result = Daemon("status", {"--json"});
    return nlohmann::json::parse(result.out, nullptr, false);
  }
  std::string StartedBy() { return Status()["daemon"].value("started_by", ""); }

  std::string platform_ = "macos";
  std::string gui_;
  std::string user_;
};

class Launchd : public ServiceTest {};
class Systemd : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    platform_ = "linux";
  }
};

// ---- launchd ----

TEST_F(Launchd, InstallWritesThePlistAndLoadsItIntoTheGraphicalDomain) {
  const Result result = Daemon("install");
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("installed:"), HasSubstr(plist()), HasSubstr("running:")));
  EXPECT_THAT(Calls(), ElementsAre("enable " + gui_, "bootstrap " + gui_));
  struct stat found {};
  ASSERT_EQ(::lstat(plist().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0644u) << "launchd takes none that others can write";
  EXPECT_EQ(StartedBy(), "SERVICE");
}

TEST_F(Launchd, WithoutAGraphicalLoginItIsTheUsersDomain) {
  Touch(PathOf("state/no-gui"));
  const Result result = Daemon("install");
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(Calls(), ElementsAre("enable " + gui_, "bootstrap " + gui_, "enable " + user_,
                                   "bootstrap " + user_));
  EXPECT_EQ(Status()["service"].value("where", ""), user_);
}

TEST_F(Launchd, ARenewalTriesADomainThatIsNotThereOnce) {
  Touch(PathOf("state/no-gui"));
  ASSERT_EQ(Daemon("install").exit_code, 0);
  WriteFile(plist(), absl::StrReplaceAll(ReadFile(plist()), {{"Interactive", "Background"}}));
  Calls();
  EXPECT_THAT(Daemon("install").out, HasSubstr("renewed:"));
  EXPECT_THAT(Calls(), ElementsAre("bootout " + user_, "enable " + gui_, "bootstrap " + gui_,
                                   "enable " + user_, "bootstrap " + user_));
}

TEST_F(Launchd, ARefusalThatIsNotForWantOfALoginIsToldAndNotTriedElsewhere) {
  WriteFile(PathOf("state/bootstrap-fails"), "Bootstrap failed: 5: Input/output error");
  const Result result = Daemon("install");
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_THAT(result.err, AllOf(HasSubstr("launchctl bootstrap " + gui_), HasSubstr("exit code 5"),
                                HasSubstr("Input/output error"), HasSubstr("plutil -lint")));
  EXPECT_THAT(Calls(), ElementsAre("enable " + gui_, "bootstrap " + gui_));
}

TEST_F(Launchd, InstallAgainChangesNothing) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  Calls();
  const int pid = Status()["daemon"].value("pid", 0);
  const Result again = Daemon("install");
  EXPECT_EQ(again.exit_code, 0) << again;
  EXPECT_THAT(again.out, HasSubstr("installed already"));
  EXPECT_THAT(Calls(), IsEmpty());
  EXPECT_EQ(Status()["daemon"].value("pid", 1), pid);
}

TEST_F(Launchd, SixInstallsAtOnceMakeOneAndEachSaysWhatIsTrue) {
  const Arguments call = {absl::StrCat("PATH=", STAGELOAD_E2E_FAKE, ":/usr/bin:/bin"),
                          "FAKE_STATE=" + PathOf("state"),
                          kCtlProgram,
                          "daemon",
                          "install",
                          "--platform",
                          platform_};
  std::vector<ChildProcess> installs;
  for (int i = 0; i < 6; ++i) installs.push_back(StartCtl(call, {.program = "/usr/bin/env"}));
  int installed = 0, already = 0;
  for (ChildProcess& install : installs) {
    const Result result = install.Wait();
    EXPECT_EQ(result.exit_code, 0) << result;
    installed += absl::StartsWith(result.out, "installed:\n") ? 1 : 0;
    already += absl::StartsWith(result.out, "installed already: ") ? 1 : 0;
  }
  EXPECT_EQ(installed, 1);
  EXPECT_EQ(already, 5);
  EXPECT_EQ(Daemons().size(), 1u);
  EXPECT_EQ(StartedBy(), "SERVICE");
  EXPECT_THAT(Calls(), ElementsAre("enable " + gui_, "bootstrap " + gui_));
}

TEST_F(Launchd, AnInstallThatCouldNotLoadWhatItWroteIsNotTakenForDone) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  WriteFile(plist(), absl::StrReplaceAll(ReadFile(plist()), {{"Interactive", "Background"}}));
  Touch(PathOf("state/bootout-fails"));
  EXPECT_EQ(Daemon("install").exit_code, 1);
  fs::remove(PathOf("state/bootout-fails"));
  EXPECT_THAT(ReadFile(plist()), HasSubstr("Interactive")) << "written, but not loaded";
  const Result again = Daemon("install");
  EXPECT_EQ(again.exit_code, 0) << again;
  EXPECT_THAT(again.out, HasSubstr("renewed:"));
  EXPECT_THAT(Daemon("install").out, HasSubstr("installed already"));
}

TEST_F(Launchd, InstalledForWantOfAGraphicalLoginItIsMovedIntoOneThatCame) {
  Touch(PathOf("state/no-gui"));
  ASSERT_EQ(Daemon("install").exit_code, 0);
  EXPECT_THAT(Daemon("install").out, HasSubstr("installed already"));
  Calls();
  fs::remove(PathOf("state/no-gui"));
  const Result again = Daemon("install");
  EXPECT_EQ(again.exit_code, 0) << again;
  EXPECT_THAT(again.out, HasSubstr("renewed:"));
  EXPECT_THAT(Calls(), ElementsAre("bootout " + user_, "enable " + gui_, "bootstrap " + gui_));
  EXPECT_EQ(Status()["service"].value("where", ""), gui_);
}

TEST_F(Launchd, WhatWasDisabledOrIsOpenToOthersIsNotInstalledAlready) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  Calls();
  Touch(PathOf("state/disabled"));
  EXPECT_THAT(Daemon("install").out, HasSubstr("renewed:"));
  EXPECT_THAT(Calls(), ElementsAre("bootout " + gui_, "enable " + gui_, "bootstrap " + gui_));
  ASSERT_EQ(::chmod(plist().c_str(), 0666), 0);
  EXPECT_THAT(Daemon("install").out, HasSubstr("renewed:"));
  struct stat found {};
  ASSERT_EQ(::lstat(plist().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0644u);
  EXPECT_THAT(Daemon("install").out, HasSubstr("installed already"));
}

TEST_F(Launchd, AStalePlistIsRenewedAndWhatIsLoadedIsTakenOutFirst) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  const std::string right = ReadFile(plist());
  Calls();
  WriteFile(plist(), absl::StrReplaceAll(right, {{"Interactive", "Background"}}));
  const Result again = Daemon("install");
  EXPECT_EQ(again.exit_code, 0) << again;
  EXPECT_THAT(again.out, HasSubstr("renewed:"));
  EXPECT_EQ(ReadFile(plist()), right);
  EXPECT_THAT(Calls(), ElementsAre("bootout " + gui_, "enable " + gui_, "bootstrap " + gui_));
  EXPECT_EQ(StartedBy(), "SERVICE");
}

TEST_F(Launchd, WhatWasLoadedIntoTheOtherDomainIsTakenOutToo) {
  Touch(PathOf("state/no-gui"));
  ASSERT_EQ(Daemon("install").exit_code, 0);
  Calls();
  fs::remove(PathOf("state/no-gui"));
  fs::remove(plist());
  ASSERT_EQ(Daemon("install").exit_code, 0);
  EXPECT_THAT(Calls(), ElementsAre("bootout " + user_, "enable " + gui_, "bootstrap " + gui_));
}

TEST_F(Launchd, LoadedInBothDomainsItIsToldAndInstallOrRestartLeavesOne) {
  for (const char* mend : {"install", "restart"}) {
    Touch(PathOf("state/no-gui"));
    ASSERT_EQ(Daemon("install").exit_code, 0);
    fs::remove(PathOf("state/no-gui"));
    const Result login = Ctl({"FAKE_STATE=" + PathOf("state"), STAGELOAD_E2E_FAKE "/launchctl",
                              "bootstrap", gui_, plist()},
                             {.program = "/usr/bin/env"});
    ASSERT_EQ(login.exit_code, 0) << login;
    EXPECT_THAT(Daemon("status").out, AllOf(HasSubstr("loaded in " + gui_),
                                            HasSubstr("loaded in " + user_ + " as well")));
    Calls();
    const Result result = Daemon(mend);
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_THAT(Calls(), ElementsAre("bootout " + gui_, "bootout " + user_, "enable " + gui_,
                                     "bootstrap " + gui_));
    EXPECT_EQ(Daemons().size(), 1u);
    EXPECT_EQ(StartedBy(), "SERVICE");
    ASSERT_EQ(Daemon("uninstall").exit_code, 0);
  }
}

TEST_F(Launchd, AFileOfAnotherUserIsLeftAloneAndNamedWithTheFix) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  fs::create_directories(fs::path(plist()).parent_path());
  WriteFile(plist(), "theirs");
  ASSERT_EQ(::chown(plist().c_str(), 65534, 65534), 0);
  for (const char* command : {"install", "uninstall"}) {
    const Result result = Daemon(command);
    EXPECT_EQ(result.exit_code, 1) << result;
    EXPECT_THAT(result.err, AllOf(HasSubstr(plist() + " belongs to uid 65534"),
                                  HasSubstr("sudo rm " + plist())));
  }
  EXPECT_EQ(ReadFile(plist()), "theirs");
  EXPECT_THAT(Calls(), IsEmpty());
}

TEST_F(Launchd, ASymbolicLinkOrHomebrewsOwnServiceIsRefusedWithTheFix) {
  fs::create_directories(fs::path(plist()).parent_path());
  fs::create_symlink("/dev/null", plist());
  const Result link = Daemon("install");
  EXPECT_EQ(link.exit_code, 1) << link;
  EXPECT_THAT(link.err, HasSubstr("is a symbolic link"));
  fs::remove(plist());
  WriteFile(folder() + "/Library/LaunchAgents/homebrew.mxcl.stageload.plist", "");
  const Result brew = Daemon("install");
  EXPECT_EQ(brew.exit_code, 1) << brew;
  EXPECT_THAT(brew.err, HasSubstr("brew services stop stageload"));
  EXPECT_THAT(Calls(), IsEmpty());
}

TEST_F(Launchd, AFileWhereTheAgentsFolderShouldBeIsNamedWithTheFix) {
  const std::string agents = folder() + "/Library/LaunchAgents";
  fs::create_directory(folder() + "/Library");
  WriteFile(agents, "");
  const Result result = Daemon("install");
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_THAT(result.err, HasSubstr(agents + " must be a folder: move away what is there"));
}

TEST_F(Launchd, AFolderThatCannotBeWrittenIsToldWithAFixThatHelps) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can mount";
  const std::string agents = folder() + "/Library/LaunchAgents";
  fs::create_directories(agents);
  // In a mount namespace of its own, which ends with it.
  const Result result =
      Ctl({"--mount", "/bin/sh", "-c",
           absl::StrCat("mount -t tmpfs -o ro none '", agents,
                        "' && exec env PATH=", STAGELOAD_E2E_FAKE, ":/usr/bin:/bin FAKE_STATE='",
                        PathOf("state"), "' '", kCtlProgram, "' daemon install --platform macos")},
          {.program = "/usr/bin/unshare"});
  if (absl::StrContains(result.err, "unshare:")) GTEST_SKIP() << result.err;
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_THAT(result.err, AllOf(HasSubstr(agents + " is on a disk that is mounted read-only"),
                                Not(HasSubstr("STAGELOAD_HOME"))));
}

TEST_F(Launchd, SudoIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be what sudo makes of one";
  const Result result = Daemon("install", {}, {"SUDO_UID=501"});
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_THAT(result.err, HasSubstr("without sudo"));
  EXPECT_FALSE(fs::exists(plist()));
}

TEST_F(Launchd, NothingIsWrittenWhereThereIsNoLaunchctl) {
  const Result result = Daemon("install", {}, {"PATH=/nowhere"});
  EXPECT_NE(result.exit_code, 0) << result;
  EXPECT_THAT(result.err, HasSubstr("launchctl"));
  EXPECT_FALSE(fs::exists(plist()));
}

TEST_F(Launchd, ABrokenConfigIsToldBeforeAnythingIsChanged) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  const int pid = Status()["daemon"].value("pid", 0);
  WriteConfig("nonsense = 1\n");
  const Result result = Daemon("restart");
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_THAT(result.err, AllOf(HasSubstr("nothing was changed"), HasSubstr("nonsense")));
  EXPECT_EQ(Status()["daemon"].value("pid", 1), pid);
}

TEST_F(Launchd, NoDaemonIsEndedWhoseServiceHasLostItsProgram) {
  const std::string program = InstallCopy();
  fs::remove(program);
  const Result status = Daemon("status");
  EXPECT_THAT(status.out, AllOf(HasSubstr(program + " was removed"),
                                HasSubstr("upgrade: `stageloadctl daemon install`")));
  ExpectNoRestartUntilAnInstall(program, ": there is no such file");
}

TEST_F(Launchd, AServiceThatHasLostItsProgramTakesNoHomeFromAClientsDaemon) {
  const std::string program = InstallCopy();
  ASSERT_EQ(Daemon("stop").exit_code, 0);
  fs::remove(program);
  ASSERT_EQ(Ctl({"queue"}).exit_code, 0);
  const Result start = Daemon("start");
  EXPECT_EQ(start.exit_code, 1) << start;
  EXPECT_THAT(start.err, HasSubstr("`stageloadctl daemon install`"));
  EXPECT_EQ(StartedBy(), "AUTOSTART");
}

TEST_F(Launchd, ADaemonThatAClientHasStartedIsReplacedAndItsJobsRunOn) {
  const std::int64_t id = Submit(Arguments{"--wait-free", "0", "--"} + UntilExists(PathOf("go")));
  ASSERT_TRUE(Reaches(id, "RUNNING"));
  ASSERT_EQ(StartedBy(), "AUTOSTART");
  const Result result = Daemon("install");
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(StartedBy(), "SERVICE");
  EXPECT_EQ(Daemons().size(), 1u);
  EXPECT_EQ(StateOf(id), "RUNNING");
  Touch(PathOf("go"));
  EXPECT_TRUE(Reaches(id, "COMPLETED"));
}

TEST_F(Launchd, RestartIsAnotherProcessAndStopLastsUntilStart) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  Calls();
  const int first = Status()["daemon"].value("pid", 0);
  const Result restart = Daemon("restart");
  EXPECT_EQ(restart.exit_code, 0) << restart;
  EXPECT_THAT(Calls(), ElementsAre("kill SIGTERM " + gui_));
  EXPECT_NE(Status()["daemon"].value("pid", first), first);

  const Result stop = Daemon("stop");
  EXPECT_EQ(stop.exit_code, 0) << stop;
  EXPECT_THAT(Calls(), ElementsAre("bootout " + gui_));
  EXPECT_THAT(Daemons(), IsEmpty());
  EXPECT_EQ(Status()["service"].value("loaded", true), false);
  EXPECT_EQ(Daemon("status").exit_code, 69);

  const Result start = Daemon("start");
  EXPECT_EQ(start.exit_code, 0) << start;
  EXPECT_THAT(Calls(), ElementsAre("enable " + gui_, "bootstrap " + gui_));
  EXPECT_EQ(StartedBy(), "SERVICE");
  EXPECT_THAT(Daemon("start").out, HasSubstr("already running"));
}

TEST_F(Launchd, StartAfterAClientHasStartedOneGivesTheHomeBackToTheService) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  ASSERT_EQ(Daemon("stop").exit_code, 0);
  ASSERT_EQ(Ctl({"queue"}).exit_code, 0);
  ASSERT_EQ(StartedBy(), "AUTOSTART");
  EXPECT_EQ(Daemon("start").exit_code, 0);
  EXPECT_EQ(StartedBy(), "SERVICE");
  EXPECT_EQ(Daemons().size(), 1u);
}

TEST_F(Launchd, UninstallTakesItOutRemovesThePlistAndMayBeRepeated) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  Calls();
  const Result result = Daemon("uninstall");
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, AllOf(HasSubstr("uninstalled"), HasSubstr(plist())));
  EXPECT_THAT(Calls(), ElementsAre("bootout " + gui_));
  EXPECT_FALSE(fs::exists(plist()));
  EXPECT_THAT(Daemons(), IsEmpty());
  const Result again = Daemon("uninstall");
  EXPECT_EQ(again.exit_code, 0) << again;
  EXPECT_EQ(again.out, "not installed\n");
  EXPECT_THAT(Calls(), IsEmpty());
}

TEST_F(Launchd, AServiceOfAnotherHomeIsLeftAloneByStopAndStart) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  Calls();
  const Arguments other = {"STAGELOAD_HOME=" + PathOf("other")};
  const nlohmann::json status =
      nlohmann::json::parse(Daemon("status", {"--json"}, other).out, nullptr, false);
  EXPECT_EQ(status["service"].value("installed", true), false);
  EXPECT_EQ(status["service"].value("installed_for_another_home", false), true);
  EXPECT_THAT(Daemon("start", {}, other).out, HasSubstr("started"));
  EXPECT_THAT(Daemon("stop", {}, other).out, HasSubstr("stopped: pid"));
  EXPECT_THAT(Calls(), IsEmpty());
  EXPECT_EQ(StartedBy(), "SERVICE");
}

TEST_F(Launchd, DryRunWritesNothingAndCallsNobody) {
  const Result install = Daemon("install", {"--dry-run"});
  EXPECT_EQ(install.exit_code, 0) << install;
  EXPECT_THAT(install.out, AllOf(HasSubstr("would write " + plist()), HasSubstr("would run:")));
  const Result uninstall = Daemon("uninstall", {"--dry-run"});
  EXPECT_THAT(uninstall.out, AllOf(HasSubstr("not installed: there is no " + plist()),
                                   HasSubstr("bootout"), Not(HasSubstr("would remove"))));
  EXPECT_FALSE(fs::exists(PathOf("state/calls")));
  EXPECT_FALSE(fs::exists(folder() + "/Library"));
  EXPECT_THAT(Daemons(), IsEmpty());
}

// ---- systemd ----

TEST_F(Systemd, InstallWritesTheUnitsAndStartsSocketThenService) {
  const Result result = Daemon("install");
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(Calls(), ElementsAre("daemon-reload", "stop stageloadd.service stageloadd.socket",
                                   "enable stageloadd.service stageloadd.socket",
                                   "start stageloadd.socket", "start stageloadd.service"));
  EXPECT_THAT(ReadFile(unit()), HasSubstr("STAGELOAD_HOME=" + home()));
  EXPECT_EQ(StartedBy(), "SERVICE");
  EXPECT_THAT(Daemon("install").out, HasSubstr("installed already"));
  EXPECT_THAT(Calls(), IsEmpty());
}

TEST_F(Systemd, TheUnitsAreWhereTheManagerReadsThemWhateverTheShellHasAsItsConfigFolder) {
  const Arguments shell = {"XDG_CONFIG_HOME=" + PathOf("x dg")};
  const Result install = Daemon("install", {}, shell);
  EXPECT_EQ(install.exit_code, 0) << install;
  EXPECT_THAT(install.out, HasSubstr(unit()));
  EXPECT_TRUE(fs::exists(unit()));
  EXPECT_FALSE(fs::exists(PathOf("x dg/systemd")));
  EXPECT_EQ(Daemon("uninstall", {}, shell).exit_code, 0);
  EXPECT_FALSE(fs::exists(unit()));

  WriteFile(PathOf("state/config-home"), PathOf("m gr"));
  EXPECT_EQ(Daemon("install").exit_code, 0);
  EXPECT_TRUE(fs::exists(PathOf("m gr/systemd/user/stageloadd.service")));
  EXPECT_EQ(StartedBy(), "SERVICE");
  EXPECT_EQ(Daemon("uninstall").exit_code, 0);
}

TEST_F(Systemd, UnitsThatWereDisabledAreEnabledAgain) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  Touch(PathOf("state/disabled"));
  EXPECT_THAT(Daemon("install").out, HasSubstr("renewed:"));
  EXPECT_THAT(Calls(), Contains("enable stageloadd.service stageloadd.socket"));
  EXPECT_THAT(Daemon("install").out, HasSubstr("installed already"));
}

TEST_F(Systemd, AUnitThatWasRemovedUnderTheServiceIsNoPackagesAndIsWrittenAnew) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  fs::remove(unit());
  EXPECT_THAT(Daemon("status").out,
              AllOf(HasSubstr("loaded in user"), HasSubstr("there is no " + unit()),
                    HasSubstr("daemon install"), Not(HasSubstr("of a package"))));
  EXPECT_EQ(Status()["service"].value("of_package", true), false);
  ASSERT_EQ(Daemon("stop").exit_code, 0);
  EXPECT_THAT(Daemon("status").out, HasSubstr("half installed: there is no " + unit()));
  EXPECT_EQ(Daemon("install").exit_code, 0);
  EXPECT_TRUE(fs::exists(unit()));
}

TEST_F(Systemd, WithoutAUserManagerItSaysWhatToDoAndWritesNothing) {
  Touch(PathOf("state/no-bus"));
  const Result result = Daemon("install");
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_THAT(result.err, AllOf(HasSubstr("systemctl --user show"), HasSubstr("Failed to connect"),
                                HasSubstr("enable-linger")));
  EXPECT_FALSE(fs::exists(unit()));
}

TEST_F(Systemd, AFailureToStartIsToldWithItsWords) {
  WriteFile(PathOf("state/start-fails"), "Job for stageloadd.service failed.");
  const Result result = Daemon("install");
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_THAT(result.err, AllOf(HasSubstr("systemctl --user start stageloadd.service"),
                                HasSubstr("Job for stageloadd.service failed."),
                                HasSubstr("journalctl --user")));
}

TEST_F(Systemd, StaleUnitsAreRenewedRestartedStoppedAndRemoved) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  const std::string right = ReadFile(unit());
  WriteFile(unit(), absl::StrReplaceAll(right, {{"KillMode=process\n", ""}}));
  EXPECT_THAT(Daemon("install").out, HasSubstr("renewed:"));
  EXPECT_EQ(ReadFile(unit()), right);
  Calls();
  EXPECT_THAT(Daemon("restart").out, HasSubstr("restarted:"));
  EXPECT_THAT(Calls(), ElementsAre("restart stageloadd.service"));
  EXPECT_THAT(Daemon("stop").out, HasSubstr("stopped: systemd"));
  EXPECT_THAT(Calls(), ElementsAre("stop stageloadd.service stageloadd.socket"));
  EXPECT_THAT(Daemon("uninstall", {"--dry-run"}).out, HasSubstr("would remove " + unit()));
  const Result uninstall = Daemon("uninstall");
  EXPECT_EQ(uninstall.exit_code, 0) << uninstall;
  EXPECT_THAT(Calls(),
              ElementsAre("disable --now stageloadd.service stageloadd.socket", "daemon-reload"));
  EXPECT_FALSE(fs::exists(unit()));
  EXPECT_EQ(Daemon("uninstall").out, "not installed\n");
}

TEST_F(Systemd, NoDaemonIsEndedWhoseServiceHasLostItsProgram) {
  const std::string program = InstallCopy();
  fs::remove(program);
  const Result doctor = Ctl({absl::StrCat("PATH=", STAGELOAD_E2E_FAKE, ":/usr/bin:/bin"),
                             "FAKE_STATE=" + PathOf("state"), kCtlProgram, "doctor", "--json"},
                            {.program = "/usr/bin/env"});
  EXPECT_THAT(doctor.out, HasSubstr("`stageloadctl daemon install` has it be the one"));
  EXPECT_THAT(Daemon("status").out, HasSubstr("upgrade: `stageloadctl daemon install`"));
  ExpectNoRestartUntilAnInstall(program, ": there is no such file");
}

TEST_F(Systemd, NoDaemonIsEndedWhoseServiceCannotExecuteItsProgram) {
  const std::string program = InstallCopy();
  fs::permissions(program, fs::perms::owner_read | fs::perms::owner_write);
  ExpectNoRestartUntilAnInstall(program, ": not an executable file");
}

TEST_F(Systemd, AProgramThatIsNoDaemonIsNotMadeTheServices) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  const int pid = Status()["daemon"].value("pid", 0);
  const std::string right = ReadFile(unit()), no_daemon = "/bin/echo is no stageloadd";
  Calls();
  const Result install = Daemon("install", {}, {"STAGELOAD_DAEMON=/bin/echo"});
  EXPECT_EQ(install.exit_code, 1) << install;
  EXPECT_THAT(install.err, AllOf(HasSubstr("nothing was changed"), HasSubstr(no_daemon),
                                 HasSubstr("STAGELOAD_DAEMON names it")));
  EXPECT_EQ(ReadFile(unit()), right);
  WriteFile(unit(), absl::StrReplaceAll(right, {{kDaemonProgram, "/bin/echo"}}));
  const Result restart = Daemon("restart");
  EXPECT_EQ(restart.exit_code, 1) << restart;
  EXPECT_THAT(restart.err, AllOf(HasSubstr(no_daemon), HasSubstr("`stageloadctl daemon install`")));
  EXPECT_THAT(Calls(), IsEmpty());
  EXPECT_EQ(Status()["daemon"].value("pid", 1), pid);
}

TEST_F(Systemd, ADryRunRefusesWhatAnInstallWould) {
  const Result install = Daemon("install", {"--dry-run"}, {"STAGELOAD_DAEMON=/bin/echo"});
  EXPECT_EQ(install.exit_code, 1) << install;
  EXPECT_THAT(install.err, HasSubstr("/bin/echo is no stageloadd"));
  EXPECT_EQ(install.out, "");
}

TEST_F(Systemd, AProgramThatIsNamedFromTheWorkingFolderIsWrittenWithItsWholePath) {
  fs::create_symlink(fs::path(kDaemonProgram).parent_path(), PathOf("bin"));
  const Result install = Daemon("install", {"--dry-run"}, {"STAGELOAD_DAEMON=./bin/stageloadd"});
  EXPECT_EQ(install.exit_code, 0) << install;
  EXPECT_THAT(install.out, HasSubstr("ExecStart=\"" + PathOf("bin/stageloadd") + "\" --service"));
}

TEST_F(Systemd, WithoutAServiceAProgramThatIsNoDaemonEndsNoneAndStartsNone) {
  const Arguments echo = {"STAGELOAD_DAEMON=/bin/echo"};
  const std::string no_daemon = "/bin/echo is no stageloadd: asked for its version it says";
  const Result start = Daemon("start", {}, echo);
  EXPECT_EQ(start.exit_code, 1) << start;
  EXPECT_THAT(start.err, HasSubstr(no_daemon));
  ASSERT_EQ(Daemon("start").exit_code, 0);
  const int pid = Status()["daemon"].value("pid", 0);
  const Result restart = Daemon("restart", {}, echo);
  EXPECT_EQ(restart.exit_code, 1) << restart;
  EXPECT_THAT(restart.err, HasSubstr(no_daemon));
  EXPECT_EQ(Status()["daemon"].value("pid", 1), pid);
}

TEST_F(Systemd, ADaemonThatKeepsTheServiceWaitingAndIsNotReachedIsEndedForIt) {
  for (const char* command : {"install", "start", "restart"}) {
    ASSERT_EQ(Daemon("install").exit_code, 0);
    ASSERT_EQ(Daemon("stop").exit_code, 0);
    StartDaemon();
    const pid_t other = DaemonPid();
    // As at a login.
    for (const char* unit : {"stageloadd.socket", "stageloadd.service"}) {
      const Result login = Ctl({"FAKE_STATE=" + PathOf("state"), STAGELOAD_E2E_FAKE "/systemctl",
                                "--user", "start", unit},
                               {.program = "/usr/bin/env"});
      ASSERT_EQ(login.exit_code, 0) << login;
    }
    ASSERT_TRUE(Eventually([&] { return Daemons().size() == 2; }));
    fs::remove(paths().socket);  // systemd puts its own there
    const Result result = Daemon(command);
    EXPECT_EQ(result.exit_code, 0) << command << result;
    EXPECT_THAT(result.out, HasSubstr(absl::StrCat("ended: stageloadd, pid ", other, ", which")));
    EXPECT_EQ(daemon().Wait().exit_code, 0) << "in order";
    EXPECT_EQ(StartedBy(), "SERVICE");
    EXPECT_EQ(Daemons().size(), 1u);
    ASSERT_EQ(Daemon("uninstall").exit_code, 0);
  }
}

TEST_F(Systemd, WithTheServiceADaemonThatNobodyReachesIsStoppedToo) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  ASSERT_EQ(Daemon("stop").exit_code, 0);
  StartDaemon();
  Touch(PathOf("state/loaded"));
  fs::remove(paths().socket);
  EXPECT_THAT(Daemon("stop").out, AllOf(HasSubstr("stopped: systemd"), HasSubstr("ended: ")));
  EXPECT_EQ(daemon().Wait().exit_code, 0);
}

TEST_F(Systemd, ADaemonWhoseSocketWasRemovedIsToldAndEnded) {
  StartDaemon();
  fs::remove(paths().socket);
  const std::string who = absl::StrCat("stageloadd, pid ", DaemonPid(), ", ");
  const Result status = Daemon("status");
  EXPECT_EQ(status.exit_code, 69) << status;
  EXPECT_THAT(status.out, AllOf(HasSubstr("silent: " + who + "has " + paths().lock),
                                HasSubstr("removed from " + paths().socket),
                                HasSubstr("`stageloadctl daemon restart`")));
  EXPECT_THAT(Status().value("error", ""), HasSubstr(who));
  const Result stop = Daemon("stop");
  EXPECT_EQ(stop.exit_code, 0) << stop;
  EXPECT_THAT(stop.out, HasSubstr("ended: " + who));
  EXPECT_EQ(daemon().Wait().exit_code, 0);
  EXPECT_EQ(Daemon("stop").out, "not running\n");

  StartDaemon();
  fs::remove(paths().socket);
  const Result restart = Daemon("restart");
  EXPECT_EQ(restart.exit_code, 0) << restart;
  EXPECT_THAT(restart.out, AllOf(HasSubstr("ended: "), HasSubstr("started: ")));
  EXPECT_EQ(daemon().Wait().exit_code, 0);
}

TEST_F(Systemd, AnotherProcessThatHasTheLastDaemonsPidIsLeftAlone) {
  StartDaemon();
  KillDaemon();
  ChildProcess other = StartCtl({"600"}, {.program = "/bin/sleep"});
  WriteFile(paths().lock, absl::StrCat(other.pid(), "\n"));
  EXPECT_EQ(Daemon("stop").out, "not running\n");
  EXPECT_TRUE(other.Running());
}

TEST_F(Systemd, ADaemonThatIsStoppedIsNamedAtOnceWithWhatToDo) {
  StartDaemon();
  const std::string go_on = absl::StrCat("`kill -CONT ", DaemonPid(), "` first");
  daemon().Signal(SIGSTOP);
  const absl::Time begin = absl::Now();
  for (const char* command : {"stop", "start", "restart", "install"}) {
    const Result result = Daemon(command);
    EXPECT_EQ(result.exit_code, 1) << command << result;
    EXPECT_THAT(result.err, HasSubstr(go_on)) << command;
  }
  EXPECT_THAT(Daemon("status").out, HasSubstr(go_on));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(14)) << "one answer is waited for longer";
  EXPECT_FALSE(fs::exists(unit()));
  daemon().Signal(SIGCONT);
  EXPECT_EQ(Daemon("stop").exit_code, 0);
}

TEST_F(Systemd, StatusSaysWhoStartedItSinceWhenAndWhereItLogs) {
  ASSERT_EQ(Daemon("install").exit_code, 0);
  const Result result = Daemon("status");
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("running: stageloadd 0.2.0, pid "), HasSubstr(paths().socket),
                    HasSubstr("started by systemd"), HasSubstr("installed: " + unit()),
                    HasSubstr("loaded in user, active (running)"), HasSubstr(paths().logs)));
  const nlohmann::json json = Status();
  EXPECT_TRUE(json.value("running", false));
  EXPECT_GT(json.value("uptime_seconds", 0.0), 0.0);
  EXPECT_EQ(json["service"].value("condition", ""), "active (running)");
}

}  // namespace
}  // namespace stageload::e2e
