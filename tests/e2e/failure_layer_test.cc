// The N-th call that changes something below the home fails, for N = 1, 2, ... until a run is
// clean: once, or for ever until the daemon is started again. Whatever fails, each acknowledged job
// ends once, with its own exit code or in a state that does not claim one, and a refused one never
// runs. The layer is tests/faults/fault_layer.cc; the programs know nothing of it.
//
// By default the odd N fail as a broken disk and the even as a full one; STAGELOAD_FAULTS_EVERY=1
// tries each N with both, STAGELOAD_FAULTS_ONLY=N one.
#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "stageload/v1/job_service.grpc.pb.h"
#include "tests/e2e/daemon_fixture.h"
#include "tests/e2e/processes.h"
#include "tests/faults/fault_control.h"

namespace stageload::e2e {
namespace {

using faults::FaultControl;

constexpr int kSideBySide = 4;
// How long a run with a broken disk is given before its daemon is ended: most of what can still
// happen has happened then, and none of it is waited for.
constexpr absl::Duration kBrokenFor = absl::Milliseconds(300);

int FromEnvironment(const char* name, int otherwise) {
  const char* text = getenv(name);
  int value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// The file that a test shares with the layer in the programs.
class Control {
 public:
  Control(const std::string& path, const std::string& home) : path_(path) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    EXPECT_GE(file, 0) << path;
    EXPECT_EQ(ftruncate(file, sizeof(FaultControl)), 0);
    void* at = mmap(nullptr, sizeof(FaultControl), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT_NE(at, MAP_FAILED);
    close(file);
    shared_ = static_cast<FaultControl*>(at);
    std::strncpy(shared_->home, home.c_str(), sizeof(shared_->home) - 1);
  }
  ~Control() { munmap(shared_, sizeof(FaultControl)); }
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  FaultControl* operator->() { return shared_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  FaultControl* shared_ = nullptr;
};

std::unique_ptr<v1::JobService::Stub> Dial(const std::string& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket.c_str(), sizeof(address.sun_path) - 1);
  const int connection = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    close(connection);
    return nullptr;
  }
  return v1::JobService::NewStub(grpc::CreateInsecureChannelFromFd("home", connection));
}

struct Submitted {
  std::string word;
  int code = 0;
  std::int64_t id = 0;  // 0 when it was refused
  grpc::Status status;
};

// One run: a home and a daemon of its own.
class Trial {
 public:
  Trial(std::string folder, std::vector<std::string> environment, std::int64_t fail_at, int error,
        bool for_ever)
      : folder_(std::move(folder)),
        home_(folder_ + "/home"),
        environment_(std::move(environment)),
        fail_at_(fail_at),
        kill_(error == 0),
        for_ever_(for_ever) {
    std::filesystem::create_directories(home_);
    std::filesystem::permissions(home_, std::filesystem::perms::owner_all);
    std::erase_if(environment_, [](const std::string& variable) {
      return absl::StartsWith(variable, "STAGELOAD_HOME=");
    });
    environment_.push_back("STAGELOAD_HOME=" + home_);
    control_.emplace(folder_ + "/control", home_);
    (*control_)->fail_at = fail_at;
    (*control_)->error = error;
    (*control_)->for_ever = for_ever;
  }

  // False when nothing failed: N is beyond the last call.
  bool Do() {
    SCOPED_TRACE(absl::StrCat("N = ", fail_at_));
    Broken();
    const bool failed = (*control_)->failed > 0;
    (*control_)->fail_at = 0;
    WriteFile(folder_ + "/go", "");
    SCOPED_TRACE(absl::StrCat("first to fail: ", (*control_)->first));
    Sound();
    if (!::testing::Test::HasFailure()) std::filesystem::remove_all(folder_);
    return failed;
  }

  // The disk breaks while a job runs and works again after its end.
  void DoLateResult() {
    ChildProcess daemon = Start("broken", true);
    ASSERT_TRUE(Answers(daemon)) << daemon.Err();
    Submit("late", 13, "while [ ! -e go ]; do sleep 0.02; done; ");
    ASSERT_GT(submitted_.front().id, 0) << submitted_.front().status.error_message();
    ASSERT_TRUE(Eventually([&] { return Lines().count("late") > 0; }));
    (*control_)->fail_at = (*control_)->calls + 1;
    WriteFile(folder_ + "/go", "");
    const std::int64_t id = submitted_.front().id;
    EXPECT_TRUE(Eventually([&] {
      const std::optional<v1::Job> job = Get(id);
      return job && absl::StrContains(job->reason_text(), "could not be written");
    })) << Get(id)->ShortDebugString();
    EXPECT_EQ(Get(id)->state(), v1::JOB_STATE_RUNNING);
    (*control_)->fail_at = 0;
    Check(submitted_.front());
    EXPECT_EQ(Get(id)->exit_code(), 13);
    EXPECT_EQ(Get(id)->reason_text(), "");
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait().exit_code, 0);
  }

  // Jobs whose end could not be written, and that claim none.
  int untold() const { return untold_; }

