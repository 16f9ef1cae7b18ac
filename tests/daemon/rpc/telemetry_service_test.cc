// What a subscriber gets and when; the history has tests of its own (history_test.cc).
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "daemon/rpc/server.h"
#include "gmock/gmock.h"
#include "tests/daemon/rpc/hub_fixture.h"

namespace stageload::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TelemetryServiceTest : public HubFixture {};

std::vector<std::string> EventsOf(const v1::WatchTelemetryResponse& response) {
  std::vector<std::string> kinds;
  for (const v1::Event& event : response.frame().events()) kinds.emplace_back(event.kind());
  return kinds;
}

TEST_F(TelemetryServiceTest, ASnapshotBeforeTheFirstSampleMayBeTriedAgain) {
  Context context;
  v1::GetSnapshotResponse response;
  const grpc::Status status = telemetry().GetSnapshot(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOnWire(status), kNoSample);
}

TEST_F(TelemetryServiceTest, ASnapshotIsTheNewestFrame) {
  Publish();
  Publish(absl::Seconds(3));
  for (int again = 0; again < 2; ++again) {  // the bytes are shared, not used up
    Context context;
    v1::GetSnapshotResponse response;
    const grpc::Status status = telemetry().GetSnapshot(&context, {}, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.frame().sequence(), 2);
    EXPECT_EQ(response.frame().awake_ns(), 3'000'000'000);
  }
}

TEST_F(TelemetryServiceTest, AWatcherGetsEachFrameFromNowOnAndNoneTwice) {
  Publish();
  Context context;
  const Reader reader = Watch(context);
  v1::WatchTelemetryResponse response;
  for (int sequence = 2; sequence <= 20; ++sequence) {
    Publish();
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.frame().sequence(), sequence);
    EXPECT_EQ(response.dropped(), 0);
    EXPECT_THAT(EventsOf(response), ElementsAre(absl::StrCat("e", sequence)));
  }
}

TEST_F(TelemetryServiceTest, AMinimumIntervalThinsTheStreamAndKeepsTheEvents) {
  Context context;
  const Reader reader = Watch(context, absl::ToInt64Nanoseconds(absl::Milliseconds(250)));
  v1::WatchTelemetryResponse response;
  Publish(absl::Milliseconds(100));
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.frame().sequence(), 1);
  for (const int ms : {200, 300, 349, 350}) Publish(absl::Milliseconds(ms));
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.frame().sequence(), 5);
  EXPECT_EQ(response.frame().awake_ns(), 350'000'000);
  EXPECT_THAT(EventsOf(response), ElementsAre("e2", "e3", "e4", "e5"));
  EXPECT_EQ(response.dropped(), 0) << "what was not asked for was not dropped";
}

TEST_F(TelemetryServiceTest, ASlowWatcherIsToldWhatItMissedAndLosesNoEvent) {
  Context context;
  const Reader reader = Watch(context);
  // Far more than the buffers between us hold, while nobody reads.
  constexpr int kFrames = 300;
  for (int i = 0; i < kFrames; ++i) Publish(absl::ZeroDuration(), 64 << 10);
  std::vector<std::string> events;
  std::int64_t dropped = 0;
  std::int64_t received = 0;
  std::int64_t last = 0;
  v1::WatchTelemetryResponse response;
  while (last < kFrames && reader->Read(&response)) {
    EXPECT_GT(response.frame().sequence(), last);
    last = response.frame().sequence();
    ++received;
    dropped += response.dropped();
    EXPECT_EQ(received + dropped, last) << "each frame came or was counted";
    for (std::string& kind : EventsOf(response)) events.push_back(std::move(kind));
  }
  EXPECT_EQ(last, kFrames) << "the newest is never the one dropped";
  EXPECT_GT(dropped, 0);
  ASSERT_EQ(events.size(), static_cast<std::size_t>(kFrames));
  for (int i = 0; i < kFrames; ++i) {
    EXPECT_EQ(events[static_cast<std::size_t>(i)], absl::StrCat("e", i + 1)) << "in order";
  }
}

