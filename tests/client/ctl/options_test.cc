// From what was typed to a request.
#include "client/ctl/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <string>

#include "client/ctl/job_request.h"

namespace stageload::ctl {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(AdmissionOptions, ThatWereNotGivenStayAbsent) {
  const absl::StatusOr<v1::Policy> policy = ToPolicy(AdmissionOptions());
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->ByteSizeLong(), 0U);
}

TEST(AdmissionOptions, AreReadIntoThePolicysUnits) {
  AdmissionOptions options;
  options.wait_free = "55.5";
  options.swap_budget = "8G";
  options.swap_limit = "1.5GiB";
  options.kill_free = "0";
  options.memory = "512M";
  options.start_timeout = "2s";
  options.priority = "-5";
  options.grace = "500ms";
  const absl::StatusOr<v1::Policy> policy = ToPolicy(options);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->wait_free_percent(), 55.5);
  EXPECT_EQ(policy->swap_budget_bytes(), 8LL << 30);
  EXPECT_EQ(policy->swap_limit_bytes(), 3LL << 29);
  EXPECT_TRUE(policy->has_kill_free_percent());
  EXPECT_EQ(policy->memory_bytes(), 512LL << 20);
  EXPECT_EQ(policy->start_timeout_ns(), 2'000'000'000);
  EXPECT_EQ(policy->priority(), -5);
  EXPECT_EQ(policy->grace_ns(), 500'000'000);
}

TEST(AdmissionOptions, NameTheOptionAndTheValueThatIsWrong) {
  AdmissionOptions size;
  size.swap_budget = "8X";
  EXPECT_THAT(Message(ToPolicy(size).status()),
              AllOf(HasSubstr("--swap-budget: "), HasSubstr("8X")));
  AdmissionOptions percent;
  percent.wait_free = "140";
  EXPECT_THAT(Message(ToPolicy(percent).status()),
              AllOf(HasSubstr("--wait-free: "), HasSubstr("140")));
  AdmissionOptions duration;
  duration.grace = "-1s";
  EXPECT_THAT(Message(ToPolicy(duration).status()),
              AllOf(HasSubstr("--grace: "), HasSubstr("-1s")));
  for (const char* wrong : {"", "high", "1001", "-1001", "1.5"}) {
    AdmissionOptions priority;
    priority.priority = wrong;
    EXPECT_TRUE(absl::IsInvalidArgument(ToPolicy(priority).status())) << wrong;
  }
}

TEST(JobIds, AreWholeNumbersFromOneUp) {
  EXPECT_EQ(*ParseJobId("7"), 7);
  for (const char* wrong : {"", "0", "-1", "x", "1.5", "99999999999999999999"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseJobId(wrong).status())) << wrong;
  }
  EXPECT_THAT(*ParseJobIds({"3", "1"}), ElementsAre(3, 1));
  EXPECT_FALSE(ParseJobIds({"3", "x"}).ok());
}

TEST(JobRequest, CarriesTheSubmittersSurroundings) {
  const mode_t before = umask(027);
  const absl::StatusOr<v1::SubmitJobRequest> request = ToRequest(JobOptions(), {"echo", "", "a b"});
  EXPECT_EQ(umask(before), mode_t{027}) << "the umask was left changed";
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->arguments(), ElementsAre("echo", "", "a b"));
  EXPECT_EQ(request->umask(), 027U);
  EXPECT_EQ(request->working_directory().front(), '/');
  EXPECT_THAT(request->environment(), Contains(HasSubstr("PATH=")));
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  bool found = false;
  for (const v1::ResourceLimit& limit : request->limits()) {
    if (limit.resource() != static_cast<int>(RLIMIT_NOFILE)) continue;
    found = true;
    EXPECT_EQ(limit.soft(), files.rlim_cur);
  }
  EXPECT_TRUE(found);
}

TEST(JobRequest, SetsVariablesOverTheEnvironment) {
  JobOptions options;
  options.env = {"PATH=/only", "NEW=a=b", "EMPTY="};
  const absl::StatusOr<v1::SubmitJobRequest> request = ToRequest(options, {"x"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->environment(),
              AllOf(Contains("PATH=/only").Times(1), Contains("NEW=a=b"), Contains("EMPTY=")));
  options.env = {"NOVALUE"};
  EXPECT_THAT(Message(ToRequest(options, {"x"}).status()), HasSubstr("NOVALUE"));
  options.env = {"=x"};
  EXPECT_FALSE(ToRequest(options, {"x"}).ok());
}

TEST(JobRequest, MakesTheFolderAbsoluteAndRefusesWhatIsNone) {
  JobOptions options;
  options.cwd = "/..";
  EXPECT_EQ(ToRequest(options, {"x"})->working_directory(), "/");
  options.cwd = "/dev/null";
  EXPECT_THAT(Message(ToRequest(options, {"x"}).status()), HasSubstr("--cwd"));
  options.cwd = "/does/not/exist";
  EXPECT_THAT(Message(ToRequest(options, {"x"}).status()), HasSubstr("/does/not/exist"));
}

TEST(JobRequest, RefusesAnEmptyCommandAndOneThatIsTooLarge) {
  EXPECT_TRUE(absl::IsInvalidArgument(ToRequest(JobOptions(), {}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ToRequest(JobOptions(), {""}).status()));
  EXPECT_THAT(Message(ToRequest(JobOptions(), {"x", std::string(3 << 20, 'a')}).status()),
              HasSubstr("2 MiB"));
}

}  // namespace
}  // namespace stageload::ctl
