// What registered programs send is refused field by field, and what they are told says nothing that
// is not known.
#include "daemon/rpc/convert_session.h"

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error_reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stageload::rpc {
namespace {

using ::testing::HasSubstr;

constexpr engine::Caller kCaller{3, 42};

// Each change of a good request is refused, naming the field.
template <typename Request, typename Convert>
void ExpectRefused(
    const Request& good, Convert convert,
    const std::vector<std::pair<std::string, std::function<void(Request&)>>>& changes) {
  ASSERT_TRUE(convert(good, kCaller).ok()) << convert(good, kCaller).status();
  for (const auto& [field, change] : changes) {
    Request request = good;
    change(request);
    const absl::Status status = convert(request, kCaller).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << field << ": " << status;
    EXPECT_EQ(FieldOf(status), field) << status;
  }
}

TEST(ToRegisterTest, TheCallerItselfIsRegisteredUnlessAnotherIsNamed) {
  v1::RegisterRequest request;
  EXPECT_EQ(ToRegister(request, kCaller)->pid, 42);
  EXPECT_FALSE(ToRegister(request, kCaller)->enforce);
  request.set_pid(7);
  request.set_enforce(true);
  request.mutable_policy()->set_memory_bytes(5);
  EXPECT_EQ(ToRegister(request, kCaller)->pid, 7);
  EXPECT_EQ(ToRegister(request, kCaller)->caller.connection, 3u);
  EXPECT_EQ(ToRegister(request, kCaller)->policy.memory, Bytes(5));
  EXPECT_TRUE(ToRegister(request, kCaller)->enforce);
}

TEST(ToRegisterTest, OfTheConfigsDefaultsThoseOfJobsDoNotCount) {
  core::Defaults defaults;
  defaults.policy.swap_budget = GiB(4);
  defaults.policy.swap_limit = GiB(20);
  const core::Policy counts = defaults.policy;
  defaults.policy.memory = GiB(2);
  defaults.policy.busy = {"a"};
  defaults.policy.start_timeout = absl::Hours(8);
  defaults.policy.time_limit = absl::Hours(8);
  EXPECT_EQ(ToRegister({}, kCaller, defaults)->policy, counts);
}

TEST(ToRegisterTest, WhatIsOfJobsOrCannotBeIsRefused) {
  ExpectRefused<v1::RegisterRequest>(
      {}, [](const auto& request, const auto& caller) { return ToRegister(request, caller); },
      {{"pid", [](auto& r) { r.set_pid(-1); }},
       {"name", [](auto& r) { r.set_name(std::string(257, 'x')); }},
       {"name", [](auto& r) { r.set_name("a\nb"); }},
       {"policy.memory_auto", [](auto& r) { r.mutable_policy()->set_memory_auto(true); }},
       {"policy.start_timeout_ns", [](auto& r) { r.mutable_policy()->set_start_timeout_ns(1); }},
       {"policy.busy_patterns", [](auto& r) { r.mutable_policy()->add_busy_patterns("x"); }},
       {"policy.quiet_for_ns", [](auto& r) { r.mutable_policy()->set_quiet_for_ns(1); }},
       {"policy.swap_budget_bytes",
        [](auto& r) { r.mutable_policy()->set_swap_budget_bytes(-1); }}});
}

TEST(ToAcquireTest, WhatCannotBeIsRefused) {
  v1::AcquireRequest good;
  good.set_stage("transformer");
  good.set_client_id(1);
  good.set_memory_bytes(1);
  ExpectRefused<v1::AcquireRequest>(
      good, ToAcquire,
      {{"client_id", [](auto& r) { r.set_client_id(0); }},
       {"memory_bytes", [](auto& r) { r.set_memory_bytes(0); }},
       {"memory_bytes", [](auto& r) { r.set_memory_bytes(-5); }},
       {"stage", [](auto& r) { r.set_stage(std::string(257, 'x')); }},
       {"stage", [](auto& r) { r.set_stage(""); }},
       {"start_timeout_ns", [](auto& r) { r.set_start_timeout_ns(-1); }},
       {"request_id", [](auto& r) { r.set_request_id(std::string(257, 'x')); }}});
  EXPECT_FALSE(ToAcquire(good, kCaller)->start_timeout);
  good.set_start_timeout_ns(0);
  EXPECT_EQ(ToAcquire(good, kCaller)->start_timeout, absl::ZeroDuration());
  good.set_start_timeout_ns(std::numeric_limits<std::int64_t>::max());
  EXPECT_GT(ToAcquire(good, kCaller)->start_timeout, absl::Hours(24 * 365 * 200));
}

TEST(ToReleaseTest, OneOfTwoNamesOfTheLeaseIsNeeded) {
  v1::ReleaseRequest good;
  good.set_client_id(1);
  good.set_lease_id(4);
  ExpectRefused<v1::ReleaseRequest>(good, ToRelease,
                                    {{"lease_id", [](auto& r) { r.set_lease_id(0); }},
                                     {"lease_id", [](auto& r) { r.set_request_id("x"); }},
                                     {"client_id", [](auto& r) { r.set_client_id(-1); }}});
}

TEST(ToReportTest, NamesAreWordsAndNumbersAreNumbers) {
  v1::ReportRequest good;
  good.add_gauges()->set_name("mps_driver_bytes");
  good.add_marks()->set_kind("stage");
  good.mutable_marks(0)->set_stage("decode");
  ExpectRefused<v1::ReportRequest>(
      good, ToReport,
      {{"client_id", [](auto& r) { r.set_client_id(-1); }},
       {"gauges.name", [](auto& r) { r.mutable_gauges(0)->set_name(""); }},
       {"gauges.name", [](auto& r) { r.mutable_gauges(0)->set_name("a b"); }},
       {"gauges.name", [](auto& r) { r.mutable_gauges(0)->set_name(std::string(65, 'x')); }},
       {"gauges.value", [](auto& r) { r.mutable_gauges(0)->set_value(std::nan("")); }},
       {"gauges",
        [](auto& r) {
          for (int i = 0; i < 32; ++i) *r.add_gauges() = r.gauges(0);
        }},
       {"marks.kind", [](auto& r) { r.mutable_marks(0)->set_kind(""); }},
       {"marks.kind", [](auto& r) { r.mutable_marks(0)->set_kind("<b>"); }},
       {"marks.stage", [](auto& r) { r.mutable_marks(0)->set_stage(""); }},
       {"marks.note", [](auto& r) { r.mutable_marks(0)->set_kind("mark"); }},
       {"marks.note", [](auto& r) { r.mutable_marks(0)->set_note("a\x1b[2J"); }},
       {"marks.nbytes", [](auto& r) { r.mutable_marks(0)->set_nbytes(-1); }},
       {"marks.nbytes", [](auto& r) { r.mutable_marks(0)->set_nbytes((1LL << 60) + 1); }},
       {"marks.seconds", [](auto& r) { r.mutable_marks(0)->set_seconds(-1); }},
       {"marks.seconds", [](auto& r) { r.mutable_marks(0)->set_seconds(1.1e10); }},
       {"marks.seconds", [](auto& r) { r.mutable_marks(0)->set_seconds(std::nan("")); }},
       {"marks", [](auto& r) {
          for (int i = 0; i < 100; ++i) *r.add_marks() = r.marks(0);
        }}});
}

TEST(ToRecordTest, FromTwentyMillisecondsToAnHour) {
  v1::WatchProcessRequest request;
  EXPECT_EQ(ToRecord(request, kCaller)->interval, absl::Milliseconds(500));
  request.set_interval_ns(20'000'000);
  EXPECT_EQ(ToRecord(request, kCaller)->interval, absl::Milliseconds(20));
  for (const std::int64_t wrong :
       {std::int64_t{19'999'999}, std::int64_t{-1}, absl::ToInt64Nanoseconds(absl::Hours(2))}) {
    request.set_interval_ns(wrong);
    EXPECT_EQ(FieldOf(ToRecord(request, kCaller).status()), "interval_ns");
  }
}

TEST(SessionToProtoTest, EachEventIsItsOwnCase) {
  core::HostSample host;
  host.pressure = core::Pressure::kCritical;
  const v1::RegisterResponse registered =
      ToProto(engine::SessionEvent(engine::Registered{core::JobId{7}, {}, host, true}));
  EXPECT_EQ(registered.registered().client_id(), 7);
  EXPECT_TRUE(registered.registered().joined());
  EXPECT_EQ(registered.registered().policy().swap_budget_bytes(), GiB(8).count());
  EXPECT_EQ(registered.registered().host().pressure(), v1::PRESSURE_CRITICAL);
  EXPECT_EQ(
      ToProto(engine::SessionEvent(engine::PressureChanged{host})).pressure_changed().pressure(),
      v1::PRESSURE_CRITICAL);
  const v1::RegisterResponse stop = ToProto(engine::SessionEvent(
      core::StopRequested{core::JobId{7}, core::Reason::kLowMemory, "why", absl::Seconds(5)}));
  EXPECT_EQ(stop.stop_requested().reason(), v1::REASON_LOW_MEMORY);
  EXPECT_EQ(stop.stop_requested().grace_ns(), 5'000'000'000);
  EXPECT_TRUE(ToProto(engine::SessionEvent(engine::Resumed{})).has_resumed());
  EXPECT_EQ(ToProto(engine::SessionEvent(engine::Suspended{core::Reason::kSuspendAsked, "a user"}))
                .suspended()
                .text(),
            "a user");
}

TEST(SessionToProtoTest, AReadingOmitsWhatIsNotKnown) {
  engine::RecordingUpdate update;
  EXPECT_FALSE(ToProto(update).has_sample());
  update.reading.emplace();
  update.reading->processes = 2;
  update.events = {{"load", std::nullopt, "weights", absl::UnixEpoch(),
                    telemetry::Mark{.kind = "load", .name = "weights", .nbytes = GiB(1)}}};
  const v1::WatchProcessResponse response = ToProto(update);
  EXPECT_EQ(response.sample().processes(), 2);
  EXPECT_FALSE(response.sample().has_footprint_bytes());
  EXPECT_FALSE(response.sample().has_swap_budget_bytes());
  EXPECT_EQ(response.events(0).mark().nbytes(), GiB(1).count());
  EXPECT_FALSE(response.events(0).mark().has_seconds());
}

}  // namespace
}  // namespace stageload::rpc
