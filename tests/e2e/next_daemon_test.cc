// Who waits for a job goes on with the next daemon when the one before was killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

class NextDaemon : public DaemonTest {
 protected:
  // Without an autostart, the test decides when the next one is there.
  const CtlOptions kAlone{.environment = {"STAGELOAD_NO_AUTOSTART=1"}};
  // Prints 1, waits for the file, prints 2 and exits with 7.
  Arguments Counts(const std::string& file) const {
    return {"sh", "-c",
            "echo 1; while [ ! -e '" + file + "' ]; do sleep 0.02; done; echo 2; exit 7"};
  }
};

TEST_F(NextDaemon, RunCopiesEachLineOnceAndExitsWithTheJobsCode) {
  StartDaemon();
  const std::string go = PathOf("go");
  ChildProcess run = StartCtl(Arguments{"run", "--"} + Counts(go), kAlone);
  ASSERT_TRUE(run.Prints("1\n"));
  KillDaemon();
  StartDaemon();
  Touch(go);
  const Result result = run.Wait();
  EXPECT_EQ(result.exit_code, 7) << result;
  EXPECT_EQ(result.out, "1\n2\n");
}

TEST_F(NextDaemon, LogsFollowGoesOnWhereItWas) {
  StartDaemon();
  const std::string go = PathOf("go");
  const std::int64_t job = Submit(Arguments{"--"} + Counts(go));
  ChildProcess logs = StartCtl({"logs", "-f", Id(job)}, kAlone);
  ASSERT_TRUE(logs.Prints("1\n"));
  KillDaemon();
  StartDaemon();
  KillDaemon();
  StartDaemon();
  Touch(go);
  const Result result = logs.Wait();
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.out, "1\n2\n");
}

TEST_F(NextDaemon, WaitAnswersForAJobThatEndedWhileNobodyWasThere) {
  StartDaemon();
  const std::string go = PathOf("go");
  ChildProcess wait = StartCtl(Arguments{"submit", "--wait", "--"} + Counts(go), kAlone);
  ASSERT_TRUE(wait.Prints("1\n"));  // its id: from here on it waits
  ASSERT_TRUE(Reaches(1, "RUNNING"));
  KillDaemon();
  Touch(go);
  StartDaemon();
  EXPECT_EQ(wait.Wait().exit_code, 7);
}

TEST_F(NextDaemon, ThatNeverComesEndsTheWaitWithNoDaemon) {
  StartDaemon();
  ChildProcess wait = StartCtl({"submit", "--wait", "--", "sleep", "600"}, kAlone);
  ASSERT_TRUE(wait.Prints("1\n"));
  ASSERT_TRUE(Reaches(1, "RUNNING"));
  KillDaemon();
  EXPECT_EQ(wait.Wait().exit_code, 69);
  StartDaemon();
  EXPECT_EQ(Ctl({"cancel", "1"}).exit_code, 0);
}

}  // namespace
}  // namespace stageload::e2e
