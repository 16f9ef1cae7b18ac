// The API over a hub that the test publishes to; there is no engine.
#ifndef STAGELOAD_TESTS_DAEMON_RPC_HUB_FIXTURE_H_
#define STAGELOAD_TESTS_DAEMON_RPC_HUB_FIXTURE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"
#include "tests/daemon/rpc/api_fixture.h"

namespace stageload::rpc {

using Reader = std::unique_ptr<grpc::ClientReader<v1::WatchTelemetryResponse>>;

class HubFixture : public testing::Test {
 protected:
  HubFixture() : api_(MakeParts()), channel_(api_.Connect()) {}

  Parts MakeParts() {
    Parts parts;
    parts.hub = &hub_;
    parts.on_shutdown = [this] { ++shutdowns_; };
    parts.state_directory = "/state";
    parts.start_time = absl::FromUnixSeconds(1);
    return parts;
  }

  // Published at `awake`, with one event that is named after its number; delivered before this
  // returns. `bulk` is the size of what the frame carries besides.
  void Publish(absl::Duration awake = absl::ZeroDuration(), std::size_t bulk = 0) {
    telemetry::Frame frame;
    frame.time.awake = awake;
    frame.clients.resize(1);
    frame.clients[0].name = std::string(bulk, 'x');
    frame.events = {{"e" + std::to_string(++published_), std::nullopt, "", absl::UnixEpoch()}};
    hub_.Publish(std::move(frame));
    hub_.Deliver();
  }

  // Once this returns, the next Publish() reaches the stream.
  Reader Watch(grpc::ClientContext& context, std::int64_t min_interval_ns = 0,
               std::optional<std::int64_t> since = std::nullopt) {
    const int before = hub_.subscribers();
    v1::WatchTelemetryRequest request;
    request.set_min_interval_ns(min_interval_ns);
    if (since) request.set_since_sequence(*since);
    Reader reader = telemetry().WatchTelemetry(&context, request);
    EXPECT_TRUE(Eventually([&] { return hub_.subscribers() == before + 1; }));
    return reader;
  }
  v1::TelemetryService::Stub& telemetry() { return *telemetry_; }

  telemetry::Hub hub_{EncodeFrame};
  std::atomic<int> shutdowns_ = 0;
  int published_ = 0;
  Api api_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::TelemetryService::Stub> telemetry_ = v1::TelemetryService::NewStub(channel_);
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_TESTS_DAEMON_RPC_HUB_FIXTURE_H_
