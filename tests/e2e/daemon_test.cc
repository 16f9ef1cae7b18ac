// The daemon's own life: started by whom, one a home, ended how.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Daemon : public DaemonTest {};

TEST_F(Daemon, TwoClientsAtOnceStartOneBetweenThem) {
  ChildProcess one = StartCtl({"submit", "--wait-free", "0", "--", "true"});
  ChildProcess other = StartCtl({"submit", "--wait-free", "0", "--", "true"});
  const Result first = one.Wait();
  const Result second = other.Wait();
  EXPECT_EQ(first.exit_code, 0) << first;
  EXPECT_EQ(second.exit_code, 0) << second;
  EXPECT_EQ((std::set{first.out, second.out}), (std::set<std::string>{"1\n", "2\n"}));
  EXPECT_TRUE(Eventually([&] { return Daemons().size() == 1; }))
      << ::testing::PrintToString(Daemons());
}

TEST_F(Daemon, NobodyStartsItWhereAutostartIsOff) {
  const Result by_flag = Ctl({"queue", "--no-autostart"});
  EXPECT_EQ(by_flag.exit_code, 69) << by_flag;
  EXPECT_NE(by_flag.err, "");
  const Result by_variable = Ctl({"queue"}, {.environment = {"STAGELOAD_NO_AUTOSTART=1"}});
  EXPECT_EQ(by_variable.exit_code, 69) << by_variable;
  EXPECT_THAT(Daemons(), IsEmpty());
}

TEST_F(Daemon, StartStatusAndStopSayWhatTheyDid) {
  EXPECT_NE(Ctl({"daemon", "status"}).exit_code, 0);
  EXPECT_THAT(Daemons(), IsEmpty());  // asking does not start it
  const Result start = Ctl({"daemon", "start"});
  EXPECT_EQ(start.exit_code, 0) << start;
  const std::string pid = absl::StrCat(DaemonPid());
  const Result status = Ctl({"daemon", "status"});
  EXPECT_EQ(status.exit_code, 0) << status;
  EXPECT_THAT(status.out, HasSubstr(pid));
  const Result stop = Ctl({"daemon", "stop"});
  EXPECT_EQ(stop.exit_code, 0) << stop;
  EXPECT_TRUE(Eventually([&] { return Daemons().empty(); }));
  EXPECT_NE(Ctl({"daemon", "status"}).exit_code, 0);
}

TEST_F(Daemon, ASecondOneOnTheSameHomeRefusesAndNamesTheFirst) {
  StartDaemon();
  ChildProcess second = StartDaemonProgram({"--log-stderr"});
  const Result result = second.Wait();
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr(absl::StrCat(daemon().pid())));
  EXPECT_EQ(DaemonPid(), daemon().pid());
  EXPECT_EQ(Ctl({"daemon", "status"}).exit_code, 0);  // and the first has not lost its socket
}

TEST_F(Daemon, SigtermEndsItWithinTwoSecondsAndWaitingCallersHearOfIt) {
  StartDaemon();
  const std::int64_t id = Submit({"--wait-free", "0", "--", "sh", "-c",
                                  absl::StrCat("echo started; while [ ! -e ", PathOf("go"),
                                               " ]; do sleep 0.02; done; touch ", PathOf("done"))});
  // One that comes too late for this daemon would start the next and wait on.
  const CtlOptions no_other = {.environment = {"STAGELOAD_NO_AUTOSTART=1"}};
  ChildProcess wait = StartCtl({"wait", Id(id)}, no_other);
  ChildProcess guard = StartCtl({"guard", "--wait-free", "100", "--", "true"}, no_other);
  ChildProcess follow = StartCtl({"logs", "-f", Id(id)}, no_other);
  ASSERT_TRUE(follow.Prints("started\n")) << follow.Err();
  ASSERT_TRUE(Eventually([&] { return CountJobs() == 2; })) << guard.Err();

  const absl::Time told = absl::Now();
  daemon().Signal(SIGTERM);
  const Result ended = daemon().Wait();
  EXPECT_EQ(ended.exit_code, 0) << ended;
  EXPECT_LE(absl::Now() - told, absl::Seconds(2));
  for (ChildProcess* caller : {&wait, &follow, &guard}) {
    const Result result = caller->Wait();
    EXPECT_EQ(result.exit_code, 69) << result;
    EXPECT_NE(result.err, "");
  }

  EXPECT_FALSE(std::filesystem::exists(PathOf("done")));
  Touch(PathOf("go"));
  EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(PathOf("done")); }))
      << "the job did not run on";
}

