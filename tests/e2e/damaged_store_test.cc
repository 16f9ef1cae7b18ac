// A store that is damaged under jobs that run: the daemon goes on with what can be read, finds its
// jobs again by their folders, and says what it did.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class StoreDamage : public DaemonTest {
 protected:
  std::vector<std::string> SetAside() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(paths().state)) {
      const std::string path = entry.path();
      if (absl::StrContains(path, ".damaged-") && !absl::EndsWith(path, "-wal") &&
          !absl::EndsWith(path, "-shm")) {
        found.push_back(path);
      }
    }
    return found;
  }
  void EndDaemon() {
    daemon().Signal(SIGTERM);
    EXPECT_EQ(daemon().Wait().exit_code, 0) << daemon().Err();
  }
  std::string Log() const { return ReadFile(paths().logs + "/stageloadd.log"); }
  // A job that runs until EndByGo(), and ends with a code of its own.
  std::int64_t RunUntilGo() {
    const std::int64_t id =
        Submit(Arguments{"--memory", "1M", "--"} + UntilExists(PathOf("go"), 7));
    EXPECT_TRUE(Reaches(id, "RUNNING"));
    return id;
  }
  void EndByGo(std::int64_t id) {
    Touch(PathOf("go"));
    EXPECT_TRUE(Reaches(id, "FAILED"));
    EXPECT_EQ(Show(id).value("exit_code", -1), 7);
  }
};

TEST_F(StoreDamage, JobsWhoseRowsAreLostAreFoundByTheirFoldersAndEndWithTheirCodes) {
  StartDaemon();
  const std::int64_t ended = Submit({"--memory", "1M", "--", "sh", "-c", "exit 3"});
  ASSERT_TRUE(Reaches(ended, "FAILED"));
  const std::int64_t runs = RunUntilGo();
  KillDaemon();
  const std::string garbage(20000, '?');
  WriteFile(paths().store, garbage);
  std::filesystem::remove(paths().store + "-wal");

  StartDaemon();
  ASSERT_THAT(SetAside(), SizeIs(1));
  EXPECT_TRUE(ReadFile(SetAside().front()) == garbage);
  EXPECT_THAT(Log(), HasSubstr(absl::StrCat("was damaged (file is not a database): it is kept as ",
                                            SetAside().front())));
  EXPECT_THAT(Log(), HasSubstr(absl::StrCat("recovered job=", runs)));
  EXPECT_EQ(StateOf(ended), "FAILED");
  EXPECT_EQ(Show(ended).value("exit_code", -1), 3);
  EXPECT_EQ(StateOf(runs), "RUNNING");
  EXPECT_THAT(Show(runs).value("command", ""), HasSubstr("while [ ! -e"));
  EXPECT_GT(Submit({"--memory", "1M", "--", "true"}), runs) << "an id was given twice";
  EndByGo(runs);

  // It is told once.
  KillDaemon();
  StartDaemon();
  EXPECT_THAT(SetAside(), SizeIs(1));
  const std::string log = Log();
  EXPECT_EQ(log.find("was damaged"), log.rfind("was damaged"));
  const std::string history = Ctl({"history"}).out;
  EXPECT_NE(history.find("store_damaged"), std::string::npos) << history;
  EXPECT_EQ(history.find("store_damaged"), history.rfind("store_damaged")) << history;
  EXPECT_EQ(Show(runs).value("exit_code", -1), 7);
}

TEST_F(StoreDamage, AStoreThatIsDeletedUnderTheDaemonIsWrittenAgainAndLosesNoJob) {
  StartDaemon();
  ASSERT_EQ(Ctl({"hold", "--queue"}).exit_code, 0);
  const std::int64_t before = Submit({"--memory", "1M", "--", "sh", "-c", "exit 3"});
  for (const char* companion : {"", "-wal", "-shm"}) {
    std::filesystem::remove(paths().store + companion);
  }
  // By itself, though nothing new is to be written.
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(Log(), "was removed while the daemon ran; it is there again");
  }));
  WriteFile(paths().store + ".backup", "somebody's");
  std::filesystem::rename(paths().store + ".backup", paths().store);
  const std::int64_t after = Submit({"--memory", "1M", "--", "sh", "-c", "exit 4"});
  KillDaemon();

  StartDaemon();
  EXPECT_EQ(StateOf(before), "PENDING");
  EXPECT_EQ(StateOf(after), "PENDING");
  EXPECT_THAT(Log(), HasSubstr("was replaced while the daemon ran: that file is kept as"));
  EXPECT_THAT(SetAside(), SizeIs(0));
  ASSERT_EQ(Ctl({"release", "--queue"}).exit_code, 0);
  EXPECT_TRUE(Reaches(before, "FAILED"));
  EXPECT_TRUE(Reaches(after, "FAILED"));
  EXPECT_EQ(Show(after).value("exit_code", -1), 4);
}