TEST_F(TelemetryServiceTest, AWatcherThatDoesNotReadHoldsUpNobody) {
  Context stuck_context;
  const Reader stuck = Watch(stuck_context);
  const std::shared_ptr<grpc::Channel> other = api_.Connect();
  const auto stub = v1::TelemetryService::NewStub(other);
  Context context;
  const Reader reader = stub->WatchTelemetry(&context, {});
  ASSERT_TRUE(Eventually([&] { return hub_.subscribers() == 2; }));
  v1::WatchTelemetryResponse response;
  for (int sequence = 1; sequence <= 100; ++sequence) {
    Publish(absl::ZeroDuration(), 64 << 10);
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.frame().sequence(), sequence);
  }
}

TEST_F(TelemetryServiceTest, AWatcherThatLeavesIsForgotten) {
  {
    Context context;
    const Reader reader = Watch(context);
    Publish();
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(Eventually([&] { return hub_.subscribers() == 0; }));
}

TEST_F(TelemetryServiceTest, ANegativeIntervalIsRefusedByName) {
  Context context;
  v1::WatchTelemetryRequest request;
  request.set_min_interval_ns(-5);
  const Reader reader = telemetry().WatchTelemetry(&context, request);
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(std::string(ErrorInfoOf(status).metadata().at("field")), "min_interval_ns");
  EXPECT_EQ(hub_.subscribers(), 0);
}

// ---- Replay ----

TEST_F(TelemetryServiceTest, AReplayBeginsAfterTheNamedFrameAndGoesOnLive) {
  for (int i = 1; i <= 10; ++i) Publish(absl::Seconds(i));
  Context context;
  const Reader reader = Watch(context, 0, 4);
  v1::WatchTelemetryResponse response;
  for (int sequence = 5; sequence <= 14; ++sequence) {
    if (sequence > 10) Publish(absl::Seconds(sequence));
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.frame().sequence(), sequence);
    EXPECT_EQ(response.dropped(), 0);
    EXPECT_THAT(EventsOf(response), ElementsAre(absl::StrCat("e", sequence)));
  }
}

TEST_F(TelemetryServiceTest, ZeroAndWhatAnEarlierDaemonCountedMeanAllThatIsKept) {
  for (int i = 1; i <= 3; ++i) Publish(absl::Seconds(i));
  Publish(absl::Hours(1) + absl::Seconds(1));  // the first is an hour old
  for (const std::int64_t since : {0, 5, 1'000'000}) {
    Context context;
    const Reader reader = Watch(context, 0, since);
    v1::WatchTelemetryResponse response;
    for (int sequence = 2; sequence <= 4; ++sequence) {
      ASSERT_TRUE(reader->Read(&response));
      EXPECT_EQ(response.frame().sequence(), sequence) << since;
      EXPECT_EQ(response.dropped(), 0) << since;
      EXPECT_THAT(EventsOf(response), ElementsAre(absl::StrCat("e", sequence)));
    }
    context.TryCancel();
    (void)reader->Finish();
    ASSERT_TRUE(Eventually([&] { return hub_.subscribers() == 0; }));
  }
}

TEST_F(TelemetryServiceTest, TheNewestFrameAsTheBeginningMeansOnlyNewOnes) {
  Publish();
  Publish();
  Context context;
  const Reader reader = Watch(context, 0, 2);
  Publish();
  v1::WatchTelemetryResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.frame().sequence(), 3);
  EXPECT_EQ(response.dropped(), 0);
}

TEST_F(TelemetryServiceTest, AReplayBeforeTheFirstFrameBeginsWithIt) {
  Context context;
  const Reader reader = Watch(context, 0, 0);
  v1::WatchTelemetryResponse response;
  for (int sequence = 1; sequence <= 2; ++sequence) {
    Publish();
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.frame().sequence(), sequence);
    EXPECT_EQ(response.dropped(), 0);
  }
}

TEST_F(TelemetryServiceTest, FramesThatAreNotKeptAnyMoreAreCountedInTheFirstAnswer) {
  for (int i = 1; i <= 5; ++i) Publish(absl::Seconds(i));
  Publish(absl::Hours(1) + absl::Seconds(4));  // forgets 1 to 4
  Context context;
  const Reader reader = Watch(context, 0, 2);
  v1::WatchTelemetryResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.frame().sequence(), 5);
  EXPECT_EQ(response.dropped(), 2) << "3 and 4";
  EXPECT_THAT(EventsOf(response), ElementsAre("events_left_out", "e5"));
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.frame().sequence(), 6);
  EXPECT_EQ(response.dropped(), 0);
}

