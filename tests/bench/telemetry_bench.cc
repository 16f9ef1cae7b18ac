// What a thousand subscribers cost, a hundred of which never read.
//
// 1. The real daemon at its own pace of two frames a second: how late the sampler is with one
//    subscriber and with a thousand, and what they cost in CPU and memory.
// 2. Frames sent out by our way and by the plain way (a message for each subscriber, serialised for
//    it), in one run: CPU of the serving side for each frame that a reader received.
// 3. An hour of frames, one after another without a pause, to a thousand subscribers: memory
// against
//    the bound that is stated.
//
// usage: telemetry_bench STAGELOADD [SECONDS [FRAMES]]
//        telemetry_bench --subscribe SOCKET READING STALLED      (its own child)
#include <grpcpp/grpcpp.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/paths.h"
#include "daemon/rpc/connection.h"
#include "daemon/rpc/convert_frame.h"
#include "daemon/rpc/listening_socket.h"
#include "daemon/rpc/server.h"
#include "daemon/rpc/transport.h"
#include "daemon/telemetry/hub.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"
#include "tests/bench/measured_process.h"
#include "tests/daemon/rpc/serving_thread.h"

namespace stageload::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kReading = 900;
constexpr int kStalled = 100;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// ---- The child: subscribers, each on a connection of its own ----

struct Counts {
  std::atomic<std::int64_t> received = 0;
  std::atomic<std::int64_t> dropped = 0;
  std::atomic<int> begun = 0;  // have got a first frame
};

class Subscriber : public grpc::ClientReadReactor<v1::WatchTelemetryResponse> {
 public:
  Subscriber(const std::string& socket, bool reads, Counts& counts) : counts_(counts) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    if (!reads) {  // as little is sent ahead as gRPC can, so that it stalls after a few frames
      arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1);
      arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    }
    stub_ = v1::TelemetryService::NewStub(
        grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments));
    stub_->async()->WatchTelemetry(&context_, &request_, this);
    if (reads) StartRead(&response_);
    StartCall();
  }

  // How late each sample was by what the frame before had announced, in ms, since it was last
  // asked.
  std::vector<double> TakeLate() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(late_, {});
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (first_) ++counts_.begun;
    ++counts_.received;
    counts_.dropped += response_.dropped();
    const v1::Frame& frame = response_.frame();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto late = static_cast<double>(frame.awake_ns() - planned_) / 1e6;
      if (!first_) late_.push_back(std::max(0.0, late));
    }
    planned_ = frame.awake_ns() + frame.interval_ns();
    first_ = false;
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    std::fprintf(stderr, "a subscriber ended: %s\n", status.error_message().c_str());
    std::_Exit(1);
  }

 private:
  Counts& counts_;
  std::unique_ptr<v1::TelemetryService::Stub> stub_;
  grpc::ClientContext context_;
  v1::WatchTelemetryRequest request_;
  v1::WatchTelemetryResponse response_;
  bool first_ = true;
  std::int64_t planned_ = 0;
  std::mutex mutex_;
  std::vector<double> late_;
};

// Answers each line of stdin with "BEGUN RECEIVED DROPPED SAMPLES P50 P99 MAX"; the last four are
// of the first subscriber, in ms.
int Subscribe(const std::string& socket, int reading, int stalled) {
  AllowFiles(4000);
  Counts counts;
  std::vector<std::unique_ptr<Subscriber>> all;
  for (int i = 0; i < reading + stalled; ++i) {
    all.push_back(std::make_unique<Subscriber>(socket, i < reading, counts));
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<double> late = all.front()->TakeLate();
    std::sort(late.begin(), late.end());
    const auto at = [&](double part) {
      if (late.empty()) return 0.0;
      return late[std::min(late.size() - 1,
                           static_cast<std::size_t>(part * static_cast<double>(late.size())))];
    };
    std::printf("%d %" PRId64 " %" PRId64 " %zu %f %f %f\n", counts.begun.load(),
                counts.received.load(), counts.dropped.load(), late.size(), at(0.5), at(0.99),
                at(1));
    std::fflush(stdout);
  }
  std::_Exit(0);
}

// ---- The parent's side of it ----

struct Report {
  int begun = 0;
  std::int64_t received = 0;
  std::int64_t dropped = 0;
  std::size_t samples = 0;
  double p50 = 0, p99 = 0, max = 0;
};

class Subscribers {
 public:
  // `meanwhile` is called until all have got a frame.
  Subscribers(const std::string& socket, int reading, int stalled,
              const std::function<void()>& meanwhile)
      : process_({"/proc/self/exe", "--subscribe", socket, std::to_string(reading),
                  std::to_string(stalled)},
                 /*talks=*/true) {
    const Clock::time_point start = Clock::now();
    while (Ask().begun < reading) {
      if (SecondsSince(start) > 120) Die("the subscribers do not all get a frame");
      meanwhile();
    }
    Sleep(1);  // the connections' buffers have their size, those that stall do
    (void)Ask();
  }

