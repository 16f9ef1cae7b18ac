// What a user may ask of one job, on real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error_reason.h"
#include "tests/daemon/engine/engine_fixture.h"

namespace stageload::engine {
namespace {

using core::JobId;
using core::JobState;
using ::testing::HasSubstr;
using Request = Engine::Request;

class ControlTest : public EngineTest {
 protected:
  // The states of the processes whose command line is `argv0 argument`: "T" for a stopped one.
  std::string StatesOf(const std::string& command) {
    std::string states;
    const absl::StatusOr<std::vector<host::Process>> table = host_.Processes();
    for (const host::Process& process : *table) {
      const auto line = host_.CommandLine(process.identity);
      if (line.ok() && *line == command) states += host_.Find(process.identity.pid)->state;
    }
    return states;
  }
};

TEST_F(ControlTest, HeldJobWaitsUntilItIsReleased) {
  host_.SetLevel(20);
  Life life(folder_, host_);
  const JobId id = life.Submit({"true"})->record.id;
  EXPECT_TRUE(life.Control(id, Request::kHold)->record.held);
  EXPECT_TRUE(life.Control(id, Request::kHold).ok());  // it is so already
  host_.SetLevel(90);
  const JobId other = life.Submit({"true"})->record.id;
  EXPECT_EQ(life.WaitForEnd(other)->record.state, JobState::kCompleted);
  EXPECT_EQ(life.Get(id)->blockers.at(0).kind, core::BlockerKind::kHeld);
  EXPECT_FALSE(life.Control(id, Request::kRelease)->record.held);
  EXPECT_EQ(life.WaitForEnd(id)->record.state, JobState::kCompleted);
}

TEST_F(ControlTest, HeldJobIsHeldForTheNextDaemonToo) {
  host_.SetLevel(20);
  JobId id{};
  {
    Life life(folder_, host_);
    id = life.Submit({"true"})->record.id;
    ASSERT_TRUE(life.Control(id, Request::kHold).ok());
  }
  host_.SetLevel(90);
  Life life(folder_, host_);
  EXPECT_EQ(life.Get(id)->record.state, JobState::kPending);
  EXPECT_TRUE(life.Get(id)->record.held);
}

TEST_F(ControlTest, S26_SuspendStopsTheWholeTreeAndResumeLetsItGoOn) {
  Life life(folder_, host_);
  const std::string sleeper = "sleep 86.4" + std::to_string(getpid());
  const JobId id = life.Submit({"sh", "-c", sleeper + " & " + sleeper + " & wait"})->record.id;
  ASSERT_TRUE(Eventually([&] { return StatesOf(sleeper) == "SS"; }));
  EXPECT_EQ(life.Control(id, Request::kSuspend)->record.state, JobState::kSuspended);
  EXPECT_TRUE(Eventually([&] { return StatesOf(sleeper) == "TT"; })) << StatesOf(sleeper);
  EXPECT_TRUE(life.Control(id, Request::kSuspend).ok());  // it is so already
  EXPECT_EQ(life.Control(id, Request::kResume)->record.state, JobState::kRunning);
  EXPECT_TRUE(Eventually([&] { return StatesOf(sleeper) == "SS"; })) << StatesOf(sleeper);
  ASSERT_TRUE(life.Cancel(id).ok());
  EXPECT_EQ(life.WaitForEnd(id)->record.state, JobState::kCancelled);
}

TEST_F(ControlTest, S16_CancelledJobThatIsSuspendedRunsItsHandler) {
  Life life(folder_, host_);
  const std::string ready = folder_ + "/ready";
  const std::string proof = folder_ + "/handled";
  const JobId id = life.Submit({"sh", "-c",
                                "trap 'echo x > " + proof + "; exit 0' TERM; echo > " + ready +
                                    "; while :; do sleep 0.05; done"})
                       ->record.id;
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(ready); }));
  ASSERT_EQ(life.Control(id, Request::kSuspend)->record.state, JobState::kSuspended);
  ASSERT_TRUE(life.Cancel(id).ok());
  EXPECT_EQ(life.WaitForEnd(id)->record.state, JobState::kCancelled);
  EXPECT_TRUE(std::filesystem::exists(proof));
}

