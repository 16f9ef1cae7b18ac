// One life of a daemon without its socket: a real store, real shims and real processes; only the
// memory of the machine is made up.
#ifndef STAGELOAD_TESTS_DAEMON_ENGINE_ENGINE_FIXTURE_H_
#define STAGELOAD_TESTS_DAEMON_ENGINE_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>
#include <spawn.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/engine/engine.h"
#include "tests/daemon/host/steered_host.h"
#include "tests/exits_thread.h"
#include "tests/fixture.h"

extern char** environ;  // declared by no header of macOS

namespace stageload::engine {

inline constexpr std::chrono::seconds kDeadline{20};

// A value that another thread brings.
template <typename T>
class Promised {
 public:
  void Set(T value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    value_.emplace(std::move(value));
    set_.notify_all();
  }
  T Get() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!set_.wait_for(lock, kDeadline, [this] { return value_.has_value(); })) {
      ADD_FAILURE() << "no answer within 20 s";
      abort();  // the callback would write to what is gone
    }
    return *value_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable set_;
  std::optional<T> value_;
};

// One life of a daemon, without its socket.
class Life {
 public:
  Life(const std::string& folder, host::SteeredHost& host, core::Config config = {})
      : hub_([](const telemetry::Frame&) { return telemetry::Encoded(); }),
        jobs_(folder + "/jobs", STAGELOAD_SHIM) {
    auto store = store::Store::Open(folder + "/stageload.db");
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    Engine::Options options;
    options.config = config;
    engine_ = std::make_unique<Engine>(options, Engine::Parts{&host, store_.get(), &jobs_, &hub_});
    auto watcher = jobs::ExitWatcher::Create(
        [this](const core::ProcessIdentity& identity) { engine_->ProcessExited(identity); });
    EXPECT_TRUE(watcher.ok()) << watcher.status();
    watcher_ = *std::move(watcher);
    engine_->SetExitWatcher(watcher_.get());
    const absl::Status restored = engine_->Restore();
    EXPECT_TRUE(restored.ok()) << restored;
    watcher_thread_ = std::make_unique<jobs::ExitsThread>(*watcher_);
    engine_thread_ = std::thread([this] { engine_->Run(); });
  }
  ~Life() {
    engine_->Stop();
    engine_thread_.join();
    watcher_thread_.reset();
  }

  Engine& engine() { return *engine_; }
  store::Store& store() { return *store_; }
  telemetry::Hub& hub() { return hub_; }

  absl::StatusOr<JobView> Submit(std::vector<std::string> argv, core::Policy policy = {},
                                 const std::string& request_id = "") {
    SubmitRequest request;
    request.name = argv[0];
    request.policy = policy;
    request.spec.argv = std::move(argv);
    request.spec.working_directory = "/";
    request.spec.environment = {"PATH=/usr/bin:/bin"};
    request.request_id = request_id;
    Promised<absl::StatusOr<JobView>> answer;
    engine_->Submit(std::move(request), [&](auto job) { answer.Set(std::move(job)); });
    return answer.Get();
  }
  absl::StatusOr<JobView> Get(core::JobId id) {
    Promised<absl::StatusOr<JobView>> answer;
    engine_->Get(id, [&](auto job) { answer.Set(std::move(job)); });
    return answer.Get();
  }
  absl::StatusOr<JobPage> List() {
    Promised<absl::StatusOr<JobPage>> answer;
    engine_->List({}, [&](auto page) { answer.Set(std::move(page)); });
    return answer.Get();
  }
  absl::StatusOr<JobView> Control(core::JobId id, Engine::Request request) {
    Promised<absl::StatusOr<JobView>> answer;
    engine_->Control(id, request, [&](auto job) { answer.Set(std::move(job)); });
    return answer.Get();
  }
  absl::StatusOr<JobView> Cancel(core::JobId id) { return Control(id, Engine::Request::kCancel); }
  absl::StatusOr<JobView> Retry(core::JobId id, std::optional<Bytes> memory = std::nullopt,
                                const std::string& request_id = "") {
    Promised<absl::StatusOr<JobView>> answer;
    engine_->Retry({id, memory, {}, request_id}, [&](auto job) { answer.Set(std::move(job)); });
    return answer.Get();
  }
  absl::StatusOr<JobView> Delete(core::JobId id) {
    Promised<absl::StatusOr<JobView>> answer;
    engine_->Delete(id, [&](auto job) { answer.Set(std::move(job)); });
    return answer.Get();
  }
  absl::StatusOr<JobView> Guard(pid_t pid, core::Policy policy = {}) {
    Promised<absl::StatusOr<JobView>> answer;
    engine_->Guard({"guarded", "guarded", policy, {}, pid}, [&](auto job) { answer.Set(job); });
    return answer.Get();
  }
  absl::StatusOr<JobView> ResumeGuard(core::JobId id, pid_t pid) {
    Promised<absl::StatusOr<JobView>> answer;
    engine_->ResumeGuard(id, pid, [&](auto job) { answer.Set(std::move(job)); });
    return answer.Get();
  }
  absl::StatusOr<JobView> ReportExit(core::JobId id, core::Outcome outcome) {
    Promised<absl::StatusOr<JobView>> answer;
    engine_->ReportExit(id, outcome, [&](auto job) { answer.Set(job); });
    return answer.Get();
  }
  // Watches until the job is in `state` or in an end state.
  absl::StatusOr<JobView> WaitFor(core::JobId id, core::JobState state) {
    auto answer = std::make_shared<Promised<absl::StatusOr<JobView>>>();
    const Engine::WatchToken token = engine_->NewWatchToken();
    engine_->Watch(token, id, [answer, state](absl::StatusOr<JobView> job) {
      if (!job.ok() || job->record.state == state || core::IsEnd(job->record.state)) {
        answer->Set(std::move(job));
      }
    });
    auto job = answer->Get();
    engine_->Unwatch(token);
    return job;
  }
  absl::StatusOr<JobView> WaitForEnd(core::JobId id) {
    return WaitFor(id, core::JobState::kUnknown);
  }

 private:
  telemetry::Hub hub_;
  jobs::Jobs jobs_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<jobs::ExitWatcher> watcher_;
  std::thread engine_thread_;
  std::unique_ptr<jobs::ExitsThread> watcher_thread_;
};

class EngineTest : public testing::Test {
 protected:
  static pid_t Spawn(std::vector<std::string> argv) {
    std::vector<char*> words;
    for (std::string& word : argv) words.push_back(word.data());
    words.push_back(nullptr);
    pid_t pid = 0;
    EXPECT_EQ(posix_spawnp(&pid, words[0], nullptr, nullptr, words.data(), environ), 0);
    return pid;
  }

  const TemporaryFolder temporary_;
  const std::string& folder_ = temporary_.path();
  host::SteeredHost host_;
};

}  // namespace stageload::engine

#endif  // STAGELOAD_TESTS_DAEMON_ENGINE_ENGINE_FIXTURE_H_
