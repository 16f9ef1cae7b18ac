// What comes in is refused field by field; what goes out says nothing that is not known.
#include "daemon/rpc/convert.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error_reason.h"
#include "daemon/rpc/convert_frame.h"
#include "daemon/rpc/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stageload::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr std::size_t kMaxSpec = 2 << 20;

v1::SubmitJobRequest GoodSubmit() {
  v1::SubmitJobRequest request;
  request.add_arguments("/usr/bin/python3");
  request.add_arguments("train.py");
  request.set_working_directory("/home/me");
  request.add_environment("PATH=/usr/bin");
  return request;
}

v1::GuardRequest GoodGuard() {
  v1::GuardRequest request;
  request.set_pid(42);
  request.add_arguments("make");
  return request;
}

// Refused as INVALID_FIELD of `field`, which the message starts with, and `text` follows in it.
void ExpectInvalid(const absl::Status& status, const std::string& field, const std::string& text) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << field << ": " << status;
  EXPECT_EQ(ReasonOf(status), kInvalidField) << status;
  EXPECT_EQ(FieldOf(status), field) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith(field + ": "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

// ---- Policy ----

v1::Policy WithMode(v1::ChargeMode mode) {
  v1::Policy policy;
  policy.set_charge_mode(mode);
  return policy;
}

TEST(ToPolicyTest, WhatIsAbsentTakesTheDefault) {
  const auto policy = ToPolicy(v1::Policy());
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->wait_free.value, 40);
  EXPECT_EQ(policy->swap_budget, GiB(8));
  EXPECT_EQ(policy->kill_free.value, 10);
  EXPECT_EQ(policy->grace, absl::Seconds(5));
  EXPECT_EQ(policy->priority, 0);
  EXPECT_FALSE(policy->swap_limit || policy->memory || policy->start_timeout);
  EXPECT_FALSE(policy->memory_auto || policy->time_limit);
  EXPECT_EQ(policy->charge_mode, core::ChargeMode::kSystem);
  EXPECT_EQ(policy->on_over_budget, core::OverBudget::kStop);
  EXPECT_THAT(policy->busy, IsEmpty());
  EXPECT_EQ(policy->quiet_for, absl::Minutes(1));
}

TEST(ToPolicyTest, WhatIsGivenIsTakenOver) {
  v1::Policy in;
  in.set_memory_auto(true);
  in.set_time_limit_ns(90'000'000'000);
  in.set_charge_mode(v1::CHARGE_MODE_OWN);
  in.set_on_over_budget(v1::OVER_BUDGET_SUSPEND);
  in.add_busy_patterns("ollama (serve|run)");
  in.add_busy_patterns("caf\u00e9");
  in.set_quiet_for_ns(0);
  const auto policy = ToPolicy(in);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_TRUE(policy->memory_auto);
  EXPECT_FALSE(policy->memory);
  EXPECT_EQ(policy->time_limit, absl::Seconds(90));
  EXPECT_EQ(policy->charge_mode, core::ChargeMode::kOwn);
  EXPECT_EQ(policy->on_over_budget, core::OverBudget::kSuspend);
  EXPECT_THAT(policy->busy, ElementsAre("ollama (serve|run)", "caf\u00e9"));
  EXPECT_EQ(policy->quiet_for, absl::ZeroDuration());
}

// Each choice that the core knows goes out as a word and comes back as the same choice.
TEST(ToPolicyTest, EachChoiceComesBackAsItWent) {
  for (const auto mode : {core::ChargeMode::kSystem, core::ChargeMode::kOwn}) {
    for (const auto action :
         {core::OverBudget::kStop, core::OverBudget::kSuspend, core::OverBudget::kWarn}) {
      engine::JobView view;
      view.record.policy.charge_mode = mode;
      view.record.policy.on_over_budget = action;
      EXPECT_EQ(*ToPolicy(ToProto(view).policy()), view.record.policy);
    }
  }
  EXPECT_EQ(core::ChargeMode::kOwn, ToPolicy(WithMode(v1::CHARGE_MODE_OWN))->charge_mode);
  EXPECT_EQ(core::ChargeMode::kSystem, ToPolicy(WithMode(v1::CHARGE_MODE_SYSTEM))->charge_mode);
}

TEST(ToPolicyTest, ZeroIsAValueAndNotAbsence) {
  v1::Policy in;
  in.set_wait_free_percent(0);
  in.set_swap_budget_bytes(0);
  in.set_memory_bytes(0);
  in.set_start_timeout_ns(0);
  in.set_grace_ns(0);
  const auto policy = ToPolicy(in);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->wait_free.value, 0);
  EXPECT_EQ(policy->swap_budget, Bytes(0));
  EXPECT_EQ(policy->memory, Bytes(0));
  EXPECT_EQ(policy->start_timeout, absl::ZeroDuration());
  EXPECT_EQ(policy->grace, absl::ZeroDuration());
}