TEST_F(ControlTest, WrongStateIsNamedWithWhatItNeeds) {
  Life life(folder_, host_);
  const JobId id = life.Submit({"sleep", "600"})->record.id;
  ASSERT_TRUE(life.WaitFor(id, JobState::kRunning).ok());
  for (const Request request : {Request::kHold, Request::kRelease}) {
    const absl::Status status = life.Control(id, request).status();
    EXPECT_EQ(ReasonOf(status), kWrongState);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("job 1 is RUNNING; only a job that waits"));
  }
  EXPECT_EQ(ReasonOf(life.Retry(id).status()), kWrongState);
  EXPECT_EQ(ReasonOf(life.Delete(id).status()), kWrongState);
  ASSERT_TRUE(life.Cancel(id).ok());
  ASSERT_TRUE(life.WaitForEnd(id).ok());
  EXPECT_EQ(ReasonOf(life.Control(id, Request::kSuspend).status()), kJobEnded);
  EXPECT_EQ(ReasonOf(life.Control(JobId{99}, Request::kResume).status()), kJobNotFound);
  EXPECT_EQ(ReasonOf(life.Retry(JobId{99}).status()), kJobNotFound);
  EXPECT_EQ(ReasonOf(life.Delete(JobId{99}).status()), kJobNotFound);
}

TEST_F(ControlTest, RetryRunsTheSameCommandAsANewJob) {
  Life life(folder_, host_);
  const JobId id = life.Submit({"sh", "-c", "exit 9"})->record.id;
  ASSERT_EQ(life.WaitForEnd(id)->record.state, JobState::kFailed);
  const auto again = life.Retry(id);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->record.id, JobId{2});
  EXPECT_EQ(again->record.retry_of, id);
  EXPECT_EQ(life.WaitForEnd(JobId{2})->record.outcome.exit_code, 9);
  EXPECT_EQ(life.Get(id)->record.state, JobState::kFailed);  // history stays
}

TEST_F(ControlTest, ARetryThatIsSentAgainIsAnsweredAndRunsOnce) {
  JobId again{};
  {
    Life life(folder_, host_);
    const JobId id = life.Submit({"false"})->record.id;
    ASSERT_EQ(life.WaitForEnd(id)->record.state, JobState::kFailed);
    again = life.Retry(id, std::nullopt, "r1")->record.id;
    EXPECT_EQ(life.Retry(id, std::nullopt, "r1")->record.id, again);
  }
  Life next(folder_, host_);  // whose answer the caller did not hear
  EXPECT_EQ(next.Retry(JobId{1}, std::nullopt, "r1")->record.id, again);
  EXPECT_EQ(next.List()->jobs.size(), 2u);
}

TEST_F(ControlTest, WhatEndedLongerAgoThanHistoryIsKeptIsForgottenWithItsFolder) {
  {
    const auto store = store::Store::Open(folder_ + "/stageload.db");
    ASSERT_TRUE(store.ok()) << store.status();
    store::Batch batch;
    for (const int days : {31, 29}) {
      core::JobRecord record;
      record.id = JobId{static_cast<std::int64_t>(batch.added.size()) + 1};
      record.name = "train";
      record.state = JobState::kFailed;
      record.submit_time = absl::Now() - absl::Hours(24 * 60);
      record.end_time = absl::Now() - absl::Hours(24 * days);
      batch.added.push_back({record, std::nullopt});
      std::filesystem::create_directories(absl::StrCat(folder_, "/jobs/", core::Value(record.id)));
    }
    ASSERT_TRUE((*store)->Commit(batch).ok());
  }
  Life life(folder_, host_);
  for (int tries = 0; tries < 500 && life.Get(JobId{1}).ok(); ++tries) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_EQ(ReasonOf(life.Get(JobId{1}).status()), kJobNotFound);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/jobs/1"));
  EXPECT_TRUE(life.Get(JobId{2}).ok());
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/jobs/2"));
}

