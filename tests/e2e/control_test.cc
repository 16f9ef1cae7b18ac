// What people ask of jobs that are queued, run or have ended: hold, release, suspend, resume,
// retry, clear.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::HasSubstr;

class Control : public DaemonTest {
 protected:
  Result On(const std::string& command, std::int64_t id) { return Ctl({command, Id(id)}); }
};

TEST_F(Control, AHeldJobWaitsAlsoOverACrashUntilItIsReleased) {
  WriteConfig("settle = \"0s\"\nmemory_pool = \"1G\"\n");
  StartDaemon();
  const std::string go = PathOf("go");
  const std::int64_t first = Submit(Arguments{"--memory", "1G", "--"} + UntilExists(go));
  const std::int64_t held = Submit({"--memory", "1G", "--", "true"});
  ASSERT_TRUE(Reaches(first, "RUNNING"));
  EXPECT_EQ(On("hold", held).exit_code, 0);
  KillDaemon();
  StartDaemon();
  Touch(go);
  ASSERT_TRUE(Reaches(first, "COMPLETED"));
  EXPECT_EQ(StateOf(held), "PENDING");
  EXPECT_TRUE(BlockerOf(held, "HELD"));
  EXPECT_EQ(On("release", held).exit_code, 0);
  EXPECT_TRUE(Reaches(held, "COMPLETED"));
}

TEST_F(Control, ASuspendedJobMakesNoProgressUntilItIsResumed) {
  StartDaemon();
  const std::string beats = PathOf("beats");
  const std::int64_t job =
      Submit({"--", "sh", "-c", "while :; do echo x >> " + beats + "; sleep 0.05; done"});
  const auto size = [&] {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(beats, error);
    return error ? 0 : bytes;
  };
  ASSERT_TRUE(Eventually([&] { return size() > 4; }));
  ASSERT_EQ(On("suspend", job).exit_code, 0);
  EXPECT_EQ(StateOf(job), "SUSPENDED");
  // Still means: the same over two looks with time for several beats between.
  std::uintmax_t before = 0;
  ASSERT_TRUE(Eventually([&] {
    before = size();
    absl::SleepFor(absl::Milliseconds(300));
    return size() == before;
  }));
  ASSERT_EQ(On("resume", job).exit_code, 0);
  EXPECT_TRUE(Eventually([&] { return size() > before + 2; }));
  EXPECT_EQ(StateOf(job), "RUNNING");
  EXPECT_EQ(On("cancel", job).exit_code, 0);
  EXPECT_TRUE(Reaches(job, "CANCELLED"));
}

TEST_F(Control, TimeSuspendedDoesNotCountAgainstTheTimeLimit) {
  StartDaemon();
  const std::int64_t job = Submit({"--time", "2s", "--", "sleep", "600"});
  ASSERT_TRUE(Reaches(job, "RUNNING"));
  ASSERT_EQ(On("suspend", job).exit_code, 0);
  absl::SleepFor(absl::Seconds(3));
  EXPECT_EQ(StateOf(job), "SUSPENDED");
  ASSERT_EQ(On("resume", job).exit_code, 0);
  EXPECT_EQ(StateOf(job), "RUNNING");
  EXPECT_TRUE(Reaches(job, "TIMEOUT"));
}

TEST_F(Control, AFailedJobIsRunAgainAsANewOneWithItsOwnEnvironmentAndFolder) {
  StartDaemon();
  const std::string proof = PathOf("proof");
  const std::int64_t failed =
      Submit({"--env", "WORD=of mine", "--", "sh", "-c", "echo \"$WORD $PWD\" >> proof; exit 5"});
  ASSERT_TRUE(Reaches(failed, "FAILED"));
  const Result again = On("retry", failed);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out, Id(failed + 1) + "\n");
  ASSERT_TRUE(Reaches(failed + 1, "FAILED"));
  EXPECT_EQ(Show(failed + 1)["retry_of"], failed);
  EXPECT_EQ(ReadFile(proof), "of mine " + folder() + "\nof mine " + folder() + "\n");
}

// A child is cancelled with its parent, so it would have ended when it is its turn.
TEST_F(Control, CancellingAParentAndItsChildrenIsNoMistakeOfAnybody) {
  StartDaemon();
  const std::int64_t parent = Submit({"--hold", "--", "true"});
  const std::int64_t child = Submit({"--after", Id(parent), "--", "true"});
  const std::int64_t last = Submit({"--after", Id(child), "--", "true"});
  const Result result = Ctl({"cancel", Id(parent), Id(last), Id(child), Id(parent), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.err, "");
  const auto jobs = nlohmann::json::parse(result.out).at("jobs");
  ASSERT_EQ(jobs.size(), 3U) << "each once, as they were named";
  EXPECT_EQ(jobs.at(0).at("id"), parent);
  EXPECT_EQ(jobs.at(1).at("id"), last);
  for (const auto& job : jobs) EXPECT_EQ(job.at("state"), "CANCELLED");
  // Who names one that had ended before hears so.
  EXPECT_THAT(Ctl({"cancel", Id(child)}).err, HasSubstr(Id(child)));
}

TEST_F(Control, WhatCannotBeDoneIsSaidWithTheState) {
  StartDaemon();
  const std::int64_t job = Submit({"--", "true"});
  ASSERT_TRUE(Reaches(job, "COMPLETED"));
  for (const std::string command : {"hold", "release", "suspend", "resume", "cancel"}) {
    const Result result = On(command, job);
    EXPECT_EQ(result.exit_code, 1) << command;
    EXPECT_THAT(result.err, HasSubstr("job 1 has ended already: COMPLETED")) << command;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_THAT(On("retry", job).err, HasSubstr("submit it again"));
  EXPECT_THAT(On("retry", 77).err, HasSubstr("there is no job 77"));
  EXPECT_EQ(Ctl({"hold"}).exit_code, 2);
  EXPECT_EQ(Ctl({"retry", "--memory", "8X", "1"}).exit_code, 2);
}

TEST_F(Control, ClearForgetsWhatHasEndedAndNothingElse) {
  StartDaemon();
  const std::int64_t completed = Submit({"--memory", "1M", "--", "true"});
  const std::int64_t failed = Submit({"--memory", "1M", "--", "false"});
  const std::int64_t runs = Submit({"--memory", "1M", "--", "sleep", "600"});
  ASSERT_TRUE(Reaches(completed, "COMPLETED"));
  ASSERT_TRUE(Reaches(failed, "FAILED"));
  ASSERT_TRUE(Reaches(runs, "RUNNING"));
  EXPECT_THAT(Ctl({"clear", Id(runs)}).err,
              HasSubstr("job 3 is RUNNING; only a job that has ended"));
  EXPECT_THAT(Ctl({"clear", "--completed"}).err, HasSubstr("1 job forgotten"));
  EXPECT_EQ(CountJobs(), 2u);
  EXPECT_THAT(Ctl({"clear"}).err, HasSubstr("1 job forgotten"));
  EXPECT_EQ(CountJobs(), 1u);
  EXPECT_EQ(Ctl({"show", Id(failed)}).exit_code, 1);
  EXPECT_FALSE(std::filesystem::exists(paths().jobs + "/" + Id(failed)));
  EXPECT_EQ(StateOf(runs), "RUNNING");
  EXPECT_EQ(On("cancel", runs).exit_code, 0);
}

}  // namespace
}  // namespace stageload::e2e