  Report Ask() {
    process_.Say("report");
    std::istringstream line(process_.Hear());
    Report report;
    line >> report.begun >> report.received >> report.dropped >> report.samples >> report.p50 >>
        report.p99 >> report.max;
    return report;
  }

 private:
  MeasuredProcess process_;
};

// ---- 1. The real daemon ----

Report MeasureDaemon(const MeasuredDaemon& daemon, const char* what, int reading, int stalled,
                     double seconds, double& share) {
  Subscribers subscribers(daemon.socket(), reading, stalled, [] { Sleep(0.2); });
  // A client of gRPC measures its new connection with PINGs, ever less often (BDP).
  Sleep(seconds / 2);
  (void)subscribers.Ask();
  const Report before = subscribers.Ask();
  const Clock::time_point start = Clock::now();
  const double cpu = CpuSeconds(daemon.pid());
  Sleep(seconds);
  share = 100 * (CpuSeconds(daemon.pid()) - cpu) / SecondsSince(start);
  const Report report = subscribers.Ask();
  std::printf("  %s\n", what);
  std::printf("    sampler late by   p50 %.2f ms, p99 %.2f ms, most %.2f ms (%zu samples)\n",
              report.p50, report.p99, report.max, report.samples);
  std::printf("    CPU of the daemon %.2f %% of a core\n", share);
  std::printf("    RSS, threads      %.1f MiB, %ld\n", RssMiB(daemon.pid()), Threads(daemon.pid()));
  std::printf("    frames            %.0f received a second, %" PRId64 " dropped by readers\n",
              static_cast<double>(report.received - before.received) / SecondsSince(start),
              report.dropped - before.dropped);
  return report;
}

void RealDaemon(const std::string& program, double seconds) {
  std::printf("the real daemon, %.0f s each:\n", seconds);
  const MeasuredDaemon daemon(program);
  Sleep(2);
  const double idle = RssMiB(daemon.pid());
  std::printf("  idle RSS %.1f MiB\n", idle);
  double one = 0;
  double all = 0;
  MeasureDaemon(daemon, "one subscriber", 1, 0, seconds, one);
  MeasureDaemon(daemon, "900 that read and 100 that do not", kReading, kStalled, seconds, all);
  std::printf("    they cost         %.2f %% of a core (goal: 5)\n", all - one);
  for (int i = 0; i < 20 && RssMiB(daemon.pid()) > idle + 8; ++i) Sleep(0.5);
  std::printf("  RSS after they left %.1f MiB\n", RssMiB(daemon.pid()));
}

// ---- 2. and 3. Served from this process ----

