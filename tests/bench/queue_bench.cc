// What a long queue costs a real daemon: submits with the queue empty and with 10,000 in it, what
// it holds in memory and on disk for them, and the first page of a list of 100,000.
//
// usage: queue_bench STAGELOADD STAGELOADCTL [JOBS [LISTED]]
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "daemon/store/store.h"
#include "stageload/v1/job_service.grpc.pb.h"

extern char** environ;

namespace stageload {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "queue_bench: %s\n", what.c_str());
  std::exit(1);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A daemon with a home of its own, both gone at the end.
class Daemon {
 public:
  explicit Daemon(std::string program) : program_(std::move(program)) {
    char folder[] = "/tmp/slq.XXXXXX";
    if (::mkdtemp(folder) == nullptr) Die("make a folder in /tmp");
    home_ = folder;
    ::setenv("STAGELOAD_HOME", folder, 1);
    std::ofstream(home_ + "/config.toml") << "memory_pool = \"1G\"\nsettle = \"0s\"\n";
  }
  ~Daemon() {
    Stop();
    std::filesystem::remove_all(home_);
  }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Returns how long it took until it answered.
  double Start() {
    const Clock::time_point start = Clock::now();
    char* argv[] = {program_.data(), nullptr};
    if (::posix_spawn(&pid_, program_.c_str(), nullptr, nullptr, argv, environ) != 0) {
      Die("run " + program_);
    }
    channel_ = grpc::CreateChannel("unix:" + home_ + "/stageloadd.sock",
                                   grpc::InsecureChannelCredentials());
    if (!channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(60))) {
      Die("the daemon does not answer");
    }
    return MillisecondsSince(start);
  }
  void Stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  const std::string& home() const { return home_; }
  std::unique_ptr<v1::JobService::Stub> Jobs() const { return v1::JobService::NewStub(channel_); }
  // "VmRSS" and the like of /proc/PID/status.
  long Status(const std::string& field) const {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind(field + ":", 0) == 0) return std::atol(line.c_str() + field.size() + 1);
    }
    return -1;
  }
  long Descriptors() const {
    const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid_) + "/fd");
    return std::distance(begin(all), end(all));
  }
  long Children() const {
    std::ifstream children("/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) +
                           "/children");
    long count = 0;
    for (std::string pid; children >> pid;) ++count;
    return count;
  }
  double StoreMiB() const {
    std::uintmax_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(home_)) {
      const std::string name = file.path().filename();
      if (name.find(".db") != std::string::npos) bytes += file.file_size();
    }
    return static_cast<double>(bytes) / (1 << 20);
  }

 private:
  std::string program_;
  std::string home_;
  pid_t pid_ = -1;
  std::shared_ptr<grpc::Channel> channel_;
};

// A job that waits for the memory which the first one has.
v1::SubmitJobRequest Request(int number, bool own_environment) {
  v1::SubmitJobRequest request;
  request.add_arguments("sleep");
  request.add_arguments("600");
  request.set_working_directory("/");
  for (int i = 0; i < 50; ++i) {
    std::string value(90, static_cast<char>('a' + i % 26));
    if (own_environment) value.replace(0, 8, std::to_string(10'000'000 + number));
    request.add_environment("VARIABLE_" + std::to_string(i) + "=" + value);
  }
  request.mutable_policy()->set_memory_bytes(std::int64_t{1} << 30);
  return request;
}

double Submit(v1::JobService::Stub& jobs, const v1::SubmitJobRequest& request) {
  grpc::ClientContext context;
  v1::SubmitJobResponse response;
  const Clock::time_point start = Clock::now();
  const grpc::Status status = jobs.SubmitJob(&context, request, &response);
  if (!status.ok()) Die("submit: " + status.error_message());
  return MillisecondsSince(start);
}