TEST(ToPolicyTest, DefaultBudgetFitsUnderALimitThatIsSmaller) {
  v1::Policy policy;
  policy.set_swap_limit_bytes(GiB(2).count());
  EXPECT_EQ(ToPolicy(policy)->swap_budget, GiB(2));
  policy.set_swap_limit_bytes(GiB(20).count());
  EXPECT_EQ(ToPolicy(policy)->swap_budget, GiB(8));
}

TEST(ToPolicyTest, TheConfigsDefaultsHoldForWhatIsAbsent) {
  core::Policy defaults;
  defaults.wait_free = Percent{55};
  defaults.swap_budget = GiB(4);
  defaults.swap_limit = GiB(20);
  defaults.memory_auto = true;
  defaults.busy = {"a"};
  defaults.start_timeout = absl::Hours(8);
  defaults.on_over_budget = core::OverBudget::kSuspend;
  EXPECT_EQ(*ToPolicy(v1::Policy(), defaults), defaults);

  v1::Policy in;
  in.set_wait_free_percent(10);
  in.set_memory_bytes(GiB(2).count());
  in.add_busy_patterns("b");
  in.set_on_over_budget(v1::OVER_BUDGET_STOP);
  core::Policy asked = defaults;
  asked.wait_free = Percent{10};
  asked.memory = GiB(2);
  asked.memory_auto = false;
  asked.busy = {"b"};
  asked.on_over_budget = core::OverBudget::kStop;
  EXPECT_EQ(*ToPolicy(in, defaults), asked);

  v1::Policy limited;
  limited.set_swap_limit_bytes(GiB(3).count());
  EXPECT_EQ(ToPolicy(limited, defaults)->swap_budget, GiB(3)) << "no more than the limit";
}

TEST(ToSubmitTest, WhatIsToBeAbsentIsAbsentThoughTheConfigHasADefault) {
  core::Defaults defaults;
  defaults.policy.swap_limit = GiB(20);
  defaults.policy.memory_auto = true;
  defaults.policy.busy = {"a"};
  defaults.policy.start_timeout = absl::Hours(8);
  defaults.policy.time_limit = absl::Hours(8);
  v1::SubmitJobRequest request = GoodSubmit();
  for (const char* field :
       {"swap_limit_bytes", "memory_bytes", "start_timeout_ns", "time_limit_ns", "busy_patterns"}) {
    request.add_clear_fields(field);
  }
  EXPECT_EQ(ToSubmit(request, defaults)->policy, ToSubmit(GoodSubmit())->policy);
  request.add_clear_fields("grace_ns");
  ExpectInvalid(ToSubmit(request, defaults).status(), "clear_fields", "grace_ns");
}

TEST(ToGuardTest, AGuardHasAStartTimeoutOfItsOwn) {
  EXPECT_EQ(ToGuard(GoodGuard())->policy.start_timeout, absl::Minutes(30));
  core::Defaults defaults;
  defaults.policy.start_timeout = absl::Hours(8);
  defaults.guard_start_timeout = absl::Minutes(2);
  EXPECT_EQ(ToGuard(GoodGuard(), defaults)->policy.start_timeout, absl::Minutes(2));
  v1::GuardRequest request = GoodGuard();
  request.add_clear_fields("start_timeout_ns");
  EXPECT_EQ(ToGuard(request, defaults)->policy.start_timeout, std::nullopt);
}