TEST_F(Daemon, WhoWaitsForOneThatDoesNotAnswerIsTold) {
  StartDaemon();
  daemon().Signal(SIGSTOP);
  ChildProcess queue = StartCtl({"queue"});
  EXPECT_TRUE(Eventually([&] { return !queue.Err().empty(); }));
  EXPECT_THAT(queue.Err(), HasSubstr("does not answer; waiting for it, 15s at most"));
  daemon().Signal(SIGCONT);
  const Result result = queue.Wait();
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, HasSubstr("STATE"));
}

TEST_F(Daemon, AfterACrashTheNextOneTakesOverSocketAndLock) {
  StartDaemon();
  const std::int64_t before = Submit({"--wait-free", "100", "--", "true"});
  KillDaemon();
  ASSERT_TRUE(std::filesystem::exists(paths().socket)) << "nothing stale to take over";
  StartDaemon();
  EXPECT_EQ(DaemonPid(), daemon().pid());
  EXPECT_EQ(StateOf(before), "PENDING");
}

TEST_F(Daemon, ItsFilesAreItsUsersAlone) {
  StartDaemon();
  EXPECT_EQ(Ctl({"run", "--wait-free", "0", "--", "echo", "secret"}).exit_code, 0);
  using std::filesystem::perms;
  constexpr perms kOthers = perms::group_all | perms::others_all;
  for (const std::string& folder : {home(), paths().state, paths().runtime, paths().jobs}) {
    EXPECT_EQ(std::filesystem::status(folder).permissions() & kOthers, perms::none) << folder;
  }
  for (const std::string& file : {paths().store, paths().socket}) {
    EXPECT_EQ(std::filesystem::status(file).permissions() & kOthers, perms::none) << file;
  }
}

TEST_F(Daemon, ALogFolderThatIsALinkOrAnothersIsRefusedAndWhatItMeansStaysAsItIs) {
  const std::string log = home() + "/log", shared = PathOf("shared");
  std::filesystem::create_directories(shared);
  ASSERT_EQ(::chmod(shared.c_str(), 01777), 0);
  std::filesystem::create_directory(home());
  ASSERT_EQ(::chmod(home().c_str(), 0700), 0);
  std::filesystem::create_symlink(shared, log);
  const Result linked = Ctl({"daemon", "start"});
  EXPECT_EQ(linked.exit_code, 69) << linked;
  EXPECT_THAT(linked.err, HasSubstr(log + " is a symbolic link; remove the link"));
  struct stat found {};
  ASSERT_EQ(::stat(shared.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 01777u);
  EXPECT_TRUE(std::filesystem::is_empty(shared));

  std::filesystem::remove(log);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  std::filesystem::create_directory(log);
  ASSERT_EQ(::chown(log.c_str(), 65534, 65534), 0);
  const Result foreign = Ctl({"daemon", "start"});
  EXPECT_EQ(foreign.exit_code, 69) << foreign;
  EXPECT_THAT(foreign.err, HasSubstr(log + " belongs to uid 65534"));
}

TEST_F(Daemon, IdleForLongEnoughItLeavesButNotWhileAJobRuns) {
  StartDaemon({"--idle-exit", "1s"});
  const std::int64_t id = Submit(Arguments{"--wait-free", "0", "--"} + UntilExists(PathOf("go")));
  const absl::Time then = absl::Now();
  ASSERT_TRUE(Eventually([&] { return absl::Now() - then > absl::Seconds(3); }));
  ASSERT_TRUE(daemon().Running()) << "it left under a running job";
  ASSERT_EQ(StateOf(id), "RUNNING");
  Touch(PathOf("go"));
  const Result result = daemon().Wait();
  EXPECT_EQ(result.exit_code, 0) << result;
}

TEST_F(Daemon, ItKeepsALogInItsHome) {
  StartDaemon();
  EXPECT_EQ(Ctl({"run", "--wait-free", "0", "--", "true"}).exit_code, 0);
  EXPECT_TRUE(Eventually([&] { return !ReadFile(paths().logs + "/stageloadd.log").empty(); }))
      << paths().logs;
  // Its words follow the event's name.
  const pid_t pid = daemon().pid();
  daemon().Signal(SIGTERM);
  daemon().Wait();
  const std::string log = ReadFile(paths().logs + "/stageloadd.log");
  EXPECT_THAT(log, HasSubstr(absl::StrCat("] listens stageloadd 0.2.0 pid ", pid, " at /")));
  EXPECT_THAT(log, HasSubstr("] ends on signal 15\n"));
  EXPECT_THAT(log, HasSubstr(absl::StrCat("] left stageloadd pid ", pid, "\n")));
}

TEST_F(Daemon, BothProgramsSayTheSameVersion) {
  EXPECT_THAT(StartDaemonProgram({"--version"}).Wait().out, HasSubstr("0.2.0"));
  const Result version = Ctl({"version"});
  EXPECT_EQ(version.exit_code, 0) << version;
  EXPECT_THAT(version.out, HasSubstr("0.2.0"));
}

}  // namespace
}  // namespace stageload::e2e
