// A disk that is really full, or mounted read-only: a small tmpfs on the home, in a mount namespace
// of this test's own, so that nothing is left mounted whatever happens. Needs root.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/e2e/api_session.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SmallDisk : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      GTEST_SKIP() << "cannot mount here: " << std::strerror(errno);
    }
    std::filesystem::create_directory(home());
    ASSERT_EQ(mount("small", home().c_str(), "tmpfs", MS_NOSUID, "size=8m,nr_inodes=200,mode=0700"),
              0)
        << std::strerror(errno);
    mounted_ = true;
  }

  void TearDown() override {
    if (mounted_) {
      if (HasFailure()) std::cerr << ReadFile(paths().logs + "/stageloadd.log");
      if (started_) EndDaemon();
      EXPECT_TRUE(KillProcessesOf(folder()));
      EXPECT_EQ(umount2(home().c_str(), MNT_DETACH), 0) << std::strerror(errno);
    }
    DaemonTest::TearDown();
  }

  void Start() {
    StartDaemon();
    started_ = true;
  }
  void EndDaemon() {
    started_ = false;
    daemon().Signal(SIGTERM);
    EXPECT_EQ(daemon().Wait().exit_code, 0) << daemon().Err();
  }

  void Remount(unsigned long flags) {
    ASSERT_EQ(mount("small", home().c_str(), "tmpfs", MS_REMOUNT | flags, nullptr), 0)
        << std::strerror(errno);
  }

  // Until not a byte more fits.
  void Fill() const {
    std::ofstream file(home() + "/filler", std::ios::binary | std::ios::app);
    for (std::size_t size = 1 << 16; size > 0;) {
      file.clear();
      const auto before = file.tellp();
      file.write(std::string(size, 'f').data(), static_cast<std::streamsize>(size)).flush();
      if (!file.good() || file.tellp() == before) size /= 2;
    }
    EXPECT_EQ(std::filesystem::space(home()).available, 0U);
  }
  void FreeSpace() const { std::filesystem::remove(home() + "/filler"); }

  // Writes its line once it runs, waits for the file, ends with the code.
  Arguments Job(const std::string& word, const std::string& go, int code) const {
    return {"--memory",
            "1M",
            "--wait-free",
            "0",
            "--",
            "sh",
            "-c",
            absl::StrCat("echo ", word, " >> ", PathOf("started"), "; while [ ! -e ", PathOf(go),
                         " ]; do sleep 0.02; echo still here; done; exit ", code)};
  }

  // The states in which `queue` lists the job, and `show` tells it.
  std::string StateInQueue(std::int64_t id) {
    const nlohmann::json queue = CtlJson({"queue", "--all"});
    for (const nlohmann::json& job : queue.at("jobs")) {
      if (job.value("id", 0) == id) return job.value("state", "");
    }
    return "not there";
  }

  bool mounted_ = false;
  bool started_ = false;
};

TEST_F(SmallDisk,
       Scenario21WhileItIsFullSubmitsAreRefusedJobsLiveAndEndAndAllIsWrittenOnceThereIsRoom) {
  Start();
  const std::int64_t ends = Submit(Job("ends", "go", 7));
  const std::int64_t stopped = Submit(Job("stopped", "never", 0));
  const std::int64_t parent = Submit(Job("parent", "go", 0));
  const std::int64_t child = Submit(Arguments{"--after", Id(parent)} + Job("child", "go", 5));
  const std::int64_t survives = Submit(Job("survives", "late", 9));
  for (const std::int64_t id : {ends, stopped, parent, survives}) {
    ASSERT_TRUE(Reaches(id, "RUNNING"));
  }
  Fill();

  const Result refused = Ctl(Arguments{"submit"} + Job("refused", "go", 0));
  EXPECT_EQ(refused.exit_code, 1) << refused;
  EXPECT_THAT(refused.err, HasSubstr(paths().store));
  EXPECT_THAT(refused.err, HasSubstr("free space")) << refused;

  // What runs ends, and who waits hears how.
  ChildProcess wait = StartCtl({"wait", Id(ends)});
  Touch(PathOf("go"));
  EXPECT_EQ(wait.Wait().exit_code, 7);
  EXPECT_TRUE(Reaches(parent, "COMPLETED"));
  EXPECT_TRUE(Eventually([&] { return StateInQueue(ends) == "FAILED"; })) << StateInQueue(ends);
  EXPECT_EQ(StateInQueue(parent), "COMPLETED");
  EXPECT_EQ(StateInQueue(survives), StateOf(survives));
  // A stop is carried out, though it cannot be written down.
  (void)Ctl({"cancel", Id(stopped)});
  EXPECT_TRUE(Reaches(stopped, "CANCELLED"));
  EXPECT_EQ(StateOf(survives), "RUNNING");
  EXPECT_THAT(ReadFile(PathOf("started")), Not(HasSubstr("child"))) << "started, not written down";

  FreeSpace();
  EXPECT_TRUE(Reaches(child, "FAILED"));
  EXPECT_EQ(Show(child).value("exit_code", -1), 5);
  const std::int64_t again = Submit(Job("again", "go", 3));
  EXPECT_TRUE(Reaches(again, "FAILED"));
  KillDaemon();
  Start();
  EXPECT_EQ(StateOf(ends), "FAILED");
  EXPECT_EQ(Show(ends).value("exit_code", -1), 7);
  EXPECT_EQ(StateOf(stopped), "CANCELLED");
  EXPECT_EQ(StateOf(parent), "COMPLETED");
  EXPECT_EQ(StateOf(survives), "RUNNING");
  EXPECT_EQ(CountJobs(), 6U) << "the refused one left something behind";
  Touch(PathOf("late"));
  EXPECT_TRUE(Reaches(survives, "FAILED"));
  EXPECT_EQ(Show(survives).value("exit_code", -1), 9);

  std::istringstream lines(ReadFile(PathOf("started")));
  std::map<std::string, int> started;
  for (std::string line; std::getline(lines, line);) ++started[line];
  EXPECT_EQ(started, (std::map<std::string, int>{{"again", 1},
                                                 {"child", 1},
                                                 {"ends", 1},
                                                 {"parent", 1},
                                                 {"stopped", 1},
                                                 {"survives", 1}}));
  EndDaemon();
  SQLite::Database store(paths().store, SQLite::OPEN_READWRITE);
  EXPECT_EQ(store.execAndGet("PRAGMA integrity_check").getString(), "ok");
}