void SubmitMany(const std::string& program, int count, bool own_environment) {
  Daemon daemon(program);
  daemon.Start();
  const auto jobs = daemon.Jobs();
  Submit(*jobs, Request(0, own_environment));
  // The allocator, the channel and the log have grown to their size by then.
  constexpr int kWarm = 200;
  for (int i = 1; i <= kWarm; ++i) Submit(*jobs, Request(i, own_environment));
  const long rss = daemon.Status("VmRSS");
  const long descriptors = daemon.Descriptors();
  const long children = daemon.Children();
  std::vector<double> times;
  for (int i = 0; i < count; ++i)
    times.push_back(Submit(*jobs, Request(1000 + i, own_environment)));
  const auto part = static_cast<std::ptrdiff_t>(times.size() / 20);
  const double first = Median({times.begin(), times.begin() + part});
  const double last = Median({times.end() - part, times.end()});
  std::printf("%d more with %s environment of 5 KB:\n", count,
              own_environment ? "each its own" : "all one");
  std::printf("  submit, median      first 5 %% %.2f ms, last 5 %% %.2f ms: %.2f x\n", first, last,
              last / first);
  std::printf("  RSS of the daemon   %.1f MiB, %+.1f MiB by them\n",
              static_cast<double>(daemon.Status("VmRSS")) / 1024,
              static_cast<double>(daemon.Status("VmRSS") - rss) / 1024);
  std::printf("  descriptors         %+ld, processes %+ld, threads %ld\n",
              daemon.Descriptors() - descriptors, daemon.Children() - children,
              daemon.Status("Threads"));
  std::printf("  store               %.1f MiB\n", daemon.StoreMiB());
  // The one that runs.
  grpc::ClientContext context;
  v1::CancelJobRequest cancel;
  v1::CancelJobResponse cancelled;
  v1::HoldQueueRequest hold;
  v1::HoldQueueResponse held;
  grpc::ClientContext hold_context;
  jobs->HoldQueue(&hold_context, hold, &held);
  cancel.set_id(1);
  jobs->CancelJob(&context, cancel, &cancelled);
}

void Fill(const std::string& path, int count) {
  const auto store = store::Store::Open(path);
  if (!store.ok()) Die(std::string(store.status().message()));
  for (int from = 1; from <= count; from += 10'000) {
    store::Batch batch;
    for (int id = from; id < std::min(from + 10'000, count + 1); ++id) {
      core::JobRecord record;
      record.id = core::JobId{id};
      record.name = "train" + std::to_string(id);
      record.command = "python train.py --seed " + std::to_string(id);
      record.policy.memory = GiB(1);
      record.held = true;
      record.state = core::JobState::kPending;
      record.submit_time = absl::Now();
      batch.added.push_back({record, std::nullopt});
    }
    const absl::Status status = (*store)->Commit(batch);
    if (!status.ok()) Die(std::string(status.message()));
  }
}

v1::ListJobsResponse Page(v1::JobService::Stub& jobs, const v1::ListJobsRequest& request) {
  grpc::ClientContext context;
  v1::ListJobsResponse response;
  const grpc::Status status = jobs.ListJobs(&context, request, &response);
  if (!status.ok()) Die("list: " + status.error_message());
  return response;
}

void ListMany(const std::string& program, const std::string& ctl, int count) {
  Daemon daemon(program);
  Fill(daemon.home() + "/stageload.db", count);
  std::printf("%d in the queue:\n", count);
  std::printf("  the daemon answers  %.0f ms after its start\n", daemon.Start());
  const auto jobs = daemon.Jobs();
  v1::ListJobsRequest request;
  request.set_page_size(500);
  request.set_order(v1::JOB_ORDER_QUEUE);
  if (Page(*jobs, request).jobs_size() != 500) Die("the first page is not full");
  std::vector<double> times;
  for (int i = 0; i < 20; ++i) {
    const Clock::time_point start = Clock::now();
    Page(*jobs, request);
    times.push_back(MillisecondsSince(start));
  }
  std::printf("  first page of 500   %.1f ms, median of 20; the slowest %.1f ms\n", Median(times),
              *std::max_element(times.begin(), times.end()));
  const Clock::time_point start = Clock::now();
  int seen = 0;
  do {
    const v1::ListJobsResponse page = Page(*jobs, request);
    seen += page.jobs_size();
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (seen != count) Die("the pages hold " + std::to_string(seen));
  std::printf("  all pages           %.0f ms\n", MillisecondsSince(start));

  const Clock::time_point streamed = Clock::now();
  std::FILE* out = ::popen((ctl + " queue --json").c_str(), "re");
  char buffer[65536];
  if (out == nullptr || std::fread(buffer, 1, 4096, out) != 4096) Die("run " + ctl);
  const double first = MillisecondsSince(streamed);
  while (std::fread(buffer, 1, sizeof(buffer), out) > 0) {
  }
  ::pclose(out);
  std::printf("  queue --json        first 4 KB after %.0f ms, the whole after %.0f ms\n", first,
              MillisecondsSince(streamed));
}

}  // namespace
}  // namespace stageload

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: queue_bench STAGELOADD STAGELOADCTL [JOBS [LISTED]]\n");
    return 2;
  }
  const int submitted = argc > 3 ? std::atoi(argv[3]) : 10'000;
  const int listed = argc > 4 ? std::atoi(argv[4]) : 100'000;
  stageload::SubmitMany(argv[1], submitted, /*own_environment=*/true);
  stageload::SubmitMany(argv[1], submitted, /*own_environment=*/false);
  stageload::ListMany(argv[1], argv[2], listed);
  return 0;
}