 private:
  ChildProcess Start(const std::string& output, bool layer) {
    std::vector<std::string> environment = environment_;
    if (layer) {
      environment.push_back(absl::StrCat("LD_PRELOAD=", STAGELOAD_E2E_FAULT_LAYER));
      environment.push_back(absl::StrCat(faults::kControlVariable, "=", control_->path()));
    }
    return ChildProcess({.argv = {kDaemonProgram},
                         .environment = environment,
                         .directory = folder_,
                         .input = "",
                         .output = folder_ + "/" + output});
  }

  // Whether it answers; else it has ended, and said why.
  bool Answers(ChildProcess& daemon) {
    stub_.reset();
    Eventually([&] {
      if (!daemon.Running()) return true;
      stub_ = Dial(home_ + "/stageloadd.sock");
      return stub_ != nullptr && List().has_value();
    });
    return daemon.Running();
  }

  std::optional<v1::ListJobsResponse> List() {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
    v1::ListJobsRequest request;
    request.set_page_size(100);
    v1::ListJobsResponse response;
    if (!stub_->ListJobs(&context, request, &response).ok()) return std::nullopt;
    return response;
  }

  std::optional<v1::Job> Get(std::int64_t id) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
    v1::GetJobRequest request;
    request.set_id(id);
    v1::GetJobResponse response;
    if (!stub_->GetJob(&context, request, &response).ok()) return std::nullopt;
    return response.job();
  }

  void Submit(const std::string& word, int code, const std::string& before_end) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
    v1::SubmitJobRequest request;
    for (const std::string& argument :
         {std::string("/bin/sh"), std::string("-c"),
          absl::StrCat("echo ", word, " >> started; echo out; ", before_end, "exit ", code)}) {
      request.add_arguments(argument);
    }
    request.set_working_directory(folder_);
    request.add_environment("PATH=/usr/bin:/bin");
    request.mutable_policy()->set_memory_bytes(1 << 20);
    request.mutable_policy()->set_wait_free_percent(0);
    v1::SubmitJobResponse response;
    Submitted submitted{word, code, 0, stub_->SubmitJob(&context, request, &response)};
    if (submitted.status.ok()) submitted.id = response.job().id();
    submitted_.push_back(submitted);
  }

  bool HasEnded(std::int64_t id) {
    const std::optional<v1::Job> job = Get(id);
    return job.has_value() && job->state() >= v1::JOB_STATE_COMPLETED;
  }

  void Broken() {
    ChildProcess daemon = Start("broken", true);
    if (!Answers(daemon)) {
      const Result result = daemon.Wait();
      if (kill_) return;
      EXPECT_EQ(result.exit_code, 1) << result;
      EXPECT_THAT(result.err, ::testing::StartsWith("stageloadd: ")) << "no word on why";
      return;
    }
    Submit("one", 11, "");
    Submit("two", 12, "while [ ! -e go ]; do sleep 0.02; done; ");
    Submit("three", 0, "");
    const absl::Duration patience = for_ever_ ? kBrokenFor : absl::Seconds(10);
    Eventually(
        [&] {
          if (kill_ && !daemon.Running()) return true;
          return std::all_of(submitted_.begin(), submitted_.end(), [&](const Submitted& job) {
            return job.id == 0 || job.word == "two" || HasEnded(job.id);
          });
        },
        patience);
    // Both ways to end a daemon; told to, it goes within two seconds also with a broken disk.
    daemon.Signal(fail_at_ / 2 % 2 == 0 ? SIGTERM : SIGKILL);
    daemon.Wait();
  }

  void Sound() {
    ChildProcess daemon = Start("sound", false);
    ASSERT_TRUE(Answers(daemon)) << "the next daemon does not start: " << daemon.Err();
    for (const Submitted& job : submitted_) Check(job);
    for (const auto& [word, times] : Lines()) EXPECT_EQ(times, 1) << word << " ran again";
    const auto list = List();
    ASSERT_TRUE(list.has_value());
    int accepted = 0;
    int undecided = 0;
    for (const Submitted& job : submitted_) {
      if (job.id > 0) ++accepted;
      if (Undecided(job)) ++undecided;
    }
    EXPECT_GE(list->jobs_size(), accepted);
    EXPECT_LE(list->jobs_size(), accepted + undecided)
        << "a refused submit left something behind: " << list->ShortDebugString();
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait().exit_code, 0);
    EXPECT_TRUE(Eventually([&] { return ProcessesOf(folder_).empty(); }, absl::Seconds(10)))
        << "left running: " << ProcessesOf(folder_).front().command;
    SQLite::Database store(home_ + "/stageload.db", SQLite::OPEN_READWRITE);
    EXPECT_EQ(store.execAndGet("PRAGMA integrity_check").getString(), "ok");
    for (const auto& entry : std::filesystem::directory_iterator(home_)) {
      EXPECT_FALSE(absl::StrContains(entry.path().string(), "damaged")) << entry.path();
    }
  }

  // Not answered before the daemon was killed; or refused since the last fsync of its commit
  // failed, and nothing could be written after that: what the disk kept of it is not known, and the
  // answer said so. It may run, once.
  bool Undecided(const Submitted& job) const {
    if (kill_ && job.id == 0) return true;
    return for_ever_ && job.id == 0 &&
           absl::StrContains(job.status.error_message(), "may keep this or not");
  }

  void Check(const Submitted& job) {
    SCOPED_TRACE(absl::StrCat("job ", job.word));
    if (job.id == 0) {
      EXPECT_EQ(job.status.error_code(), grpc::StatusCode::UNAVAILABLE)
          << job.status.error_message();
      EXPECT_NE(job.status.error_message(), "");
      EXPECT_LE(Lines()[job.word], Undecided(job) ? 1 : 0) << "was refused and ran";
      return;
    }
    ASSERT_TRUE(Eventually([&] { return HasEnded(job.id); }, absl::Seconds(20)))
        << Get(job.id)->ShortDebugString();
    const v1::Job end = *Get(job.id);
    const int lines = Lines()[job.word];
    const auto own = job.code == 0 ? v1::JOB_STATE_COMPLETED : v1::JOB_STATE_FAILED;
    if (end.state() == own && end.has_exit_code() && end.exit_code() == job.code) {
      EXPECT_EQ(lines, 1) << end.ShortDebugString();
      return;
    }
    // Only a disk that stays broken may cost the truth.
    EXPECT_TRUE(for_ever_) << "ran " << lines << " times: " << end.ShortDebugString();
    ++untold_;
    if (end.state() == v1::JOB_STATE_UNKNOWN) return;
    EXPECT_EQ(end.state(), v1::JOB_STATE_FAILED) << end.ShortDebugString();
    EXPECT_EQ(end.reason(), v1::REASON_START_FAILED) << end.ShortDebugString();
    EXPECT_EQ(lines, 0) << "ran, and is said to have never started: " << end.ShortDebugString();
  }

  std::map<std::string, int> Lines() const {
    std::map<std::string, int> lines;
    std::istringstream text(ReadFile(folder_ + "/started"));
    for (std::string line; std::getline(text, line);) ++lines[line];
    return lines;
  }

  const std::string folder_;
  const std::string home_;
  std::vector<std::string> environment_;
  const std::int64_t fail_at_;
  const bool kill_;
  const bool for_ever_;
  std::optional<Control> control_;
  std::unique_ptr<v1::JobService::Stub> stub_;
  std::vector<Submitted> submitted_;
  int untold_ = 0;
};