TEST_F(SmallDisk, ARegistrationThatIsRefusedForWantOfSpaceIsInNoHistory) {
  Start();
  Fill();
  v1::RegisterRequest request;
  request.set_name("phantom");
  ApiSession refused(paths().socket, request);
  EXPECT_EQ(refused.client_id(), 0);
  EXPECT_EQ(refused.stream().End().error_code(), grpc::StatusCode::UNAVAILABLE);
  FreeSpace();
  request.set_name("real");
  ApiSession real(paths().socket, request);
  EXPECT_GT(real.client_id(), 0);
  const std::string history = Ctl({"history"}).out;
  EXPECT_THAT(history, HasSubstr("real"));
  EXPECT_THAT(history, HasSubstr("store_failed"));
  EXPECT_THAT(history, Not(HasSubstr("phantom")));
}

TEST_F(SmallDisk, ADaemonThatIsKilledWhileItIsFullFindsEverythingOnceThereIsRoom) {
  Start();
  const std::int64_t ends = Submit(Job("ends", "go", 7));
  const std::int64_t runs = Submit(Job("runs", "late", 8));
  ASSERT_TRUE(Reaches(ends, "RUNNING"));
  ASSERT_TRUE(Reaches(runs, "RUNNING"));
  Fill();
  KillDaemon();
  Touch(PathOf("go"));
  // It starts and serves, or says at once what is in its way.
  ChildProcess next = StartDaemonProgram({});
  const bool decided = Eventually([&] {
    return !next.Running() ||
           Ctl({"daemon", "status"}, {.environment = {"STAGELOAD_NO_AUTOSTART=1"}}).exit_code == 0;
  });
  EXPECT_TRUE(decided);
  if (next.Running()) {
    EXPECT_TRUE(Reaches(ends, "FAILED"));
    next.Signal(SIGTERM);
    EXPECT_EQ(next.Wait().exit_code, 0);
  } else {
    const Result result = next.Wait();
    EXPECT_EQ(result.exit_code, 1) << result;
    EXPECT_THAT(result.err, HasSubstr("free space")) << result;
    std::cout << result.err;
  }
  FreeSpace();
  Start();
  EXPECT_TRUE(Reaches(ends, "FAILED"));
  EXPECT_EQ(Show(ends).value("exit_code", -1), 7);
  EXPECT_EQ(StateOf(runs), "RUNNING");
  Touch(PathOf("late"));
  EXPECT_TRUE(Reaches(runs, "FAILED"));
  EXPECT_EQ(Show(runs).value("exit_code", -1), 8);
}

TEST_F(SmallDisk, WithoutRoomForAJobsFolderItsStartWaitsForRoomAndCanBeCancelled) {
  Start();
  std::filesystem::create_directory(home() + "/empty");
  int files = 0;
  while (std::ofstream(absl::StrCat(home(), "/empty/", files))) ++files;
  ASSERT_GT(files, 100) << "no inode is left, but there is space for the store";
  const std::int64_t waits = Submit(Job("waits", "go", 6));
  const std::int64_t dropped = Submit(Job("dropped", "go", 0));
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(ReadFile(paths().logs + "/stageloadd.log"),
                             absl::StrCat("start_delayed job=", dropped));
  }));
  EXPECT_EQ(StateOf(waits), "RUNNING");
  EXPECT_EQ(Ctl({"cancel", Id(dropped)}).exit_code, 0);
  EXPECT_TRUE(Reaches(dropped, "CANCELLED"));
  std::filesystem::remove_all(home() + "/empty");
  Touch(PathOf("go"));
  EXPECT_TRUE(Reaches(waits, "FAILED"));
  EXPECT_EQ(Show(waits).value("exit_code", -1), 6);
  EXPECT_EQ(ReadFile(PathOf("started")), "waits\n");
}

TEST_F(SmallDisk, MountedReadOnlyTheDaemonRefusesToStartAndSaysWhatToDo) {
  Start();
  EndDaemon();
  Remount(MS_RDONLY);
  const Result result = StartDaemonProgram({}).Wait();
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_THAT(result.err, HasSubstr(home()));
  EXPECT_THAT(result.err, HasSubstr("Read-only file system"));
  EXPECT_THAT(result.err, HasSubstr("STAGELOAD_HOME")) << "what to do";
  // The same through the command that would start it.
  const Result queue = Ctl({"queue"});
  EXPECT_EQ(queue.exit_code, 69) << queue;
  EXPECT_THAT(queue.err, HasSubstr("Read-only file system")) << queue;
  Remount(0);
  Start();
  EXPECT_EQ(CountJobs(), 0U);
}

}  // namespace
}  // namespace stageload::e2e
