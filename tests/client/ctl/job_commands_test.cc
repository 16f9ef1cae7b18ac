// The commands about jobs, as programs, against a scripted daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/client/ctl/fake_daemon.h"
#include "tests/client/ctl/program.h"

namespace stageload::ctl {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

v1::Job Ended(std::int64_t id, v1::JobState state, int exit_code) {
  v1::Job job;
  job.set_id(id);
  job.set_state(state);
  job.set_exit_code(exit_code);
  job.set_start_time_ns(1);
  return job;
}

class JobCommandsTest : public testing::Test {
 protected:
  Result Ctl(std::vector<std::string> arguments) {
    return RunProgram(daemon_.home(), std::move(arguments));
  }
  FakeDaemon daemon_;
};

TEST_F(JobCommandsTest, SubmitPrintsTheIdAndNothingElse) {
  v1::SubmitJobRequest seen;
  daemon_.on_submit = [&](const v1::SubmitJobRequest& request, v1::SubmitJobResponse& response) {
    seen = request;
    response.mutable_job()->set_id(12);
    return grpc::Status::OK;
  };
  const Result result = Ctl({"submit", "--priority", "-3", "--env", "A=b c", "--", "echo", "--x"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "12\n");
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(seen.arguments(), ElementsAre("echo", "--x"));
  EXPECT_EQ(seen.policy().priority(), -3);
  EXPECT_FALSE(seen.policy().has_start_timeout_ns());
  EXPECT_THAT(seen.environment(), testing::Contains("A=b c"));
}

TEST_F(JobCommandsTest, WrongOptionsExitTwoAndAskNothing) {
  bool asked = false;
  daemon_.on_submit = [&](const v1::SubmitJobRequest&, v1::SubmitJobResponse&) {
    asked = true;
    return grpc::Status::OK;
  };
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"submit"},
                                             {"submit", "--"},
                                             {"submit", "--swap-budget", "8X", "true"},
                                             {"submit", "--grace", "-1s", "true"},
                                             {"submit", "--wait-free", "140", "true"},
                                             {"submit", "--no-such-option", "true"},
                                             {"show", "0"},
                                             {"no-such-command"},
                                             {}}) {
    const Result result = Ctl(wrong);
    EXPECT_EQ(result.code, 2) << testing::PrintToString(wrong);
    EXPECT_THAT(result.err, HasSubstr("--help")) << testing::PrintToString(wrong);
    EXPECT_EQ(result.out, "") << testing::PrintToString(wrong);
  }
  EXPECT_FALSE(asked);
}

TEST_F(JobCommandsTest, RunCopiesEachStreamToItsOwnAndExitsWithTheJobsCode) {
  daemon_.on_submit = [&](const v1::SubmitJobRequest&, v1::SubmitJobResponse& response) {
    response.mutable_job()->set_id(4);
    return grpc::Status::OK;
  };
  daemon_.jobs = {Ended(4, v1::JOB_STATE_FAILED, 9)};
  v1::ReadLogsResponse out;
  out.set_stream(v1::LOG_STREAM_STDOUT);
  out.set_data("to out\n");
  v1::ReadLogsResponse err;
  err.set_stream(v1::LOG_STREAM_STDERR);
  err.set_data("to err\n");
  daemon_.log = {out, err};
  const Result result = Ctl({"run", "--", "x"});
  EXPECT_EQ(result.code, 9);
  EXPECT_EQ(result.out, "to out\n");
  EXPECT_EQ(result.err, "to err\n");
}

TEST_F(JobCommandsTest, WaitExitsWithTheHighestCode) {
  daemon_.jobs = {Ended(1, v1::JOB_STATE_COMPLETED, 0), Ended(2, v1::JOB_STATE_FAILED, 5),
                  Ended(3, v1::JOB_STATE_OUT_OF_MEMORY, 0)};
  EXPECT_EQ(Ctl({"wait", "1"}).code, 0);
  EXPECT_EQ(Ctl({"wait", "2", "1", "3"}).code, 5);
  EXPECT_EQ(Ctl({"wait", "3", "1"}).code, 3);
  const Result unknown = Ctl({"wait", "1", "8"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_EQ(unknown.err, "stageload: no job 8\n");
}

TEST_F(JobCommandsTest, QueueReadsAllPagesIntoOneDocument) {
  daemon_.jobs = {Ended(1, v1::JOB_STATE_COMPLETED, 0), Ended(2, v1::JOB_STATE_FAILED, 5)};
  const Result result = Ctl({"queue", "--all", "--json"});
  EXPECT_EQ(result.code, 0);
  const json document = json::parse(result.out);
  ASSERT_EQ(document["jobs"].size(), 2U);
  EXPECT_EQ(document["jobs"][0]["id"], 2);
  EXPECT_EQ(document["jobs"][0]["state"], "FAILED");
  EXPECT_EQ(document["jobs"][0]["exit_code"], 5);
}

TEST_F(JobCommandsTest, ShowPrintsTheJobAndRefusesAnUnknownOne) {
  daemon_.jobs = {Ended(2, v1::JOB_STATE_FAILED, 5)};
  EXPECT_THAT(Ctl({"show", "2"}).out, HasSubstr("FAILED"));
  EXPECT_EQ(json::parse(Ctl({"show", "2", "--json"}).out)["exit_code"], 5);
  EXPECT_EQ(Ctl({"show", "3"}).code, 1);
}

TEST_F(JobCommandsTest, ADaemonOfAnotherAgeIsToldOnStderrOnly) {
  daemon_.api_level = 2;
  const Result newer = Ctl({"queue", "--json"});
  EXPECT_EQ(newer.code, 0);
  EXPECT_THAT(newer.err, HasSubstr("is older than the running daemon"));
  EXPECT_TRUE(json::parse(newer.out).contains("jobs"));
  daemon_.api_level = 0;
  EXPECT_THAT(Ctl({"queue"}).err, HasSubstr("daemon stop"));
}

TEST_F(JobCommandsTest, WithoutADaemonAllButVersionExit69) {
  daemon_.Stop();
  const Result queue = Ctl({"queue"});
  EXPECT_EQ(queue.code, 69);
  EXPECT_THAT(queue.err, HasSubstr("stageloadctl daemon start"));
  EXPECT_EQ(Ctl({"guard", "true"}).code, 69);
  EXPECT_EQ(Ctl({"daemon", "status"}).code, 69);
  EXPECT_EQ(Ctl({"daemon", "stop"}).code, 0);
  const Result version = Ctl({"version", "--json"});
  EXPECT_EQ(version.code, 0);
  EXPECT_TRUE(json::parse(version.out)["daemon"].is_null());
}

}  // namespace
}  // namespace stageload::ctl
