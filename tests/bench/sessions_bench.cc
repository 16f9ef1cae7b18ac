// What a thousand registered sessions cost that do nothing: memory and threads of the daemon, what
// both sides run meanwhile, and what is left when they have gone. Each is on a connection of its
// own and has a process of its own to be watched; the streams are all held by one client.
//
// usage: sessions_bench STAGELOADD [SECONDS [SESSIONS]]
//        sessions_bench --register SOCKET SESSIONS      (its own child)
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "stageload/v1/admission_service.grpc.pb.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"
#include "tests/bench/measured_process.h"

extern char** environ;

namespace stageload::bench {
namespace {

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// ---- The child ----

class Session : public grpc::ClientReadReactor<v1::RegisterResponse> {
 public:
  Session(const std::string& socket, pid_t pid, std::atomic<int>& registered)
      : registered_(registered) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = v1::AdmissionService::NewStub(
        grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments));
    request_.set_name("session");
    request_.set_pid(pid);
    request_.mutable_policy()->set_memory_bytes(1 << 20);
    request_.mutable_policy()->set_wait_free_percent(0);
    request_.mutable_policy()->set_kill_free_percent(0);
    stub_->async()->Register(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (response_.has_registered()) ++registered_;
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    std::fprintf(stderr, "a session ended: %s\n", status.error_message().c_str());
    std::_Exit(1);
  }

 private:
  std::atomic<int>& registered_;
  std::unique_ptr<v1::AdmissionService::Stub> stub_;
  grpc::ClientContext context_;
  v1::RegisterRequest request_;
  v1::RegisterResponse response_;
};

// Starts processes that do nothing and end with this one, however it ends.
class Watched {
 public:
  Watched() {
    if (::pipe2(ends_, O_CLOEXEC) != 0) Die("make a pipe");
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, ends_[0], 0);
  }
  pid_t Start() const {
    pid_t pid = 0;
    char name[] = "cat";
    char* argv[] = {name, nullptr};
    if (::posix_spawnp(&pid, name, &actions_, nullptr, argv, environ) != 0) Die("run cat");
    return pid;
  }

 private:
  int ends_[2];
  posix_spawn_file_actions_t actions_;
};

// Answers each line of stdin with how many are registered.
int Register(const std::string& socket, int sessions) {
  AllowFiles(4000);
  std::atomic<int> registered = 0;
  std::vector<std::unique_ptr<Session>> all;
  const Watched watched;
  for (int i = 0; i < sessions; ++i) {
    all.push_back(std::make_unique<Session>(socket, watched.Start(), registered));
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::printf("%d\n", registered.load());
    std::fflush(stdout);
  }
  std::_Exit(0);
}

// ---- The parent ----

struct Spent {
  double cpu = 0;       // % of a core
  double switches = 0;  // of context, a second
};

class Meter {
 public:
  explicit Meter(pid_t pid) : pid_(pid), cpu_(CpuSeconds(pid)), switches_(ContextSwitches(pid)) {}
  Spent Since(double seconds) const {
    return {100 * (CpuSeconds(pid_) - cpu_) / seconds,
            static_cast<double>(ContextSwitches(pid_) - switches_) / seconds};
  }

 private:
  pid_t pid_;
  double cpu_;
  long switches_;
};

void Print(const char* what, const Spent& spent) {
  std::printf("  %-28s %.2f %% of a core, %.1f context switches a second\n", what, spent.cpu,
              spent.switches);
}

// What the daemon keeps of frames: they hold a line for each session, and are kept for an hour.
double KeptFramesMiB(const std::string& socket) {
  const auto stub = v1::TelemetryService::NewStub(
      grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()));
  v1::GetSnapshotResponse newest;
  {
    grpc::ClientContext context;
    if (!stub->GetSnapshot(&context, {}, &newest).ok()) Die("ask for the newest frame");
  }
  grpc::ClientContext context;
  v1::WatchTelemetryRequest request;
  request.set_since_sequence(0);
  const auto reader = stub->WatchTelemetry(&context, request);
  v1::WatchTelemetryResponse response;
  std::size_t bytes = 0;
  while (response.frame().sequence() < newest.frame().sequence() && reader->Read(&response)) {
    bytes += response.ByteSizeLong();
  }
  context.TryCancel();
  (void)reader->Finish();
  return static_cast<double>(bytes) / (1 << 20);
}

void Measure(const std::string& program, double seconds, int sessions) {
  const MeasuredDaemon daemon(program);
  Sleep(2);
  const double before = RssMiB(daemon.pid());
  std::printf("no session:\n  RSS %.1f MiB, %ld threads\n", before, Threads(daemon.pid()));
  const Meter idle(daemon.pid());
  Sleep(seconds);
  Print("the daemon", idle.Since(seconds));
  {
    MeasuredProcess client(
        {"/proc/self/exe", "--register", daemon.socket(), std::to_string(sessions)},
        /*talks=*/true);
    for (int registered = 0, waited = 0; registered < sessions; ++waited) {
      if (waited > 600) Die("only " + std::to_string(registered) + " are registered");
      Sleep(0.2);
      client.Say("registered");
      registered = std::atoi(client.Hear().c_str());
    }
    // Until the clients' library has measured their connections (BDP), some 20 s.
    Sleep(20);
    std::printf("%d sessions that do nothing:\n", sessions);
    const double with = RssMiB(daemon.pid());
    const long threads = Threads(daemon.pid());
    const double frames = KeptFramesMiB(daemon.socket());
    std::printf("  RSS %.1f MiB: %+.1f MiB by them (goal: 44) and %.1f MiB of kept frames\n", with,
                with - before - frames, frames);
    std::printf("  %ld threads (goal: 16)\n", threads);
    const Meter serving(daemon.pid());
    const Meter waiting(client.pid());
    Sleep(seconds);
    Print("the daemon, which samples", serving.Since(seconds));
    Print("the client with all of them", waiting.Since(seconds));
  }
  Sleep(12);  // the daemon waits 8 s until it gives memory back
  const double after = RssMiB(daemon.pid());
  std::printf("when they have gone:\n  RSS %.1f MiB, %.1f of it kept frames; %ld threads\n", after,
              KeptFramesMiB(daemon.socket()), Threads(daemon.pid()));
}

}  // namespace
}  // namespace stageload::bench

int main(int argc, char** argv) {
  using namespace stageload::bench;
  if (argc == 4 && std::strcmp(argv[1], "--register") == 0) {
    return Register(argv[2], std::atoi(argv[3]));
  }
  if (argc < 2) {
    std::fprintf(stderr, "usage: sessions_bench STAGELOADD [SECONDS [SESSIONS]]\n");
    return 2;
  }
  AllowFiles(4000);
  Measure(argv[1], argc > 2 ? std::atof(argv[2]) : 10, argc > 3 ? std::atoi(argv[3]) : 1000);
  return 0;
}
