// Watch against a daemon that the test plays.
#include "stageload/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/client/ctl/fake_daemon.h"
#include "tests/client/lib/scripted_daemon.h"

namespace stageload::client {
namespace {

using ::testing::ElementsAre;
using Writer = grpc::ServerWriter<v1::WatchTelemetryResponse>;

class WatchTest : public ::testing::Test {
 protected:
  WatchTest() {
    daemon_.on_watch = [this](const v1::WatchTelemetryRequest& request,
                              grpc::ServerContext& context, Writer& writer) {
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      for (const v1::WatchTelemetryResponse& frame : frames_) writer.Write(frame);
      if (!answer_.ok()) return answer_;
      EXPECT_TRUE(Eventually([&] { return context.IsCancelled(); }));
      return grpc::Status::OK;
    };
  }

  WatchOptions Options() const {
    WatchOptions options;
    options.socket = daemon_.socket();
    options.autostart = false;
    return options;
  }
  std::function<void(const Frame&)> Collect() {
    return [this](const Frame& frame) {
      const std::lock_guard lock(mutex_);
      seen_.push_back(frame);
    };
  }
  std::vector<Frame> Seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  std::vector<v1::WatchTelemetryRequest> Requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  static v1::WatchTelemetryResponse FrameOf(std::int64_t sequence) {
    v1::WatchTelemetryResponse response;
    response.mutable_frame()->set_sequence(sequence);
    return response;
  }