telemetry::Frame SomeFrame(int clients) {
  telemetry::Frame frame;
  frame.interval = absl::Milliseconds(500);
  frame.time.wall = absl::FromUnixSeconds(1'700'000'000);
  frame.host.level = Percent{61.5};
  frame.host.total = GiB(48);
  frame.host.available = MiB(30'208);
  frame.host.swap_used = MiB(1536);
  frame.host.swap_total = GiB(8);
  frame.host.pressure = core::Pressure::kNormal;
  for (int i = 0; i < clients; ++i) {
    telemetry::ClientFrame client;
    client.job = core::JobId{100 + i};
    client.name = "python train.py --seed " + std::to_string(i);
    client.usage.footprint = MiB(3380);
    client.usage.swapped = MiB(12);
    client.charge = MiB(200);
    client.swap_budget = GiB(8);
    client.memory = GiB(4);
    client.processes = 3;
    frame.clients.push_back(client);
  }
  return frame;
}

// A listening socket in a folder of its own.
class Socket {
 public:
  Socket() {
    char folder[] = "/tmp/slb.XXXXXX";
    if (::mkdtemp(folder) == nullptr) Die("make a folder in /tmp");
    folder_ = folder;
    Paths paths;
    paths.socket = path_ = folder_ + "/home/d.sock";
    paths.lock = folder_ + "/home/d.lock";
    auto opened = rpc::ListeningSocket::Open(paths);
    if (!opened.ok()) Die(std::string(opened.status().message()));
    socket_.emplace(*std::move(opened));
  }
  ~Socket() {
    socket_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  const rpc::ListeningSocket& get() const { return *socket_; }
  const std::string& path() const { return path_; }

 private:
  std::string folder_;
  std::string path_;
  std::optional<rpc::ListeningSocket> socket_;
};

class OurWay {
 public:
  OurWay() : server_(MakeParts()) {
    if (!server_.Start(socket_.get()).ok()) Die("start the server");
    serving_.emplace(server_);
  }
  ~OurWay() {
    serving_.reset();
    server_.Stop(absl::Seconds(1));
  }
  const std::string& path() const { return socket_.path(); }
  void Publish(telemetry::Frame frame) {
    hub_.Publish(std::move(frame));
    hub_.Deliver();
  }
  std::int64_t oldest() const { return hub_.After(0, -absl::InfiniteDuration()).frame->sequence; }

 private:
  rpc::Parts MakeParts() {
    rpc::Parts parts;
    parts.hub = &hub_;
    return parts;
  }
  Socket socket_;
  telemetry::Hub hub_{rpc::EncodeFrame};
  rpc::Server server_;
  std::optional<rpc::ServingThread<rpc::Server>> serving_;
};

// One message for all, which gRPC serialises for each subscriber.
class PlainWay {
 public:
  PlainWay() : transport_(MakeOptions()) {
    if (!transport_.Start(socket_.get().fd()).ok()) Die("start the server");
    serving_.emplace(transport_);
  }
  ~PlainWay() {
    serving_.reset();
    transport_.Stop(absl::Seconds(1));
  }
  const std::string& path() const { return socket_.path(); }
  void Publish(telemetry::Frame frame) {
    frame.sequence = ++sequence_;
    const auto message = std::make_shared<v1::WatchTelemetryResponse>();
    *message->mutable_frame() = rpc::ToProto(frame);
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Stream* stream : streams_) stream->Send(message);
  }

 private:
  using Message = std::shared_ptr<const v1::WatchTelemetryResponse>;

  class Stream : public grpc::ServerWriteReactor<v1::WatchTelemetryResponse> {
   public:
    explicit Stream(PlainWay& way) : way_(way) {
      const std::lock_guard<std::mutex> lock(way_.mutex_);
      way_.streams_.push_back(this);
    }
    void Send(const Message& message) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (in_flight_ || finished_) return;  // it skips what it is too slow for
        in_flight_ = true;
        message_ = message;
      }
      StartWrite(message_.get());
    }
    void OnWriteDone(bool) override {
      bool finish = false;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        in_flight_ = false;
        finish = std::exchange(finish_asked_, false);
        finished_ = finished_ || finish;
      }
      if (finish) Finish(grpc::Status::CANCELLED);
    }
    void OnCancel() override {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        finish_asked_ = in_flight_;
        finished_ = true;
        if (in_flight_) return;
      }
      Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override {
      {
        const std::lock_guard<std::mutex> lock(way_.mutex_);
        way_.streams_.erase(std::find(way_.streams_.begin(), way_.streams_.end(), this));
      }
      delete this;
    }

   private:
    PlainWay& way_;
    std::mutex mutex_;
    Message message_;
    bool in_flight_ = false;
    bool finish_asked_ = false;
    bool finished_ = false;
  };

  class Service final : public v1::TelemetryService::WithCallbackMethod_WatchTelemetry<
                            v1::TelemetryService::Service> {
   public:
    explicit Service(PlainWay& way) : way_(way) {}
    grpc::ServerWriteReactor<v1::WatchTelemetryResponse>* WatchTelemetry(
        grpc::CallbackServerContext*, const v1::WatchTelemetryRequest*) override {
      return new Stream(way_);
    }

   private:
    PlainWay& way_;
  };

  rpc::Transport::Options MakeOptions() {
    rpc::Transport::Options options;
    options.services = [this](const rpc::Peer&) {
      rpc::ServiceObjects services;
      services.registered.push_back(std::make_unique<Service>(*this));
      return services;
    };
    return options;
  }

  Socket socket_;
  std::mutex mutex_;
  std::vector<Stream*> streams_;
  std::int64_t sequence_ = 0;
  rpc::Transport transport_;
  std::optional<rpc::ServingThread<rpc::Transport>> serving_;
};

// Sends at 20 frames a second, as the daemon at its fastest, and returns the CPU in us for each
// frame that a reader got.
template <typename Way>
double CpuPerDelivery(int clients, double seconds) {
  Way way;
  std::int64_t number = 0;
  const auto publish = [&] {
    telemetry::Frame frame = SomeFrame(clients);
    frame.time.awake = absl::Milliseconds(50) * ++number;
    way.Publish(std::move(frame));
    Sleep(0.05);
  };
  Subscribers subscribers(way.path(), kReading, kStalled, publish);
  const Report before = subscribers.Ask();
  const double cpu = CpuSeconds(::getpid());
  for (const Clock::time_point start = Clock::now(); SecondsSince(start) < seconds;) publish();
  const double used = CpuSeconds(::getpid()) - cpu;
  Sleep(0.5);
  const Report after = subscribers.Ask();
  return 1e6 * used / static_cast<double>(after.received - before.received);
}

