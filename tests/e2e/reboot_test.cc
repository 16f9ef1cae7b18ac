// The machine goes down under running jobs. No test can do that, but what the daemon finds after it
// can be made: all processes are gone, and what was written names another boot.
#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::HasSubstr;

class Reboot : public DaemonTest {
 protected:
  // Job by job, runs until "go" is there.
  std::int64_t Running(const Arguments& options) {
    const std::int64_t job =
        Submit(options + Arguments{"--memory", "1M", "--"} + UntilExists(PathOf("go"), 7));
    EXPECT_TRUE(Reaches(job, "RUNNING"));
    return job;
  }
  void GoDown() {
    KillDaemon();
    ASSERT_TRUE(KillProcessesOf(folder()));
    SQLite::Database store(paths().store, SQLite::OPEN_READWRITE);
    store.exec("UPDATE jobs SET boot_id = 'earlier' WHERE boot_id != ''");
    for (const auto& job : std::filesystem::directory_iterator(paths().jobs)) {
      const std::string lock = job.path().string() + "/job.lock";
      std::string text = ReadFile(lock);
      // "pid start boot", a line each.
      for (std::size_t end = text.find('\n'); end != std::string::npos;) {
        const std::size_t space = text.rfind(' ', end);
        text.replace(space + 1, end - space - 1, "earlier");
        end = text.find('\n', space + 9);
      }
      WriteFile(lock, text);
    }
  }
};

TEST_F(Reboot, WhatRanIsNodeFailAndWhatWaitsIsHeldUntilAUserSaysSo) {
  WriteConfig("settle = \"0s\"\nmemory_pool = \"1M\"\n");
  StartDaemon();
  const std::int64_t ran = Running({"--name", "train"});
  const std::int64_t waits = Submit({"--memory", "1M", "--", "true"});
  GoDown();
  StartDaemon();
  EXPECT_EQ(StateOf(ran), "NODE_FAIL");
  EXPECT_THAT(Show(ran)["reason_text"].get<std::string>(), HasSubstr("the machine went down"));
  EXPECT_EQ(StateOf(waits), "PENDING");
  const auto blocker = BlockerOf(waits, "QUEUE_HELD");
  ASSERT_TRUE(blocker);
  EXPECT_THAT((*blocker)["text"].get<std::string>(),
              HasSubstr("the machine went down while job 1 (train) ran"));
  ASSERT_EQ(Ctl({"release", "--queue"}).exit_code, 0);
  EXPECT_TRUE(Reaches(waits, "COMPLETED"));
  EXPECT_EQ(Ctl({"wait", Id(ran)}).exit_code, 1);
}

TEST_F(Reboot, AJobToBeRequeuedRunsAgainAfterItsReleaseAndItsOldLogCanBeReadUntilThen) {
  WriteConfig("settle = \"0s\"\n");
  StartDaemon();
  const std::int64_t job = Submit({"--requeue", "--memory", "1M", "--", "sh", "-c",
                                   "echo run $$; while [ ! -e go ]; do sleep 0.02; done; exit 7"});
  ChildProcess logs = StartCtl({"logs", "-f", "--no-autostart", Id(job)});
  ASSERT_TRUE(logs.Prints("run "));
  const std::string before = logs.Out();
  GoDown();
  StartDaemon();
  ASSERT_EQ(StateOf(job), "PENDING");
  EXPECT_TRUE(BlockerOf(job, "HELD"));
  EXPECT_TRUE(BlockerOf(job, "QUEUE_HELD"));
  EXPECT_EQ(Ctl({"logs", Id(job)}).out, before);
  // The daemon may be killed in between.
  KillDaemon();
  StartDaemon();
  ASSERT_EQ(Ctl({"release", "--queue"}).exit_code, 0);
  EXPECT_EQ(StateOf(job), "PENDING");
  ASSERT_EQ(Ctl({"release", Id(job)}).exit_code, 0);
  ASSERT_TRUE(Reaches(job, "RUNNING"));
  Touch(PathOf("go"));
  ASSERT_TRUE(Reaches(job, "FAILED"));
  EXPECT_EQ(Show(job)["exit_code"], 7);
  const std::string after = Ctl({"logs", Id(job)}).out;
  EXPECT_THAT(after, HasSubstr("run "));
  EXPECT_NE(after, before) << "of the second run only";
}

TEST_F(Reboot, WhatHadEndedBeforeItEndsWithItsOwnCode) {
  StartDaemon();
  const std::int64_t job = Running({"--requeue"});
  KillDaemon();
  Touch(PathOf("go"));
  ASSERT_TRUE(
      Eventually([&] { return !ReadFile(paths().jobs + "/" + Id(job) + "/result").empty(); }));
  GoDown();
  StartDaemon();
  EXPECT_EQ(StateOf(job), "FAILED");
  EXPECT_EQ(Show(job)["exit_code"], 7);
  EXPECT_FALSE(CtlJson({"queue", "--json"}).contains("queue_held")) << "nothing ran";
}

TEST_F(Reboot, AStartOfWhichTheDaemonSawNothingIsNodeFailToo) {
  StartDaemon();
  const std::int64_t job = Running({});
  GoDown();
  SQLite::Database(paths().store, SQLite::OPEN_READWRITE)
      .exec("UPDATE jobs SET boot_id = '', root_pid = NULL, root_start = NULL");
  StartDaemon();
  EXPECT_EQ(StateOf(job), "NODE_FAIL");
}

}  // namespace
}  // namespace stageload::e2e
