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
  EXPECT_THAT(seen.variables(), ElementsAre("A=b c"));
}

TEST_F(JobCommandsTest, SubmitSendsTheTermsAndRepeatedOptionsDoNotTakeTheCommand) {
  v1::SubmitJobRequest seen;
  daemon_.on_submit = [&](const v1::SubmitJobRequest& request, v1::SubmitJobResponse& response) {
    seen = request;
    response.mutable_job()->set_id(12);
    return grpc::Status::OK;
  };
  const Result result = Ctl({"submit", "--after", "1,2", "--group", "gpu", "--after", "5", "--busy",
                             "ollama serve", "--begin", "2126-01-01T00:00:00Z", "--memory", "auto",
                             "--profile", "p", "--busy", "a|b", "echo", "3"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(seen.arguments(), ElementsAre("echo", "3"));
  EXPECT_THAT(seen.terms().after(), ElementsAre(1, 2, 5));
  EXPECT_EQ(seen.terms().group(), "gpu");
  EXPECT_EQ(seen.terms().profile(), "p");
  EXPECT_EQ(seen.terms().begin_time_ns(), 4'922'899'200'000'000'000);
  EXPECT_THAT(seen.policy().busy_patterns(), ElementsAre("ollama serve", "a|b"));
  EXPECT_TRUE(seen.policy().memory_auto());
}

TEST_F(JobCommandsTest, ARefusedFieldIsCalledByItsOption) {
  daemon_.on_submit = [](const v1::SubmitJobRequest&, v1::SubmitJobResponse&) {
    return Failure(grpc::StatusCode::INVALID_ARGUMENT, "policy.busy_patterns: \"(\" is none",
                   "INVALID_FIELD", "policy.busy_patterns");
  };
  const Result result = Ctl({"submit", "--busy", "(", "true"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "stageload: --busy: \"(\" is none\n");
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
                                             {"guard", "--poll", "often", "true"},
                                             {"guard", "--poll", "0s", "true"},
                                             {"submit", "--begin", "25:00", "true"},
                                             {"submit", "--memory", "auto", "true"},
                                             {"guard", "--after", "x", "true"},
                                             {"guard", "--begin", "22:00", "true"},
                                             {"run", "--time", "0", "true"},
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
  EXPECT_EQ(document["jobs"][0]["id"], 1);
  EXPECT_EQ(document["jobs"][1]["state"], "FAILED");
  EXPECT_EQ(document["jobs"][1]["exit_code"], 5);
}

TEST_F(JobCommandsTest, ShowPrintsTheJobAndRefusesAnUnknownOne) {
  daemon_.jobs = {Ended(2, v1::JOB_STATE_FAILED, 5)};
  EXPECT_THAT(Ctl({"show", "2"}).out, HasSubstr("FAILED"));
  EXPECT_EQ(json::parse(Ctl({"show", "2", "--json"}).out)["exit_code"], 5);
  EXPECT_EQ(Ctl({"show", "3"}).code, 1);
}

v1::Job Waiting() {
  v1::Job job;
  job.set_id(5);
  job.set_state(v1::JOB_STATE_PENDING);
  job.set_group("gpu");
  job.set_profile("llama");
  job.add_after(3);
  job.add_after(4);
  job.set_held(true);
  job.set_begin_time_ns(4'922'899'200'000'000'000);
  v1::Policy& policy = *job.mutable_policy();
  policy.set_memory_auto(true);
  policy.set_time_limit_ns(7'200'000'000'000);
  policy.set_charge_mode(v1::CHARGE_MODE_OWN);
  policy.set_on_over_budget(v1::OVER_BUDGET_WARN);
  policy.add_busy_patterns("ollama serve");
  policy.add_busy_patterns("a|b");
  policy.set_quiet_for_ns(90'000'000'000);
  v1::Blocker& busy = *job.add_blockers();
  busy.set_kind(v1::BLOCKER_KIND_BUSY);
  busy.set_text("quiet for 3s since 412 ollama serve, needs 15s");
  busy.set_ends_in_ns(12'000'000'000);
  v1::Blocker& begin = *job.add_blockers();
  begin.set_kind(v1::BLOCKER_KIND_NOT_BEFORE);
  begin.set_text("not before 2126, in 99d");
  begin.set_ends_in_ns(12'000'000'000);
  return job;
}

TEST_F(JobCommandsTest, ShowPrintsTheTermsOfAJobThatWaits) {
  daemon_.jobs = {Waiting()};
  const Result result = Ctl({"show", "5"});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* line :
       {"\nwaits for       BUSY: quiet for 3s since 412 ollama serve, needs 15s; ends in 12s\n"
        "                NOT_BEFORE: not before 2126, in 99d\n",
        "\ngroup           gpu\n", "\nprofile         llama\n", "\nstarts after    jobs 3, 4\n",
        "\nnot before      212", "\nheld            until",
        "\nbusy            ollama serve\n                a|b\nquiet for       1m30s\n",
        "\ncharge mode     OWN\n", "\non over budget  WARN\n", "\nmemory          auto\n",
        "\ntime limit      2h00m\n"}) {
    EXPECT_THAT(result.out, HasSubstr(line));
  }
  EXPECT_THAT(Ctl({"queue"}).out,
              HasSubstr("BUSY: quiet for 3s since 412 ollama serve, needs 15s (+1 more)"));
}

TEST_F(JobCommandsTest, ShowLeavesOutWhatIsAsUsual) {
  v1::Job job = Ended(2, v1::JOB_STATE_FAILED, 5);
  job.mutable_policy()->set_charge_mode(v1::CHARGE_MODE_SYSTEM);
  job.mutable_policy()->set_on_over_budget(v1::OVER_BUDGET_STOP);
  daemon_.jobs = {job};
  const std::string out = Ctl({"show", "2"}).out;
  for (const char* label :
       {"group", "profile", "starts after", "not before", "held", "busy", "quiet for",
        "charge mode", "on over budget", "memory", "time limit", "true peak"}) {
    EXPECT_THAT(out, testing::Not(HasSubstr(std::string("\n") + label)));
  }
}

TEST_F(JobCommandsTest, ShowTellsWhatWasLearnedAndTheTruePeak) {
  v1::Job job = Ended(2, v1::JOB_STATE_COMPLETED, 0);
  job.mutable_policy()->set_memory_auto(true);
  job.set_true_peak_bytes(3LL << 30);
  daemon_.jobs = {job};
  EXPECT_THAT(Ctl({"show", "2"}).out, HasSubstr("auto, of which nothing was known yet\n"));
  job.mutable_policy()->set_memory_bytes(2LL << 30);
  daemon_.jobs = {job};
  const std::string out = Ctl({"show", "2"}).out;
  EXPECT_THAT(out, HasSubstr("2 GiB (auto)\n"));
  EXPECT_THAT(out, testing::ContainsRegex("true peak +3 GiB\n"));
}

TEST_F(JobCommandsTest, ShowAsJsonHasTheTermsUnderTheirNames) {
  daemon_.jobs = {Waiting()};
  const json job = json::parse(Ctl({"show", "5", "--json"}).out);
  EXPECT_EQ(job["group"], "gpu");
  EXPECT_EQ(job["after"], json::array({3, 4}));
  EXPECT_EQ(job["held"], true);
  EXPECT_EQ(job["begin_time_ns"], 4'922'899'200'000'000'000);
  EXPECT_EQ(job["policy"]["charge_mode"], "OWN");
  EXPECT_EQ(job["policy"]["on_over_budget"], "WARN");
  EXPECT_EQ(job["policy"]["memory_auto"], true);
  EXPECT_EQ(job["policy"]["time_limit_ns"], 7'200'000'000'000);
  EXPECT_EQ(job["policy"]["busy_patterns"], json::array({"ollama serve", "a|b"}));
  EXPECT_EQ(job["policy"]["quiet_for_ns"], 90'000'000'000);
  EXPECT_EQ(job["blockers"][0]["ends_in_ns"], 12'000'000'000);
  EXPECT_FALSE(job.contains("true_peak_bytes"));
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
