// From what was typed to a request.
#include "client/ctl/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/error_reason.h"
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

TEST(AdmissionOptions, OfTheRulesBeyondRoomAreRead) {
  AdmissionOptions options;
  options.charge = "own";
  options.on_over_budget = "suspend";
  options.busy = {"ollama serve", "train.*[.]py"};
  options.quiet_for = "90s";
  options.time_limit = "2h";
  options.group = "gpu";
  options.profile = "llama";
  options.after = {"3", "5,4"};
  const absl::StatusOr<v1::Policy> policy = ToPolicy(options);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->charge_mode(), v1::CHARGE_MODE_OWN);
  EXPECT_EQ(policy->on_over_budget(), v1::OVER_BUDGET_SUSPEND);
  EXPECT_THAT(policy->busy_patterns(), ElementsAre("ollama serve", "train.*[.]py"));
  EXPECT_EQ(policy->quiet_for_ns(), 90'000'000'000);
  EXPECT_EQ(policy->time_limit_ns(), 7'200'000'000'000);
  EXPECT_FALSE(policy->memory_auto());
  const absl::StatusOr<v1::Terms> terms = ToTerms(options);
  ASSERT_TRUE(terms.ok()) << terms.status();
  EXPECT_EQ(terms->group(), "gpu");
  EXPECT_EQ(terms->profile(), "llama");
  EXPECT_THAT(terms->after(), ElementsAre(3, 5, 4));
  EXPECT_FALSE(terms->has_begin_time_ns() || terms->held());
  EXPECT_EQ(ToTerms(AdmissionOptions())->ByteSizeLong(), 0U);
}

TEST(AdmissionOptions, EachWordOfAChoiceHasItsOwnMeaning) {
  AdmissionOptions options;
  for (const auto& [word, mode] :
       {std::pair("system", v1::CHARGE_MODE_SYSTEM), std::pair("own", v1::CHARGE_MODE_OWN)}) {
    options.charge = word;
    EXPECT_EQ(ToPolicy(options)->charge_mode(), mode) << word;
  }
  for (const auto& [word, action] :
       {std::pair("stop", v1::OVER_BUDGET_STOP), std::pair("suspend", v1::OVER_BUDGET_SUSPEND),
        std::pair("warn", v1::OVER_BUDGET_WARN)}) {
    options.on_over_budget = word;
    EXPECT_EQ(ToPolicy(options)->on_over_budget(), action) << word;
  }
}

TEST(AdmissionOptions, MemoryAutoNeedsANameForWhatIsLearned) {
  AdmissionOptions options;
  options.memory = "auto";
  EXPECT_THAT(Message(ToPolicy(options).status()),
              AllOf(HasSubstr("--memory auto: "), HasSubstr("--profile")));
  for (std::string AdmissionOptions::*name :
       {&AdmissionOptions::profile, &AdmissionOptions::name}) {
    AdmissionOptions named = options;
    named.*name = "llama";
    const absl::StatusOr<v1::Policy> policy = ToPolicy(named);
    ASSERT_TRUE(policy.ok()) << policy.status();
    EXPECT_TRUE(policy->memory_auto());
    EXPECT_FALSE(policy->has_memory_bytes());
  }
}

TEST(AdmissionOptions, QuietForMayStandAloneSinceTheConfigMayHaveThePatterns) {
  AdmissionOptions options;
  options.quiet_for = "2m";
  const absl::StatusOr<v1::Policy> policy = ToPolicy(options);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->quiet_for_ns(), 120'000'000'000);
  EXPECT_EQ(policy->busy_patterns_size(), 0);
}

