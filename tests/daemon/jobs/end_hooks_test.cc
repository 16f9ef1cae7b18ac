// What is run when a job has ended: with the facts, one after another, and never for ever.
#include "daemon/jobs/end_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/daemon/jobs/fixture.h"

namespace stageload::jobs {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

core::JobRecord Ended() {
  core::JobRecord record;
  record.id = core::JobId{7};
  record.name = "train";
  record.command = "python train.py";
  record.state = core::JobState::kOutOfMemory;
  record.reason = core::Reason::kSwapBudget;
  record.reason_text = "charge 9 GiB is over 8 GiB";
  record.outcome.signal = 15;
  record.start_time = absl::UnixEpoch();
  record.end_time = absl::UnixEpoch() + absl::Seconds(90);
  record.peak_footprint = GiB(4);
  record.true_peak = GiB(20);
  return record;
}

class EndHooksTest : public testing::Test {
 protected:
  EndHooks::Options Running(const std::string& command) {
    EndHooks::Options options;
    options.on_end = command;
    options.environment = {"PATH=/usr/bin:/bin", "FOLDER=" + folder_.path()};
    options.on_failure = [this](core::JobId id, const std::string& text) {
      const std::lock_guard<std::mutex> lock(mutex_);
      failures_.push_back(absl::StrCat(core::Value(id), " ", text));
    };
    return options;
  }
  std::vector<std::string> failures() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failures_;
  }
  template <typename Condition>
  bool Eventually(Condition condition) {
    for (int i = 0; i < 1000; ++i) {
      if (condition()) return true;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return false;
  }
  std::string Out() { return Contents(folder_.path() + "/out"); }

  const TemporaryFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> failures_;
};

TEST_F(EndHooksTest, TheFactsAreVariables) {
  const std::vector<std::string> variables = EndVariables(Ended());
  for (const char* fact :
       {"STAGELOAD_JOB_ID=7", "STAGELOAD_JOB_NAME=train", "STAGELOAD_JOB_STATE=OUT_OF_MEMORY",
        "STAGELOAD_JOB_REASON=SWAP_BUDGET", "STAGELOAD_JOB_REASON_TEXT=charge 9 GiB is over 8 GiB",
        "STAGELOAD_JOB_EXIT_CODE=", "STAGELOAD_JOB_SIGNAL=15", "STAGELOAD_JOB_KIND=JOB",
        "STAGELOAD_JOB_COMMAND=python train.py", "STAGELOAD_JOB_SECONDS=90",
        "STAGELOAD_JOB_PEAK_BYTES=21474836480"}) {
    EXPECT_THAT(variables, Contains(fact));
  }
}

TEST_F(EndHooksTest, ANotificationSaysWhatEndedHowAndWhy) {
  const Notification notification = NotificationOf(Ended());
  EXPECT_EQ(notification.title, "train: out of memory");
  EXPECT_EQ(notification.text, "job 7 ran 1m30s; charge 9 GiB is over 8 GiB");
}

TEST_F(EndHooksTest, HooksAreRunOneAfterAnotherInTheOrderOfTheEnds) {
  EndHooks hooks(
      Running("echo begin $STAGELOAD_JOB_ID >>$FOLDER/out; sleep 0.05; "
              "echo end $STAGELOAD_JOB_ID >>$FOLDER/out"));
  for (int id = 1; id <= 3; ++id) {
    core::JobRecord record = Ended();
    record.id = core::JobId{id};
    hooks.Post(record);
  }
  EXPECT_TRUE(Eventually([&] { return Out().find("end 3") != std::string::npos; }));
  EXPECT_EQ(Out(), "begin 1\nend 1\nbegin 2\nend 2\nbegin 3\nend 3\n");
  EXPECT_TRUE(failures().empty());
}

TEST_F(EndHooksTest, OneThatFailsIsToldWithWhatItSaidLast) {
  EndHooks hooks(Running("yes x | head -c 100000; echo; echo 'disk gone' >&2; exit 4"));
  hooks.Post(Ended());
  ASSERT_TRUE(Eventually([&] { return !failures().empty(); }));
  EXPECT_THAT(failures()[0], HasSubstr("7 on_end: exit code 4: "));
  EXPECT_THAT(failures()[0], HasSubstr("disk gone"));
  EXPECT_LT(failures()[0].size(), 600u);
}

TEST_F(EndHooksTest, OneThatHangsIsKilledWithItsChildrenAndTheNextIsRun) {
  EndHooks::Options options = Running(
      "if [ $STAGELOAD_JOB_ID = 7 ]; then trap '' TERM; sleep 600 & echo $! >$FOLDER/pid; wait; "
      "else echo next >>$FOLDER/out; fi");
  options.timeout = absl::Milliseconds(400);
  EndHooks hooks(std::move(options));
  hooks.Post(Ended());
  core::JobRecord next = Ended();
  next.id = core::JobId{8};
  hooks.Post(next);
  ASSERT_TRUE(Eventually([&] { return Out() == "next\n"; }));
  EXPECT_THAT(failures(), testing::ElementsAre(HasSubstr("killed, since it ran for more than")));
  const int child = std::stoi(Contents(folder_.path() + "/pid"));
  EXPECT_TRUE(Eventually([&] {
    const std::string stat = Contents(absl::StrCat("/proc/", child, "/stat"));
    return stat.empty() || stat.find(") Z ") != std::string::npos;
  }));
}

TEST_F(EndHooksTest, LeavingWaitsForNoHook) {
  const absl::Time start = absl::Now();
  {
    EndHooks hooks(Running("echo >$FOLDER/out; sleep 600"));
    hooks.Post(Ended());
    ASSERT_TRUE(Eventually([&] { return !Out().empty(); }));
  }
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
  EXPECT_THAT(failures(), testing::ElementsAre(HasSubstr("the daemon leaves")));
}

TEST_F(EndHooksTest, ANotifierThatIsNotThereIsToldByName) {
  EndHooks::Options options = Running("");
  options.environment = {"PATH=/nonexistent"};
  EndHooks hooks(std::move(options));
  core::JobRecord record = Ended();
  record.notify = true;
  hooks.Post(record);
  ASSERT_TRUE(Eventually([&] { return !failures().empty(); }));
  EXPECT_THAT(failures()[0], HasSubstr("7 --notify: exit code 127: "));
  EXPECT_THAT(failures()[0], HasSubstr("notify-send"));
}

}  // namespace
}  // namespace stageload::jobs