// As `: > stageload.db` does it.
void Empty(const std::string& path) { std::filesystem::resize_file(path, 0); }

TEST_F(StoreDamage, AStoreThatIsCutUnderTheDaemonIsWrittenAgainAndLosesNoJob) {
  StartDaemon();
  ASSERT_EQ(Ctl({"hold", "--queue"}).exit_code, 0);
  std::vector<std::int64_t> jobs = {Submit({"--memory", "1M", "--", "sh", "-c", "exit 3"})};
  // A daemon that has begun with it, and one that has not written since.
  EndDaemon();
  StartDaemon();
  Empty(paths().store);
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(Log(), "was cut from"); }));

  const std::vector<std::vector<std::string>> cuts = {
      {""}, {"-wal"}, {"", "-wal"}, {"", "-wal", "-shm"}, {"-shm"}};
  for (const std::vector<std::string>& cut : cuts) {
    for (const std::string& companion : cut) {
      if (std::filesystem::exists(paths().store + companion)) Empty(paths().store + companion);
    }
    jobs.push_back(Submit({"--memory", "1M", "--", "sh", "-c", "exit 4"}));
    EXPECT_EQ(jobs.back(), jobs[jobs.size() - 2] + 1);
  }
  KillDaemon();
  StartDaemon();
  Empty(paths().store);
  EndDaemon();  // before it has noticed

  StartDaemon();
  EXPECT_THAT(SetAside(), SizeIs(0));
  for (const std::int64_t job : jobs) EXPECT_EQ(StateOf(job), "PENDING") << job;
  ASSERT_EQ(Ctl({"release", "--queue"}).exit_code, 0);
  for (const std::int64_t job : jobs) EXPECT_TRUE(Reaches(job, "FAILED")) << job;
  EXPECT_EQ(Show(jobs.front()).value("exit_code", -1), 3);
  EXPECT_EQ(Show(jobs.back()).value("exit_code", -1), 4);
}

TEST_F(StoreDamage, AStoreThatWasEmptiedIsToldAtTheStartAndGivesNoIdTwice) {
  StartDaemon();
  ASSERT_EQ(Ctl({"hold", "--queue"}).exit_code, 0);
  const std::int64_t waits = Submit({"--memory", "1M", "--", "true"});
  EndDaemon();
  Empty(paths().store);
  StartDaemon();
  EXPECT_THAT(Log(), HasSubstr("was empty"));
  EXPECT_GT(Submit({"--memory", "1M", "--", "true"}), waits);
}

TEST_F(StoreDamage, AStoreThatWasDeletedStartsAnewAboveTheIdsOfTheJobFolders) {
  StartDaemon();
  const std::int64_t runs = RunUntilGo();
  KillDaemon();
  for (const char* companion : {"", "-wal", "-shm"}) {
    std::filesystem::remove(paths().store + companion);
  }
  StartDaemon();
  EXPECT_THAT(Log(), HasSubstr("was not there"));
  EXPECT_EQ(StateOf(runs), "RUNNING");
  EXPECT_EQ(Submit({"--memory", "1M", "--", "true"}), runs + 1001) << "room for those without one";
  EndByGo(runs);
}

// A young home has everything in its log.
TEST_F(StoreDamage, AStoreThatLostItsLogWhileNoDaemonRanKeepsItsJobsAndIsTold) {
  StartDaemon();
  const std::int64_t runs = RunUntilGo();
  KillDaemon();
  std::filesystem::remove(paths().store + "-wal");
  StartDaemon();
  EXPECT_THAT(Log(), HasSubstr("as when its -wal was lost"));
  EXPECT_EQ(StateOf(runs), "RUNNING");
  EXPECT_EQ(Submit({"--memory", "1M", "--", "true"}), runs + 1001) << "room for those without one";
  EndByGo(runs);
}

}  // namespace
}  // namespace stageload::e2e