  std::mutex mutex_;
  std::vector<Frame> seen_;
  std::vector<v1::WatchTelemetryRequest> requests_;
  std::vector<v1::WatchTelemetryResponse> frames_;
  grpc::Status answer_;
  ScriptedDaemon daemon_;
};

TEST_F(WatchTest, AFrameHasAllThatTheDaemonTells) {
  v1::WatchTelemetryResponse response = FrameOf(12);
  response.set_dropped(3);
  v1::Frame& frame = *response.mutable_frame();
  frame.set_time_ns(1'700'000'000'000'000'001);
  frame.set_awake_ns(5);
  frame.mutable_host()->set_level_percent(63);
  frame.mutable_host()->set_pressure(v1::PRESSURE_WARN);
  frame.mutable_host()->set_gpu_wired_limit_bytes(40);
  frame.set_pending(2);
  frame.set_reserved_bytes(99);
  frame.set_queue_held("a user holds it");
  v1::ClientSample& client = *frame.add_clients();
  client.set_job_id(7);
  client.set_kind(v1::JOB_KIND_SESSION);
  client.set_state(v1::JOB_STATE_RUNNING);
  client.set_footprint_bytes(1000);
  client.set_stage("decode");
  v1::LeaseSample& lease = *client.add_leases();
  lease.set_lease_id(100);
  lease.set_stage("decode");
  lease.set_memory_bytes(500);
  v1::Gauge& gauge = *client.add_gauges();
  gauge.set_name("steps");
  gauge.set_value(4);
  v1::WaitingRequest& waiting = *frame.add_waiting();
  waiting.set_job_id(8);
  waiting.set_stage("transformer");
  v1::Blocker& blocker = *waiting.add_blockers();
  blocker.set_kind(v1::BLOCKER_KIND_SWAP_LIMIT);
  blocker.set_ends_in_ns(2000);
  v1::Event& event = *frame.add_events();
  event.set_kind("load");
  event.mutable_mark()->set_kind("load");
  event.mutable_mark()->set_name("vae");
  event.mutable_mark()->set_nbytes(250);
  frames_ = {response};

  const Watch watch(Options(), Collect());
  ASSERT_TRUE(Eventually([&] { return !Seen().empty(); }));
  const Frame seen = Seen()[0];
  EXPECT_EQ(seen.sequence, 12);
  EXPECT_EQ(seen.dropped, 3);
  EXPECT_EQ(seen.time.time_since_epoch().count(), 1'700'000'000'000'000'001);
  EXPECT_EQ(seen.host.level_percent, 63.0);
  EXPECT_EQ(seen.host.pressure, Pressure::kWarn);
  EXPECT_EQ(seen.host.gpu_wired_limit_bytes, 40);
  EXPECT_FALSE(seen.host.swap_used_bytes.has_value());
  EXPECT_EQ(seen.pending, 2);
  EXPECT_EQ(seen.reserved_bytes, 99);
  EXPECT_EQ(seen.queue_held, "a user holds it");
  ASSERT_EQ(seen.clients.size(), 1U);
  EXPECT_EQ(seen.clients[0].kind, "SESSION");
  EXPECT_EQ(seen.clients[0].state, "RUNNING");
  EXPECT_EQ(seen.clients[0].footprint_bytes, 1000);
  EXPECT_FALSE(seen.clients[0].swapped_bytes.has_value());
  EXPECT_EQ(seen.clients[0].leases[0].memory_bytes, 500);
  EXPECT_EQ(seen.clients[0].gauges[0].name, "steps");
  EXPECT_EQ(seen.waiting[0].stage, "transformer");
  EXPECT_EQ(seen.waiting[0].blockers[0].kind, "SWAP_LIMIT");
  EXPECT_EQ(seen.waiting[0].blockers[0].ends_in, std::chrono::nanoseconds(2000));
  EXPECT_EQ(seen.events[0].mark->name, "vae");
  EXPECT_EQ(seen.events[0].mark->bytes, 250);
}

TEST_F(WatchTest, AsksForWhatItsOptionsSay) {
  WatchOptions options = Options();
  options.since_sequence = 40;
  options.min_interval = std::chrono::seconds(2);
  {
    const Watch watch(options, Collect());
    ASSERT_TRUE(Eventually([&] { return Requests().size() == 1; }));
  }
  EXPECT_EQ(Requests()[0].since_sequence(), 40);
  EXPECT_EQ(Requests()[0].min_interval_ns(), 2'000'000'000);
  const Watch watch(Options(), Collect());
  ASSERT_TRUE(Eventually([&] { return Requests().size() == 2; }));
  EXPECT_FALSE(Requests()[1].has_since_sequence());
}

TEST_F(WatchTest, GoesOnWithAllFramesOfTheNextDaemon) {
  frames_ = {FrameOf(40), FrameOf(41)};
  std::atomic<int> lost = 0;
  WatchOptions options = Options();
  options.on_lost = [&](const std::string& text) {
    EXPECT_FALSE(text.empty());
    ++lost;
  };
  const Watch watch(options, Collect());
  ASSERT_TRUE(Eventually([&] { return Seen().size() == 2; }));
  daemon_.Stop();
  ASSERT_TRUE(Eventually([&] { return lost == 1; }));
  frames_ = {FrameOf(1)};
  daemon_.Start();
  ASSERT_TRUE(Eventually([&] { return Seen().size() == 3; }));
  EXPECT_EQ(Seen()[2].sequence, 1);
  EXPECT_TRUE(Requests()[1].has_since_sequence());
  EXPECT_EQ(Requests()[1].since_sequence(), 0);
}

TEST_F(WatchTest, ARefusalEndsItAndIsTold) {
  answer_ = ctl::Failure(grpc::StatusCode::RESOURCE_EXHAUSTED, "1000 subscribers are there already",
                         "TOO_MANY_SUBSCRIBERS");
  std::mutex mutex;
  std::vector<std::string> reasons;
  WatchOptions options = Options();
  options.on_end = [&](const Error& error) {
    const std::lock_guard lock(mutex);
    reasons.push_back(error.reason());
  };
  const Watch watch(options, Collect());
  EXPECT_TRUE(Eventually([&] {
    const std::lock_guard lock(mutex);
    return !reasons.empty();
  }));
  EXPECT_THAT(reasons, ElementsAre("TOO_MANY_SUBSCRIBERS"));
}

TEST_F(WatchTest, NoCallbackRunsAfterItsEnd) {
  frames_.assign(200, FrameOf(1));
  std::atomic<bool> over = false;
  std::atomic<bool> late = false;
  {
    const Watch watch(Options(), [&](const Frame&) { late = late || over; });
    ASSERT_TRUE(Eventually([&] { return Requests().size() == 1; }));
  }
  over = true;
  EXPECT_FALSE(late);
}

TEST_F(WatchTest, WithoutADaemonThereIsNothingToWatch) {
  daemon_.Stop();
  EXPECT_THROW(Watch(Options(), Collect()), NoDaemon);
}

}  // namespace
}  // namespace stageload::client