TEST(AdmissionOptions, ThatAreWrongAreNamedWithTheirValueAndARightOne) {
  struct Case {
    std::string text;  // both of them
    std::string right;
    std::function<void(AdmissionOptions&)> set;
  };
  const std::vector<Case> cases = {
      {"--charge: \"mine\"", "system or own", [](auto& o) { o.charge = "mine"; }},
      {"--charge: \"\"", "system or own", [](auto& o) { o.charge = ""; }},
      {"--on-over-budget: \"kill\"", "stop, suspend or warn",
       [](auto& o) { o.on_over_budget = "kill"; }},
      {"--time: duration \"soon\"", "30m", [](auto& o) { o.time_limit = "soon"; }},
      {"--time: duration \"0s\"", "above 0", [](auto& o) { o.time_limit = "0s"; }},
      {"--quiet-for: duration \"x\"", "30m", [](auto& o) { o.quiet_for = "x"; }},
      {"--memory: size \"automatic\"", "8G", [](auto& o) { o.memory = "automatic"; }},
  };
  for (const Case& wrong : cases) {
    AdmissionOptions options;
    wrong.set(options);
    EXPECT_THAT(Message(ToPolicy(options).status()),
                AllOf(HasSubstr(wrong.text), HasSubstr(wrong.right)));
  }
  for (const std::string list : {"", "x", "3,", ",3", "3,,4", "0", "3 4"}) {
    AdmissionOptions options;
    options.after = {"1", list};
    EXPECT_THAT(Message(ToTerms(options).status()),
                AllOf(HasSubstr("--after: job id \""), HasSubstr("whole number from 1 up")))
        << list;
  }
}

TEST(NamingOptions, SaysAboutTheOptionWhatTheDaemonSaidAboutTheField) {
  const absl::Status status =
      WithReason(absl::InvalidArgumentError("policy.busy_patterns: \"(\" is none"), kInvalidField,
                 "policy.busy_patterns");
  const absl::Status named = NamingOptions(status);
  EXPECT_EQ(Message(named), "--busy: \"(\" is none");
  EXPECT_TRUE(absl::IsInvalidArgument(named));
  EXPECT_EQ(ReasonOf(named), kInvalidField);
  // What is about no option stays as it is.
  const absl::Status other =
      WithReason(absl::InvalidArgumentError("umask: 512"), kInvalidField, "umask");
  EXPECT_EQ(NamingOptions(other), other);
  EXPECT_TRUE(NamingOptions(absl::OkStatus()).ok());
}

TEST(NamingOptions, NamesTheConfigWhereNoOptionWasGiven) {
  const absl::Status status =
      WithReason(absl::FailedPreconditionError("policy.swap_limit_bytes: never fits"), kNeverFits,
                 "policy.swap_limit_bytes");
  v1::Policy asked;
  EXPECT_EQ(Message(NamingOptions(status, &asked)),
            "swap_limit of the config's [defaults]: never fits");
  asked.set_swap_limit_bytes(1);
  EXPECT_EQ(Message(NamingOptions(status, &asked)), "--swap-limit: never fits");
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

TEST(JobRequest, CarriesTheTermsAndTheBeginTime) {
  JobOptions options;
  options.admission.group = "gpu";
  options.begin = "+1h";
  const absl::Time before = absl::Now();
  const absl::StatusOr<v1::SubmitJobRequest> request = ToRequest(options, {"x"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->terms().group(), "gpu");
  const absl::Time begin = absl::FromUnixNanos(request->terms().begin_time_ns());
  EXPECT_GE(begin, before + absl::Hours(1) - absl::Nanoseconds(1));
  EXPECT_LE(begin, absl::Now() + absl::Hours(1));
  EXPECT_FALSE(ToRequest(JobOptions(), {"x"})->terms().has_begin_time_ns());
  options.begin = "late";
  EXPECT_THAT(Message(ToRequest(options, {"x"}).status()), HasSubstr("--begin: time \"late\""));
}

TEST(JobRequest, SetsVariablesOverTheEnvironment) {
  JobOptions options;
  options.env = {"PATH=/only", "NEW=a=b", "EMPTY="};
  const absl::StatusOr<v1::SubmitJobRequest> request = ToRequest(options, {"x"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->variables(), ElementsAre("PATH=/only", "NEW=a=b", "EMPTY="));
  EXPECT_THAT(request->environment(), Not(Contains("PATH=/only"))) << "shared with other jobs";
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