TEST(ToPolicyTest, EachBadFieldIsNamedWithItsValue) {
  struct Case {
    const char* field;
    const char* text;
    std::function<void(v1::Policy&)> spoil;
  };
  const std::vector<Case> cases = {
      {"policy.wait_free_percent", "140", [](auto& p) { p.set_wait_free_percent(140); }},
      {"policy.wait_free_percent", "-1", [](auto& p) { p.set_wait_free_percent(-1); }},
      {"policy.wait_free_percent", "nan", [](auto& p) { p.set_wait_free_percent(std::nan("")); }},
      {"policy.kill_free_percent", "inf",
       [](auto& p) { p.set_kill_free_percent(std::numeric_limits<double>::infinity()); }},
      {"policy.swap_budget_bytes", "-5", [](auto& p) { p.set_swap_budget_bytes(-5); }},
      {"policy.swap_limit_bytes", "-6", [](auto& p) { p.set_swap_limit_bytes(-6); }},
      {"policy.memory_bytes", "-7", [](auto& p) { p.set_memory_bytes(-7); }},
      {"policy.priority", "1001", [](auto& p) { p.set_priority(1001); }},
      {"policy.priority", "-1001", [](auto& p) { p.set_priority(-1001); }},
      {"policy.start_timeout_ns", "negative", [](auto& p) { p.set_start_timeout_ns(-1); }},
      {"policy.grace_ns", "negative", [](auto& p) { p.set_grace_ns(-1'000'000'000); }},
      {"policy.time_limit_ns", "negative", [](auto& p) { p.set_time_limit_ns(-1); }},
      {"policy.quiet_for_ns", "negative", [](auto& p) { p.set_quiet_for_ns(-1); }},
      {"policy.charge_mode", "3 is no charge mode",
       [](auto& p) { p.set_charge_mode(static_cast<v1::ChargeMode>(3)); }},
      {"policy.charge_mode", "-1 is no charge mode",
       [](auto& p) { p.set_charge_mode(static_cast<v1::ChargeMode>(-1)); }},
      {"policy.on_over_budget", "4 is no action",
       [](auto& p) { p.set_on_over_budget(static_cast<v1::OverBudget>(4)); }},
      {"policy.memory_auto", "memory_bytes",
       [](auto& p) {
         p.set_memory_auto(true);
         p.set_memory_bytes(1);
       }},
      {"policy.busy_patterns", "\"(\" is no regular expression (RE2's syntax): ",
       [](auto& p) {
         p.add_busy_patterns("good");
         p.add_busy_patterns("(");
       }},
      {"policy.busy_patterns", "empty", [](auto& p) { p.add_busy_patterns(""); }},
      {"policy.busy_patterns", "control", [](auto& p) { p.add_busy_patterns("a\nb"); }},
      {"policy.busy_patterns", "control", [](auto& p) { p.add_busy_patterns(std::string(1, 0)); }},
      {"policy.busy_patterns", "257 bytes, the limit is 256",
       [](auto& p) { p.add_busy_patterns(std::string(257, 'a')); }},
      {"policy.busy_patterns", "33 patterns, the limit is 32",
       [](auto& p) {
         for (int i = 0; i < 33; ++i) p.add_busy_patterns("a");
       }},
  };
  for (const Case& bad : cases) {
    v1::SubmitJobRequest submit = GoodSubmit();
    bad.spoil(*submit.mutable_policy());
    ExpectInvalid(ToSubmit(submit).status(), bad.field, bad.text);
    v1::GuardRequest guard = GoodGuard();
    bad.spoil(*guard.mutable_policy());
    ExpectInvalid(ToGuard(guard).status(), bad.field, bad.text);
  }
}

// ---- SubmitJob ----

TEST(ToSubmitTest, EverythingIsTakenOverAsItIs) {
  v1::SubmitJobRequest request = GoodSubmit();
  request.add_arguments("\xFF\xFE not UTF-8");
  request.add_environment("EMPTY=");
  request.add_environment("BYTES=\x80=\n");
  request.set_name("night run");
  request.set_umask(0);
  v1::ResourceLimit* limit = request.add_limits();
  limit->set_resource(7);
  limit->set_soft(std::numeric_limits<std::uint64_t>::max());
  const auto submit = ToSubmit(request);
  ASSERT_TRUE(submit.ok()) << submit.status();
  EXPECT_EQ(submit->name, "night run");
  EXPECT_THAT(submit->spec.argv, ElementsAre("/usr/bin/python3", "train.py", "\xFF\xFE not UTF-8"));
  EXPECT_THAT(submit->spec.environment, ElementsAre("PATH=/usr/bin", "EMPTY=", "BYTES=\x80=\n"));
  EXPECT_EQ(submit->spec.working_directory, "/home/me");
  EXPECT_EQ(submit->spec.umask, 0u);
  EXPECT_THAT(submit->spec.soft_limits,
              ElementsAre(std::pair(7, std::numeric_limits<std::uint64_t>::max())));
}

TEST(ToSubmitTest, WithoutANameTheCommandGivesOneAndWithoutAUmaskIts022) {
  const auto submit = ToSubmit(GoodSubmit());
  ASSERT_TRUE(submit.ok()) << submit.status();
  EXPECT_EQ(submit->name, "python3");
  EXPECT_EQ(submit->spec.umask, 022u);
}

TEST(ToSubmitTest, EachBadFieldIsNamed) {
  const std::string nul("a\0b", 3);
  struct Case {
    const char* field;
    const char* text;
    std::function<void(v1::SubmitJobRequest&)> spoil;
  };
  const std::vector<Case> cases = {
      {"arguments", "empty", [](auto& r) { r.clear_arguments(); }},
      {"arguments", "empty", [](auto& r) { r.set_arguments(0, ""); }},
      {"arguments", "NUL", [&](auto& r) { r.add_arguments(nul); }},
      {"environment", "\"NAME\" is not", [](auto& r) { r.add_environment("NAME"); }},
      {"environment", "\"=x\" is not", [](auto& r) { r.add_environment("=x"); }},
      {"environment", "NUL", [&](auto& r) { r.add_environment("A=" + nul); }},
      {"working_directory", "\"\" is not", [](auto& r) { r.clear_working_directory(); }},
      {"working_directory", "\"here\" is not", [](auto& r) { r.set_working_directory("here"); }},
      {"working_directory", "NUL", [&](auto& r) { r.set_working_directory("/" + nul); }},
      {"name", "300 bytes", [](auto& r) { r.set_name(std::string(300, 'n')); }},
      {"name", "control", [](auto& r) { r.set_name("a\nb"); }},
      {"umask", "512", [](auto& r) { r.set_umask(512); }},
      {"limits.resource", "-1", [](auto& r) { r.add_limits()->set_resource(-1); }},
      {"limits.resource", "99", [](auto& r) { r.add_limits()->set_resource(99); }},
  };
  for (const Case& bad : cases) {
    v1::SubmitJobRequest request = GoodSubmit();
    bad.spoil(request);
    ExpectInvalid(ToSubmit(request).status(), bad.field, bad.text);
  }
}

TEST(ToSubmitTest, TermsAreTakenOver) {
  v1::SubmitJobRequest request = GoodSubmit();
  v1::Terms& terms = *request.mutable_terms();
  terms.set_group("gpu");
  terms.set_profile("llama");
  terms.add_after(3);
  terms.add_after(1);
  terms.set_begin_time_ns(1'800'000'000'000'000'001);
  terms.set_held(true);
  const auto submit = ToSubmit(request);
  ASSERT_TRUE(submit.ok()) << submit.status();
  EXPECT_EQ(submit->terms.group, "gpu");
  EXPECT_EQ(submit->terms.profile, "llama");
  EXPECT_THAT(submit->terms.after, ElementsAre(core::JobId{3}, core::JobId{1}));
  EXPECT_EQ(submit->terms.begin_time, absl::FromUnixNanos(1'800'000'000'000'000'001));
  EXPECT_TRUE(submit->terms.held);
  const auto plain = ToSubmit(GoodSubmit());
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->terms.group, "");
  EXPECT_THAT(plain->terms.after, IsEmpty());
  EXPECT_FALSE(plain->terms.begin_time || plain->terms.held);
}

TEST(ToSubmitTest, TheProfileIsTheNameThatWasGivenAndNotThatOfTheCommand) {
  v1::SubmitJobRequest request = GoodSubmit();
  EXPECT_EQ(ToSubmit(request)->terms.profile, "");
  request.set_name("night run");
  EXPECT_EQ(ToSubmit(request)->terms.profile, "night run");
  request.mutable_terms()->set_profile("llama");
  EXPECT_EQ(ToSubmit(request)->terms.profile, "llama");
}

TEST(ToSubmitTest, EachBadTermIsNamed) {
  struct Case {
    const char* field;
    const char* text;
    std::function<void(v1::Terms&)> spoil;
  };
  const std::vector<Case> cases = {
      {"terms.group", "257 bytes", [](auto& t) { t.set_group(std::string(257, 'g')); }},
      {"terms.group", "control", [](auto& t) { t.set_group("a\tb"); }},
      {"terms.profile", "300 bytes", [](auto& t) { t.set_profile(std::string(300, 'p')); }},
      {"terms.profile", "control", [](auto& t) { t.set_profile("\x7F"); }},
      {"terms.after", "0 is not a job id", [](auto& t) { t.add_after(0); }},
      {"terms.after", "-3 is not a job id",
       [](auto& t) {
         t.add_after(1);
         t.add_after(-3);
       }},
  };
  for (const Case& bad : cases) {
    v1::SubmitJobRequest submit = GoodSubmit();
    bad.spoil(*submit.mutable_terms());
    ExpectInvalid(ToSubmit(submit).status(), bad.field, bad.text);
    v1::GuardRequest guard = GoodGuard();
    bad.spoil(*guard.mutable_terms());
    ExpectInvalid(ToGuard(guard).status(), bad.field, bad.text);
  }
}

TEST(ToSubmitTest, ArgumentsAndEnvironmentMayTakeTwoMebibytesTogetherAndNoByteMore) {
  v1::SubmitJobRequest request;
  request.set_working_directory("/");
  request.add_arguments("sh");                                     // 3 bytes with its NUL
  request.add_environment("A=" + std::string(kMaxSpec - 6, 'x'));  // the rest
  EXPECT_TRUE(ToSubmit(request).ok()) << ToSubmit(request).status();
  request.set_arguments(0, "bash");
  ExpectInvalid(ToSubmit(request).status(), "arguments", "2097154 bytes, the limit is 2097152");
}

TEST(ToSubmitTest, ABadVariableIsShownShortAndReadable) {
  v1::SubmitJobRequest request = GoodSubmit();
  request.add_environment("\xFF" + std::string(100'000, 'x'));
  const absl::Status status = ToSubmit(request).status();
  ExpectInvalid(status, "environment", "\xEF\xBF\xBDxxx");
  EXPECT_LT(status.message().size(), 200u);
}

// ---- The other requests ----

TEST(ToGuardTest, PidAndCommandMustBeThere) {
  const auto guard = ToGuard(GoodGuard());
  ASSERT_TRUE(guard.ok()) << guard.status();
  EXPECT_EQ(guard->pid, 42);
  EXPECT_EQ(guard->name, "make");
  EXPECT_EQ(guard->command, "make");
  for (const int pid : {0, -1}) {
    v1::GuardRequest request = GoodGuard();
    request.set_pid(pid);
    ExpectInvalid(ToGuard(request).status(), "pid", std::to_string(pid));
  }
  v1::GuardRequest request = GoodGuard();
  request.clear_arguments();
  ExpectInvalid(ToGuard(request).status(), "arguments", "empty");
}

TEST(ToGuardTest, HasTermsLikeAJobButCannotBeHeld) {
  v1::GuardRequest request = GoodGuard();
  request.set_name("n");
  request.mutable_terms()->set_group("gpu");
  request.mutable_terms()->add_after(9);
  const auto guard = ToGuard(request);
  ASSERT_TRUE(guard.ok()) << guard.status();
  EXPECT_EQ(guard->terms.group, "gpu");
  EXPECT_EQ(guard->terms.profile, "n");
  EXPECT_THAT(guard->terms.after, ElementsAre(core::JobId{9}));
  request.mutable_terms()->set_held(true);
  ExpectInvalid(ToGuard(request).status(), "terms.held", "cannot be held");
}

TEST(ToOutcomeTest, ACommandExitsOrIsSignalledAndNotBothAndNotNeither) {
  v1::ReportExitRequest request;
  ExpectInvalid(ToOutcome(request).status(), "exit_code", "exactly one");
  request.set_exit_code(127);
  request.set_start_errno(2);
  const auto failed = ToOutcome(request);
  ASSERT_TRUE(failed.ok()) << failed.status();
  EXPECT_EQ(failed->exit_code, 127);
  EXPECT_EQ(failed->start_errno, 2);
  EXPECT_FALSE(failed->signal);
  request.set_signal(9);
  ExpectInvalid(ToOutcome(request).status(), "exit_code", "exactly one");
  request.clear_exit_code();
  ExpectInvalid(ToOutcome(request).status(), "start_errno", "exit_code");
  request.clear_start_errno();
  EXPECT_EQ(ToOutcome(request)->signal, 9);
}

TEST(ToOutcomeTest, WhatNoProcessCanEndWithIsRefused) {
  for (const int code : {-1, 256}) {
    v1::ReportExitRequest request;
    request.set_exit_code(code);
    ExpectInvalid(ToOutcome(request).status(), "exit_code", std::to_string(code));
  }
  for (const int signal : {0, -9, 128}) {
    v1::ReportExitRequest request;
    request.set_signal(signal);
    ExpectInvalid(ToOutcome(request).status(), "signal", std::to_string(signal));
  }
  v1::ReportExitRequest request;
  request.set_exit_code(127);
  request.set_start_errno(0);
  ExpectInvalid(ToOutcome(request).status(), "start_errno", "above 0");
}

TEST(ToListQueryTest, PagesAreOfAHundredUnlessSaid) {
  const auto first = ToListQuery(v1::ListJobsRequest());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->limit, 100);
  EXPECT_FALSE(first->before);
  EXPECT_THAT(first->states, IsEmpty());
  v1::ListJobsRequest request;
  request.set_page_size(1000);
  request.set_page_token("17");
  request.add_states(v1::JOB_STATE_PENDING);
  request.add_states(v1::JOB_STATE_UNKNOWN);
  const auto next = ToListQuery(request);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->limit, 1000);
  EXPECT_EQ(next->before, core::JobId{17});
  EXPECT_THAT(next->states, ElementsAre(core::JobState::kPending, core::JobState::kUnknown));
}

TEST(ToListQueryTest, BadSizesTokensAndStatesAreRefused) {
  for (const int size : {-1, 1001}) {
    v1::ListJobsRequest request;
    request.set_page_size(size);
    ExpectInvalid(ToListQuery(request).status(), "page_size", std::to_string(size));
  }
  for (const char* token : {"x", "-1", "0", "1x", " 1", "99999999999999999999"}) {
    v1::ListJobsRequest request;
    request.set_page_token(token);
    ExpectInvalid(ToListQuery(request).status(), "page_token", "ListJobs");
  }
  for (const int state : {0, 13}) {
    v1::ListJobsRequest request;
    request.add_states(static_cast<v1::JobState>(state));
    ExpectInvalid(ToListQuery(request).status(), "states", std::to_string(state));
  }
}

TEST(ToJobIdTest, IdsStartAtOne) {
  EXPECT_EQ(*ToJobId(1), core::JobId{1});
  ExpectInvalid(ToJobId(0).status(), "id", "0 is not");
  ExpectInvalid(ToJobId(-3).status(), "id", "-3 is not");
}

// ---- Answers ----

engine::JobView SomeJob() {
  engine::JobView job;
  job.record.id = core::JobId{7};
  job.record.name = "caf\xE9";  // Latin-1, as a file name may be
  job.record.command = "caf\xE9 --all";
  job.record.submit_time = absl::FromUnixSeconds(1'000'000);
  return job;
}

TEST(ToProtoTest, WhatAJobDoesNotHaveStaysAbsent) {
  const v1::Job job = ToProto(SomeJob());
  EXPECT_EQ(job.id(), 7);
  EXPECT_EQ(job.kind(), v1::JOB_KIND_JOB);
  EXPECT_EQ(job.state(), v1::JOB_STATE_PENDING);
  EXPECT_EQ(job.reason(), v1::REASON_UNSPECIFIED);
  EXPECT_EQ(job.submit_time_ns(), 1'000'000'000'000'000);
  EXPECT_FALSE(job.has_exit_code() || job.has_signal() || job.has_start_time_ns() ||
               job.has_end_time_ns() || job.has_pid() || job.has_footprint_bytes() ||
               job.has_peak_footprint_bytes());
  EXPECT_FALSE(job.policy().has_memory_bytes() || job.policy().has_swap_limit_bytes() ||
               job.policy().has_start_timeout_ns());
  EXPECT_EQ(job.policy().swap_budget_bytes(), GiB(8).count());
  EXPECT_FALSE(job.policy().has_time_limit_ns() || job.policy().has_quiet_for_ns() ||
               job.policy().memory_auto());
  EXPECT_FALSE(job.has_begin_time_ns() || job.has_true_peak_bytes() || job.held());
  EXPECT_EQ(job.after_size(), 0);
}

TEST(ToProtoTest, AJobShowsItsTermsAndEveryDefault) {
  engine::JobView view = SomeJob();
  view.record.policy.memory_auto = true;
  view.record.policy.time_limit = absl::Seconds(90);
  view.record.policy.busy = {"ollama", "caf\xE9"};
  view.record.group = "gpu";
  view.record.profile = "llama";
  view.record.after = {core::JobId{3}, core::JobId{4}};
  view.record.begin_time = absl::FromUnixNanos(1'800'000'000'000'000'001);
  view.record.true_peak = Bytes(0);
  const v1::Job job = ToProto(view);
  EXPECT_TRUE(job.policy().memory_auto());
  EXPECT_EQ(job.policy().time_limit_ns(), 90'000'000'000);
  EXPECT_EQ(job.policy().charge_mode(), v1::CHARGE_MODE_SYSTEM);
  EXPECT_EQ(job.policy().on_over_budget(), v1::OVER_BUDGET_STOP);
  EXPECT_THAT(job.policy().busy_patterns(), ElementsAre("ollama", "caf\xEF\xBF\xBD"));
  EXPECT_EQ(job.policy().quiet_for_ns(), 60'000'000'000);
  EXPECT_EQ(job.group(), "gpu");
  EXPECT_EQ(job.profile(), "llama");
  EXPECT_THAT(job.after(), ElementsAre(3, 4));
  EXPECT_EQ(job.begin_time_ns(), 1'800'000'000'000'000'001);
  EXPECT_TRUE(job.has_true_peak_bytes()) << "0 is a size";
}

TEST(ToProtoTest, AJobIsHeldOnlyWhileItWaits) {
  engine::JobView view = SomeJob();
  view.record.held = true;
  EXPECT_TRUE(ToProto(view).held());
  view.record.state = core::JobState::kCancelled;
  EXPECT_FALSE(ToProto(view).held());
}

TEST(ToProtoTest, ACommandThatIsNotUtf8CanStillBeRead) {
  const v1::Job job = ToProto(SomeJob());
  EXPECT_EQ(job.name(), "caf\xEF\xBF\xBD");
  v1::Job back;
  EXPECT_TRUE(back.ParseFromString(job.SerializeAsString()));
  EXPECT_EQ(back.command(), "caf\xEF\xBF\xBD --all");
}

TEST(ToProtoTest, APendingJobSaysWhatItWaitsFor) {
  engine::JobView view = SomeJob();
  view.queue_position = 3;
  view.blockers = {{core::BlockerKind::kMemory, 9e9, 13e9, "needs 13 GB"},
                   {core::BlockerKind::kStale, 2, 1.5, "2 s old"},
                   {core::BlockerKind::kBusy, 3, 60, "quiet", absl::Seconds(57)}};
  const v1::Job job = ToProto(view);
  EXPECT_EQ(job.queue_position(), 3);
  ASSERT_EQ(job.blockers_size(), 3);
  EXPECT_EQ(job.blockers(0).kind(), v1::BLOCKER_KIND_MEMORY);
  EXPECT_EQ(job.blockers(0).read(), 9e9);
  EXPECT_EQ(job.blockers(0).needed(), 13e9);
  EXPECT_EQ(job.blockers(0).text(), "needs 13 GB");
  EXPECT_FALSE(job.blockers(0).has_ends_in_ns());
  EXPECT_EQ(job.blockers(1).kind(), v1::BLOCKER_KIND_STALE);
  EXPECT_EQ(job.blockers(2).ends_in_ns(), 57'000'000'000);
}

TEST(ToProtoTest, EveryBlockerHasItsWordOnTheWire) {
  // In the order of the core, whose first and last these are.
  for (int kind = static_cast<int>(core::BlockerKind::kLevel);
       kind <= static_cast<int>(core::BlockerKind::kOrder); ++kind) {
    engine::JobView view = SomeJob();
    view.blockers = {{static_cast<core::BlockerKind>(kind), 0, 0, ""}};
    EXPECT_EQ(std::string("BLOCKER_KIND_") + core::Name(view.blockers[0].kind),
              std::string(v1::BlockerKind_Name(ToProto(view).blockers(0).kind())));
  }
}

TEST(ToProtoTest, APidIsShownOnlyWhileItIsTheJobs) {
  engine::JobView view = SomeJob();
  view.record.root = core::ProcessIdentity{4710, 1};  // a job's is its shim
  view.pid = 4711;
  view.record.state = core::JobState::kStopping;
  EXPECT_EQ(ToProto(view).pid(), 4711);
  view.pid.reset();
  view.record.state = core::JobState::kFailed;
  view.record.outcome.exit_code = 0;
  view.record.peak_footprint = Bytes(0);
  const v1::Job ended = ToProto(view);
  EXPECT_FALSE(ended.has_pid());
  EXPECT_TRUE(ended.has_exit_code()) << "0 is a code";
  EXPECT_TRUE(ended.has_peak_footprint_bytes()) << "0 is a size";
}

TEST(ToProtoTest, WhatTheCommandUsedIsToldOnceItIsKnown) {
  engine::JobView view = SomeJob();
  EXPECT_FALSE(ToProto(view).has_resource_use());
  EXPECT_FALSE(ToProto(view).has_log_dropped_bytes());
  view.result.emplace();
  view.result->user_time = absl::Seconds(2);
  view.result->system_time = absl::Milliseconds(3);
  view.result->max_rss = MiB(4);
  const v1::Job job = ToProto(view);
  EXPECT_EQ(job.resource_use().user_time_ns(), 2'000'000'000);
  EXPECT_EQ(job.resource_use().system_time_ns(), 3'000'000);
  EXPECT_EQ(job.resource_use().max_rss_bytes(), MiB(4).count());
  EXPECT_TRUE(job.has_log_dropped_bytes()) << "0 is told: nothing was dropped";
}

TEST(ToProtoTest, EveryStateAndReasonHasItsWordOnTheWire) {
  for (int state = 1; state <= 12; ++state) {
    engine::JobView view = SomeJob();
    view.record.state = static_cast<core::JobState>(state);
    EXPECT_EQ(std::string("JOB_STATE_") + core::Name(view.record.state),
              std::string(v1::JobState_Name(ToProto(view).state())));
  }
  for (int reason = 1; reason <= static_cast<int>(core::Reason::kSuspendAsked); ++reason) {
    engine::JobView view = SomeJob();
    view.record.reason = static_cast<core::Reason>(reason);
    EXPECT_EQ(std::string("REASON_") + core::Name(view.record.reason),
              std::string(v1::Reason_Name(ToProto(view).reason())));
  }
}

TEST(ToProtoTest, APageNamesTheNext) {
  engine::JobPage page;
  page.jobs = {SomeJob(), SomeJob()};
  EXPECT_EQ(ToProto(page).jobs_size(), 2);
  EXPECT_THAT(std::string(ToProto(page).next_page_token()), IsEmpty());
  page.next = core::JobId{12};
  v1::ListJobsRequest request;
  request.set_page_token(ToProto(page).next_page_token());
  EXPECT_EQ(ToListQuery(request)->before, core::JobId{12});
}

telemetry::Frame SomeFrame() {
  telemetry::Frame frame;
  frame.sequence = 5;
  frame.time.wall = absl::FromUnixSeconds(9);
  frame.time.awake = absl::Milliseconds(1500);
  frame.interval = absl::Milliseconds(500);
  frame.host.level = Percent{40.5};
  frame.host.pressure = core::Pressure::kNormal;
  frame.host.swapped_in_total = MiB(3);
  frame.host.swapped_out_total = Bytes(0);
  frame.host.gpu_wired_limit = GiB(40);
  frame.pending = 2;
  frame.active = 1;
  telemetry::ClientFrame client;
  client.job = core::JobId{3};
  client.charge = Bytes(-4096);
  client.processes = 2;
  frame.clients = {client};
  frame.events = {{"admitted", core::JobId{3}, "room", absl::FromUnixSeconds(8)},
                  {"gap", std::nullopt, "", absl::FromUnixSeconds(8)}};
  frame.reserved = GiB(1);
  return frame;
}

TEST(ToProtoTest, AFrameKeepsWhatWasReadAndOmitsTheRest) {
  const v1::Frame frame = ToProto(SomeFrame());
  EXPECT_EQ(frame.sequence(), 5);
  EXPECT_EQ(frame.time_ns(), 9'000'000'000);
  EXPECT_EQ(frame.awake_ns(), 1'500'000'000);
  EXPECT_EQ(frame.interval_ns(), 500'000'000);
  EXPECT_EQ(frame.host().level_percent(), 40.5);
  EXPECT_EQ(frame.host().pressure(), v1::PRESSURE_NORMAL);
  EXPECT_EQ(frame.host().swapped_in_bytes(), MiB(3).count());
  EXPECT_TRUE(frame.host().has_swapped_out_bytes()) << "0 is a reading";
  EXPECT_EQ(frame.host().swapped_out_bytes(), 0);
  EXPECT_EQ(frame.host().gpu_wired_limit_bytes(), GiB(40).count());
  EXPECT_FALSE(frame.host().has_available_bytes() || frame.host().has_swap_used_bytes());
  telemetry::Frame unread = SomeFrame();
  unread.host = {};
  EXPECT_EQ(ToProto(unread).host().ByteSizeLong(), 0u);
  ASSERT_EQ(frame.clients_size(), 1);
  EXPECT_EQ(frame.clients(0).charge_bytes(), -4096);
  EXPECT_FALSE(frame.clients(0).has_footprint_bytes());
  ASSERT_EQ(frame.events_size(), 2);
  EXPECT_EQ(frame.events(0).job_id(), 3);
  EXPECT_EQ(frame.events(1).job_id(), 0);
  EXPECT_EQ(frame.reserved_bytes(), GiB(1).count());
}

TEST(EncodeFrameTest, TheSameBytesAreBothAnswersAndTheirBeginningIsTheEvents) {
  const telemetry::Encoded encoded = EncodeFrame(SomeFrame());
  v1::GetSnapshotResponse snapshot;
  v1::WatchTelemetryResponse watched;
  ASSERT_TRUE(snapshot.ParseFromString(encoded.bytes));
  ASSERT_TRUE(watched.ParseFromString(encoded.bytes));
  EXPECT_EQ(snapshot.frame().SerializeAsString(), ToProto(SomeFrame()).SerializeAsString());
  EXPECT_EQ(watched.frame().SerializeAsString(), ToProto(SomeFrame()).SerializeAsString());
  EXPECT_EQ(watched.dropped(), 0);

  v1::WatchTelemetryResponse events;
  ASSERT_TRUE(events.ParseFromString(encoded.bytes.substr(0, encoded.events_size)));
  v1::Frame expected;
  *expected.mutable_events() = ToProto(SomeFrame()).events();
  EXPECT_EQ(events.frame().SerializeAsString(), expected.SerializeAsString());

  telemetry::Frame quiet = SomeFrame();
  quiet.events.clear();
  EXPECT_EQ(EncodeFrame(quiet).events_size, 0u);
}

TEST(EncodeFrameTest, OfMoreEventsThanAClientTakesTheNewestComeAndItIsSaid) {
  telemetry::Frame frame = SomeFrame();
  frame.events.clear();
  for (int i = 0; i < 50'000; ++i) {
    frame.events.push_back(
        {"submitted", core::JobId{i + 1}, std::string(80, 'x'), frame.time.wall});
  }
  const telemetry::Encoded encoded = EncodeFrame(frame);
  EXPECT_LE(encoded.bytes.size(), std::size_t{2} << 20);
  v1::GetSnapshotResponse snapshot;
  ASSERT_TRUE(snapshot.ParseFromString(encoded.bytes));
  const v1::Frame& read = snapshot.frame();
  EXPECT_GT(read.events_size(), 5'000);
  EXPECT_EQ(std::string(read.events(0).kind()), "events_left_out");
  EXPECT_EQ(read.events(0).time_ns(), absl::ToUnixNanos(frame.time.wall));
  EXPECT_EQ(read.events(1).job_id(), 50'000 - (read.events_size() - 2));
  EXPECT_EQ(read.events(read.events_size() - 1).job_id(), 50'000);
}

}  // namespace
}  // namespace stageload::rpc