TEST_F(ControlTest, RetryAfterOutOfMemoryDeclaresItsTruePeakAndATenthMore) {
  Life life(folder_, host_);
  core::Policy policy;
  policy.swap_budget = MiB(64);
  const JobId id = life.Submit({"sleep", "600"}, policy)->record.id;
  ASSERT_TRUE(life.WaitFor(id, JobState::kRunning).ok());
  host_.SetSwap(GiB(1));
  const auto end = life.WaitForEnd(id);
  ASSERT_EQ(end->record.state, JobState::kOutOfMemory);
  ASSERT_TRUE(end->record.true_peak);
  EXPECT_GE(*end->record.true_peak, GiB(1));
  const auto again = life.Retry(id);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->record.policy.memory, *end->record.true_peak * 1.1);
  EXPECT_EQ(life.Retry(id, GiB(2))->record.policy.memory, GiB(2));
  for (const int other : {2, 3}) (void)life.Cancel(JobId{other});
  for (const int other : {2, 3}) (void)life.WaitForEnd(JobId{other});
}

TEST_F(ControlTest, CompletedJobCannotBeRunAgainSinceItsEnvironmentIsGone) {
  Life life(folder_, host_);
  const JobId id = life.Submit({"true"})->record.id;
  ASSERT_EQ(life.WaitForEnd(id)->record.state, JobState::kCompleted);
  const absl::Status status = life.Retry(id).status();
  EXPECT_EQ(ReasonOf(status), kWrongState);
  EXPECT_THAT(std::string(status.message()), HasSubstr("environment is not kept"));
}

TEST_F(ControlTest, DeletedJobIsGoneWithItsFolder) {
  Life life(folder_, host_);
  const JobId id = life.Submit({"true"})->record.id;
  ASSERT_TRUE(life.WaitForEnd(id).ok());
  const std::string folder = life.Get(id)->folder;
  ASSERT_TRUE(std::filesystem::exists(folder));
  ASSERT_TRUE(life.Delete(id).ok());
  EXPECT_EQ(ReasonOf(life.Get(id).status()), kJobNotFound);
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_EQ(life.Submit({"true"})->record.id, JobId{2});  // ids are never used again
  ASSERT_TRUE(life.WaitForEnd(JobId{2}).ok());
}

TEST_F(ControlTest, SubmitSentAgainIsAnsweredWithTheJobThatTheFirstMade) {
  {
    Life life(folder_, host_);
    EXPECT_EQ(life.Submit({"true"}, {}, "abc")->record.id, JobId{1});
    EXPECT_EQ(life.Submit({"true"}, {}, "abc")->record.id, JobId{1});
    EXPECT_EQ(life.Submit({"true"}, {}, "def")->record.id, JobId{2});
    EXPECT_EQ(life.Submit({"true"})->record.id, JobId{3});
    EXPECT_EQ(life.Submit({"true"})->record.id, JobId{4});
    for (int id = 1; id <= 4; ++id) (void)life.WaitForEnd(JobId{id});
  }
  Life life(folder_, host_);
  const auto again = life.Submit({"true"}, {}, "abc");
  EXPECT_EQ(again->record.id, JobId{1});
  EXPECT_EQ(again->record.state, JobState::kCompleted);
}

TEST_F(ControlTest, RepeatsThatArriveTogetherMakeOneJob) {
  host_.SetLevel(20);
  Life life(folder_, host_);
  constexpr int kCallers = 20;
  std::vector<std::unique_ptr<Promised<absl::StatusOr<JobView>>>> answers;
  for (int i = 0; i < kCallers; ++i) {
    answers.push_back(std::make_unique<Promised<absl::StatusOr<JobView>>>());
    SubmitRequest request;
    request.spec.argv = {"true"};
    request.spec.working_directory = "/";
    request.request_id = "same";
    life.engine().Submit(std::move(request),
                         [answer = answers.back().get()](auto job) { answer->Set(job); });
  }
  for (const auto& answer : answers) EXPECT_EQ(answer->Get()->record.id, JobId{1});
}

}  // namespace
}  // namespace stageload::engine