TEST_F(TelemetryServiceTest, AReplayIsThinnedAsTheStreamIsAndKeepsTheEvents) {
  for (int i = 1; i <= 11; ++i) Publish(absl::Seconds(i));
  Context context;
  const Reader reader = Watch(context, absl::ToInt64Nanoseconds(absl::Seconds(4)), 0);
  v1::WatchTelemetryResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.frame().sequence(), 1);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.frame().sequence(), 5);
  EXPECT_EQ(response.dropped(), 0);
  EXPECT_THAT(EventsOf(response), ElementsAre("e2", "e3", "e4", "e5"));
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.frame().sequence(), 9);
  for (const int second : {12, 13}) Publish(absl::Seconds(second));
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.frame().awake_ns(), 13'000'000'000);
  EXPECT_EQ(response.dropped(), 0) << "what was not asked for was not dropped";
  EXPECT_THAT(EventsOf(response), ElementsAre("e10", "e11", "e12", "e13"));
}

// Publishes and delivers from threads of their own, without a pause, until it goes.
class Publishing {
 public:
  explicit Publishing(telemetry::Hub& hub)
      : hub_(hub), delivery_([this] { hub_.Run(); }), publisher_([this] { Publish(); }) {}
  ~Publishing() {
    over_ = true;
    publisher_.join();
    hub_.Stop();
    delivery_.join();
  }

 private:
  void Publish() {
    for (int i = 1; !over_; ++i) {
      telemetry::Frame frame;
      frame.time.awake = absl::Milliseconds(i);
      frame.events = {{absl::StrCat("e", i), std::nullopt, "", absl::UnixEpoch()}};
      hub_.Publish(std::move(frame));
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  telemetry::Hub& hub_;
  std::atomic<bool> over_ = false;
  std::thread delivery_, publisher_;
};

TEST_F(TelemetryServiceTest, TheSeamBetweenReplayAndLiveHasNoGapAndNothingTwice) {
  const Publishing publishing(hub_);
  for (int round = 0; round < 20; ++round) {
    const std::int64_t since = 1 + 5 * round;
    const auto newest = [&] { return hub_.Newest() ? hub_.Newest()->sequence : 0; };
    ASSERT_TRUE(Eventually([&] { return newest() > since + 200; }));
    const std::int64_t kept = newest();
    Context context;
    v1::WatchTelemetryRequest request;
    request.set_since_sequence(since);
    const Reader reader = telemetry().WatchTelemetry(&context, request);
    std::int64_t last = since;
    std::int64_t event = since;
    v1::WatchTelemetryResponse response;
    for (int i = 0; i < 1000 && reader->Read(&response); ++i) {
      ASSERT_TRUE(last >= kept || response.dropped() == 0);
      ASSERT_EQ(response.frame().sequence(), last + response.dropped() + 1);
      last = response.frame().sequence();
      for (const std::string& kind : EventsOf(response)) {
        ASSERT_EQ(kind, absl::StrCat("e", ++event));
      }
      ASSERT_EQ(event, last) << "each event once";
    }
    EXPECT_GT(last, since + 999);
    context.TryCancel();
    (void)reader->Finish();
  }
}

TEST_F(TelemetryServiceTest, WhatTheReplayTookBeforeItsDeliveryDoesNotComeTwice) {
  for (int i = 0; i < 64; ++i) Publish(absl::ZeroDuration(), 64 << 10);
  Context context;
  const Reader reader = Watch(context, 0, 0);
  hub_.Publish({});  // while the replay waits for its reader
  v1::WatchTelemetryResponse response;
  for (int sequence = 1; sequence <= 65; ++sequence) {
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.frame().sequence(), sequence);
  }
  hub_.Deliver();
  Publish();
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.frame().sequence(), 66);
  EXPECT_EQ(response.dropped(), 0);
}