void AgainstThePlainWay(double seconds) {
  std::printf("CPU of the serving side for each frame received, 20 frames a second, %.0f s each:\n",
              seconds);
  for (const int clients : {0, 20, 120}) {
    const std::size_t size = rpc::EncodeFrame(SomeFrame(clients)).bytes.size();
    // Twice in turn, so that a drift of the machine shows.
    double ours = 0;
    double plain = 0;
    for (int round = 0; round < 2; ++round) {
      ours += CpuPerDelivery<OurWay>(clients, seconds / 2) / 2;
      plain += CpuPerDelivery<PlainWay>(clients, seconds / 2) / 2;
    }
    std::printf("  %6zu bytes   %.1f us, the plain way %.1f us: %.2f x\n", size, ours, plain,
                ours / plain);
  }
}

void AnHourOfFrames(int frames) {
  OurWay way;
  std::int64_t number = 0;
  const auto publish = [&] {
    telemetry::Frame frame = SomeFrame(80);
    frame.time.awake = absl::Milliseconds(500) * ++number;
    way.Publish(std::move(frame));
  };
  Subscribers subscribers(way.path(), kReading, kStalled, [&] {
    publish();
    Sleep(0.05);
  });
  const double rss = RssMiB(::getpid());
  const Report before = subscribers.Ask();
  const Clock::time_point start = Clock::now();
  double most = rss;
  std::int64_t received = before.received;
  for (int i = 0; i < frames; ++i) {
    // The next when nine of ten have got the one before; the rest are late, or told what they
    // missed.
    const std::int64_t wanted = received + kReading * 9 / 10;
    publish();
    const Clock::time_point sent = Clock::now();
    while ((received = subscribers.Ask().received) < wanted && SecondsSince(sent) < 1) {
    }
    if (i % 100 == 0) most = std::max(most, RssMiB(::getpid()));
  }
  const double seconds = SecondsSince(start);
  Sleep(2);
  const Report after = subscribers.Ask();
  const std::size_t size = rpc::EncodeFrame(SomeFrame(80)).bytes.size();
  const auto kept = static_cast<double>(number - way.oldest() + 1);
  // The ring, and for each that does not read the frame that is on its way to it.
  const double bound = (static_cast<double>(telemetry::kRingBytes + kStalled * size) +
                        kept * static_cast<double>(telemetry::kFrameOverhead)) /
                       (1 << 20);
  std::printf("%d frames of %zu bytes, half a second apart, as fast as they are read: %.0f s\n",
              frames, size, seconds);
  std::printf("  kept                %.0f frames, %.1f MiB of wire bytes\n", kept,
              kept * static_cast<double>(size) / (1 << 20));
  std::printf("  RSS                 %+.1f MiB at most, %+.1f MiB at the end (bound: %.1f)\n",
              most - rss, RssMiB(::getpid()) - rss, bound);
  const auto got = static_cast<double>(after.received - before.received);
  const auto dropped = static_cast<double>(after.dropped - before.dropped);
  std::printf("  the 900 that read   got %.1f %% and were told of %.1f %%\n",
              100 * got / kReading / frames, 100 * dropped / kReading / frames);
}

// An hour of an idle daemon, which samples every second.
void AnIdleHour() {
  const double rss = RssMiB(::getpid());
  telemetry::Hub hub(rpc::EncodeFrame);
  for (int i = 0; i < 3600; ++i) {
    telemetry::Frame frame = SomeFrame(0);
    frame.time.awake = absl::Seconds(i);
    hub.Publish(std::move(frame));
    hub.Deliver();
  }
  std::printf("the 3600 frames of an idle hour take %.1f MiB\n", RssMiB(::getpid()) - rss);
}

}  // namespace
}  // namespace stageload::bench

int main(int argc, char** argv) {
  using namespace stageload::bench;
  if (argc == 5 && std::strcmp(argv[1], "--subscribe") == 0) {
    return Subscribe(argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
  }
  if (argc < 2) {
    std::fprintf(stderr, "usage: telemetry_bench STAGELOADD [SECONDS [FRAMES]]\n");
    return 2;
  }
  const double seconds = argc > 2 ? std::atof(argv[2]) : 60;
  const int frames = argc > 3 ? std::atoi(argv[3]) : 7200;
  AllowFiles(4000);
  RealDaemon(argv[1], seconds);
  AnIdleHour();
  AgainstThePlainWay(seconds / 3);
  AnHourOfFrames(frames);
  return 0;
}