// Each N from `first` on, until nothing failed.
class Sweep : public DaemonTest {
 protected:
  void Do(int first, int every, int error, bool for_ever) {
    const int only = FromEnvironment("STAGELOAD_FAULTS_ONLY", 0);
    const absl::Time start = absl::Now();
    next_ = only > 0 ? only : first;
    const auto work = [&] {
      while (!clean_ && !HasFailure()) {
        const std::int64_t fail_at = next_.fetch_add(every);
        Trial trial(absl::StrCat(folder(), "/", fail_at), Environment(), fail_at, error, for_ever);
        if (!trial.Do()) {
          clean_ = true;
          break;
        }
        ++runs_;
        untold_ += trial.untold();
        if (fail_at > last_) last_ = fail_at;
        if (only > 0) clean_ = true;
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < (only > 0 ? 1 : kSideBySide); ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    std::cout << "the last call that failed was number " << last_ << "; " << runs_ << " runs in "
              << absl::FormatDuration(absl::Now() - start) << ", " << untold_
              << " jobs ended without a word on how\n";
    EXPECT_TRUE(only > 0 || last_ > 50) << "the layer was not loaded";
  }

 private:
  std::atomic<std::int64_t> next_ = 0;
  std::atomic<bool> clean_ = false;
  std::atomic<int> runs_ = 0;
  std::atomic<int> untold_ = 0;
  std::atomic<std::int64_t> last_ = 0;
};

class FailureLayer : public Sweep, public ::testing::WithParamInterface<std::tuple<int, bool>> {};

TEST_P(FailureLayer, WhicheverCallFailsEachAcknowledgedJobEndsOnceAndTruly) {
  const auto [error, for_ever] = GetParam();
  const int every = FromEnvironment("STAGELOAD_FAULTS_EVERY", 2);
  Do(error == ENOSPC ? every : 1, every, error, for_ever);
}

TEST_F(Sweep, AResultThatCannotBeWrittenIsToldByShowAndWrittenOnceTheDiskWorks) {
  Trial(folder() + "/late", Environment(), 0, EIO, true).DoLateResult();
}

class Crash : public Sweep {};

TEST_F(Crash, Scenario20WhereverTheDaemonIsKilledEachAcknowledgedJobRunsOnceAndNoShimIsLeft) {
  Do(1, FromEnvironment("STAGELOAD_FAULTS_EVERY", 1), 0, false);
}

INSTANTIATE_TEST_SUITE_P(Disk, FailureLayer,
                         ::testing::Combine(::testing::Values(EIO, ENOSPC), ::testing::Bool()),
                         [](const auto& parameter) {
                           return absl::StrCat(
                               std::get<0>(parameter.param) == EIO ? "Broken" : "Full",
                               std::get<1>(parameter.param) ? "ForEver" : "Once");
                         });

}  // namespace
}  // namespace stageload::e2e