TEST_F(TelemetryServiceTest, AReplayIsReadAtTheReadersPaceWithoutACopyOfTheRing) {
  // 16 MiB are kept; a reader that does not read gets what fits into the buffers between us, and
  // the rest is there when it does.
  constexpr int kFrames = 256;
  for (int i = 0; i < kFrames; ++i) Publish(absl::ZeroDuration(), 64 << 10);
  const std::shared_ptr<const telemetry::Published> middle = hub_.At(kFrames / 2);
  ASSERT_EQ(middle.use_count(), 2) << "the ring's and ours";
  Context context;
  const Reader reader = Watch(context, 0, 0);
  for (int i = 0; i < 10; ++i) Publish(absl::ZeroDuration(), 64 << 10);
  EXPECT_EQ(middle.use_count(), 2) << "the subscriber holds none of what it has not come to";
  v1::WatchTelemetryResponse response;
  for (int sequence = 1; sequence <= kFrames + 10; ++sequence) {
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.frame().sequence(), sequence) << "a replay is not thinned by slowness";
    EXPECT_EQ(response.dropped(), 0);
  }
}

TEST_F(TelemetryServiceTest, AReplayThatIsOvertakenByTheForgettingGoesOnWithWhatIsLeft) {
  for (int i = 1; i <= 100; ++i) Publish(absl::Seconds(i), 64 << 10);
  Context context;
  const Reader reader = Watch(context, 0, 0);
  for (int i = 0; i < 2; ++i) Publish(absl::Hours(5) + absl::Seconds(i));
  std::int64_t received = 0;
  std::int64_t dropped = 0;
  v1::WatchTelemetryResponse response;
  while (response.frame().sequence() < 102 && reader->Read(&response)) {
    ++received;
    dropped += response.dropped();
    EXPECT_EQ(received + dropped, response.frame().sequence());
  }
  EXPECT_GT(dropped, 10);
  EXPECT_EQ(response.frame().sequence(), 102);
}

TEST_F(TelemetryServiceTest, EventsThatAreTooManyToCarryAreLeftOutAndItIsSaid) {
  Context context;
  const Reader reader = Watch(context, absl::ToInt64Nanoseconds(absl::Seconds(100)));
  Publish(absl::Seconds(1));
  v1::WatchTelemetryResponse response;
  ASSERT_TRUE(reader->Read(&response));
  for (int i = 2; i <= 5; ++i) {
    telemetry::Frame frame;
    frame.time.awake = absl::Seconds(i);
    frame.events = {{absl::StrCat("e", i), std::nullopt, std::string(400 << 10, 'x'), {}}};
    hub_.Publish(std::move(frame));
  }
  Publish(absl::Seconds(101));
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_THAT(EventsOf(response), ElementsAre("events_left_out", "e4", "e5", "e2"))
      << "the newest that fit, then the frame's own";
  EXPECT_EQ(response.frame().sequence(), 6);
}

TEST_F(TelemetryServiceTest, ANegativeBeginningIsRefusedByName) {
  Context context;
  v1::WatchTelemetryRequest request;
  request.set_since_sequence(-1);
  const grpc::Status status = telemetry().WatchTelemetry(&context, request)->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(std::string(ErrorInfoOf(status).metadata().at("field")), "since_sequence");
}

TEST_F(TelemetryServiceTest, TheThousandAndFirstSubscriberIsRefusedWithTheLimit) {
  std::vector<std::unique_ptr<telemetry::Hub::Subscription>> others;
  for (int i = 0; i < telemetry::kMaxSubscribers; ++i) {
    others.push_back(*hub_.Subscribe([](const auto&) {}));
  }
  Context context;
  const grpc::Status status = telemetry().WatchTelemetry(&context, {})->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOnWire(status), kTooManySubscribers);
  EXPECT_THAT(status.error_message(), HasSubstr("the limit is 1000"));
  others.pop_back();
  Context next_context;
  const Reader reader = Watch(next_context);
  Publish();
  v1::WatchTelemetryResponse response;
  EXPECT_TRUE(reader->Read(&response));
}

}  // namespace
}  // namespace stageload::rpc
