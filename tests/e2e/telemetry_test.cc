// Subscribers of a real daemon, as clients of its API, and the history over its restarts.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::ElementsAre;

// A connection of its own, which lets the daemon send as little ahead as gRPC can.
std::unique_ptr<v1::TelemetryService::Stub> Connect(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return v1::TelemetryService::NewStub(
      grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments));
}

// One subscription, cancelled at the end.
class Subscriber {
 public:
  explicit Subscriber(const std::string& socket)
      : stub_(Connect(socket)), reader_(stub_->WatchTelemetry(&context_, {})) {}
  ~Subscriber() {
    context_.TryCancel();
    (void)reader_->Finish();
  }
  bool Read(v1::WatchTelemetryResponse& response) { return reader_->Read(&response); }
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::TelemetryService::Stub> stub_;
  std::unique_ptr<grpc::ClientReader<v1::WatchTelemetryResponse>> reader_;
};

// Reads all the time and notes how late each sample was by what the frame before had announced.
class JitterMeter {
 public:
  explicit JitterMeter(const std::string& socket)
      : subscriber_(socket), thread_([this] { Run(); }) {}
  ~JitterMeter() {
    subscriber_.Cancel();
    thread_.join();
  }

  // Of the next `frames`, ascending; empty when they do not come.
  std::vector<absl::Duration> Next(std::size_t frames) {
    std::unique_lock<std::mutex> lock(mutex_);
    late_.clear();
    const auto enough = [&] { return late_.size() >= frames || ended_; };
    if (!changed_.wait_for(lock, absl::ToChronoSeconds(kPatience), enough) || ended_) return {};
    std::vector<absl::Duration> late = late_;
    std::sort(late.begin(), late.end());
    return late;
  }
  std::int64_t dropped() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return dropped_;
  }

 private:
  void Run() {
    v1::WatchTelemetryResponse response;
    absl::Duration planned;
    for (bool first = true; subscriber_.Read(response); first = false) {
      const v1::Frame& frame = response.frame();
      const absl::Duration awake = absl::Nanoseconds(frame.awake_ns());
      const std::lock_guard<std::mutex> lock(mutex_);
      // What comes before the plan (something ended or started) is not late.
      if (!first) late_.push_back(std::max(absl::ZeroDuration(), awake - planned));
      dropped_ += response.dropped();
      planned = awake + absl::Nanoseconds(frame.interval_ns());
      changed_.notify_all();
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  Subscriber subscriber_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<absl::Duration> late_;
  std::int64_t dropped_ = 0;
  bool ended_ = false;
  std::thread thread_;
};

absl::Duration AtPercent(const std::vector<absl::Duration>& ascending, int percent) {
  return ascending[ascending.size() * static_cast<std::size_t>(percent) / 100];
}

class Telemetry : public DaemonTest {
 protected:
  v1::Frame Snapshot() const {
    grpc::ClientContext context;
    v1::GetSnapshotResponse response;
    const grpc::Status status = Connect(paths().socket)->GetSnapshot(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.frame();
  }

  // Jobs that make frames of 3 KB, twenty a second: they are always on the point of being stopped,
  // by a daemon that stops nobody.
  void MakeManyLargeFrames() {
    StartDaemon({"--dry-run"});
    for (int i = 0; i < 10; ++i) {
      Submit({"--name", std::string(250, 'x'), "--memory", "1M", "--kill-free", "100",
              "--wait-free", "0", "--", "sleep", "600"});
    }
    ASSERT_TRUE(Eventually([&] { return Snapshot().clients_size() == 10; }));
  }

  std::int64_t RssMiB() const {
    for (const auto line :
         absl::StrSplit(ReadFile(absl::StrCat("/proc/", DaemonPid(), "/status")), '\n')) {
      const std::vector<std::string> words =
          absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
      std::int64_t kib = 0;
      if (words.size() > 1 && words[0] == "VmRSS:" && absl::SimpleAtoi(words[1], &kib)) {
        return kib / 1024;
      }
    }
    ADD_FAILURE() << "no VmRSS";
    return 0;
  }

  std::vector<std::string> HistoryOf(std::int64_t job) const {
    grpc::ClientContext context;
    v1::ListHistoryRequest request;
    request.set_job_id(job);
    v1::ListHistoryResponse response;
    const grpc::Status status = Connect(paths().socket)->ListHistory(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<std::string> kinds;
    for (const v1::Event& event : response.events()) kinds.emplace_back(event.kind());
    return kinds;
  }
};

TEST_F(Telemetry, S27_ASubscriberThatStopsReadingIsToldWhatItMissedAndIsFeltByNobody) {
  MakeManyLargeFrames();
  JitterMeter meter(paths().socket);
  const std::vector<absl::Duration> alone = meter.Next(100);
  ASSERT_FALSE(alone.empty()) << "no frames";

  std::vector<std::unique_ptr<Subscriber>> stopped;
  for (int i = 0; i < 50; ++i) stopped.push_back(std::make_unique<Subscriber>(paths().socket));
  v1::WatchTelemetryResponse response;
  for (const auto& one : stopped) ASSERT_TRUE(one->Read(response));  // they are subscribed
  std::int64_t last = response.frame().sequence();
  const std::int64_t rss = RssMiB();
  const std::vector<absl::Duration> beside = meter.Next(200);
  ASSERT_FALSE(beside.empty()) << "frames stop coming when others do not read";

  EXPECT_EQ(meter.dropped(), 0) << "who reads gets every frame";
  EXPECT_LE(AtPercent(beside, 50), AtPercent(alone, 50) + absl::Milliseconds(10));
  EXPECT_LE(AtPercent(beside, 90), AtPercent(alone, 90) + absl::Milliseconds(100));
  // A queue of 200 frames for each of them would be 30 MiB.
  EXPECT_LE(RssMiB(), rss + 8);

  const std::int64_t newest = Snapshot().sequence();
  std::int64_t dropped = 0;
  while (last < newest) {
    ASSERT_TRUE(stopped.back()->Read(response));
    dropped += response.dropped();
    EXPECT_EQ(response.frame().sequence(), last + response.dropped() + 1);
    last = response.frame().sequence();
  }
  EXPECT_GT(dropped, 50);
}

TEST_F(Telemetry, TheHistoryOutlivesTheDaemon) {
  StartDaemon();
  const std::int64_t job = Submit({"--", "true"});
  const std::int64_t other = Submit({"--", "false"});
  ASSERT_TRUE(Reaches(job, "COMPLETED"));
  ASSERT_TRUE(Reaches(other, "FAILED"));
  EXPECT_THAT(HistoryOf(job), ElementsAre("ended", "admitted"));
  KillDaemon();
  StartDaemon();
  EXPECT_THAT(HistoryOf(job), ElementsAre("ended", "admitted"));
  EXPECT_THAT(HistoryOf(other), ElementsAre("ended", "admitted"));
}

}  // namespace
}  // namespace stageload::e2e
