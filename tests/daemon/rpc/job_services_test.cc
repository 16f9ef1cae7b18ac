// Jobs and guards over the API, with the real engine, store and shim; only the memory of the
// machine is made up.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "daemon/jobs/exit_watcher.h"
#include "daemon/jobs/jobs.h"
#include "daemon/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "stageload/v1/admission_service.grpc.pb.h"
#include "stageload/v1/job_service.grpc.pb.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"
#include "tests/daemon/host/steered_host.h"
#include "tests/daemon/rpc/api_fixture.h"
#include "tests/exits_thread.h"

extern char** environ;  // declared by no header of macOS

namespace stageload::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A child that only waits for its end.
class Child {
 public:
  Child() {
    char sleep[] = "sleep";
    char seconds[] = "1000";
    char* const argv[] = {sleep, seconds, nullptr};
    EXPECT_EQ(::posix_spawnp(&pid_, sleep, nullptr, nullptr, argv, environ), 0);
  }
  ~Child() { End(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void End() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

class JobServicesTest : public testing::Test {
 protected:
  JobServicesTest() : jobs_(folder_.path() + "/jobs", STAGELOAD_SHIM) {
    auto store = store::Store::Open(folder_.path() + "/stageload.db");
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    engine_ = std::make_unique<engine::Engine>(
        engine::Engine::Options{}, engine::Engine::Parts{&host_, store_.get(), &jobs_, &hub_});
    auto exits = jobs::ExitWatcher::Create(
        [this](const core::ProcessIdentity& identity) { engine_->ProcessExited(identity); });
    EXPECT_TRUE(exits.ok()) << exits.status();
    exits_ = *std::move(exits);
    engine_->SetExitWatcher(exits_.get());
    const absl::Status restored = engine_->Restore();
    EXPECT_TRUE(restored.ok()) << restored;
    exits_thread_ = std::make_unique<jobs::ExitsThread>(*exits_);
    engine_thread_ = std::thread([this] { engine_->Run(); });
    api_.emplace(MakeParts());
    channel_ = api_->Connect();
    stub_ = v1::JobService::NewStub(channel_);
    admission_ = v1::AdmissionService::NewStub(channel_);
  }
  ~JobServicesTest() override {
    CancelWhatIsLeft();
    Stop();
    api_.reset();
  }

  Parts MakeParts() {
    Parts parts;
    parts.engine = engine_.get();
    parts.hub = &hub_;
    parts.find_process = [this](std::int32_t pid) -> absl::StatusOr<host::Process> {
      const std::lock_guard<std::mutex> lock(table_mutex_);
      if (const auto process = table_.find(pid); process != table_.end()) return process->second;
      return finder_->Find(pid);
    };
    return parts;
  }
  // From now on `pid` is a child of `parent` and belongs to `uid`, for what the API asks.
  void Pretend(std::int32_t pid, std::int32_t parent, std::uint32_t uid) {
    const std::lock_guard<std::mutex> lock(table_mutex_);
    table_[pid] = {.identity = {pid, 1},
                   .parent = parent,
                   .group = pid,
                   .session = pid,
                   .parent_at_fork = 0,
                   .uid = uid,
                   .state = 'S'};
  }

  // Once this returns, the engine has seen it.
  void SetLevel(int percent) {
    host_.SetLevel(percent);
    ASSERT_TRUE(Eventually([&] {
      v1::GetSnapshotResponse newest;
      return hub_.Newest() != nullptr && newest.ParseFromString(hub_.Newest()->wire.bytes) &&
             newest.frame().host().level_percent() == percent;
    }));
  }

  // As the daemon ends. Returns how long the server took.
  absl::Duration Stop() {
    if (!engine_thread_.joinable()) return absl::ZeroDuration();
    engine_->Stop();
    const absl::Time before = absl::Now();
    api_->Stop(absl::Milliseconds(1500));
    const absl::Duration took = absl::Now() - before;
    engine_thread_.join();
    exits_thread_.reset();
    return took;
  }

  static v1::SubmitJobRequest Shell(const std::string& script) {
    v1::SubmitJobRequest request;
    for (const char* word : {"sh", "-c"}) request.add_arguments(word);
    request.add_arguments(script);
    request.set_working_directory("/");
    request.add_environment("PATH=/usr/bin:/bin");
    request.mutable_policy()->set_grace_ns(absl::ToInt64Nanoseconds(absl::Milliseconds(200)));
    return request;
  }
  grpc::Status Submit(const v1::SubmitJobRequest& request, v1::Job& job) {
    Context context;
    v1::SubmitJobResponse response;
    const grpc::Status status = stub_->SubmitJob(&context, request, &response);
    job = response.job();
    return status;
  }
  std::int64_t SubmitShell(const std::string& script) {
    v1::Job job;
    const grpc::Status status = Submit(Shell(script), job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.id();
  }
  // After which others may start at once.
  std::int64_t SubmitDeclared(const std::string& script) {
    v1::SubmitJobRequest request = Shell(script);
    request.mutable_policy()->set_memory_bytes(1 << 20);
    v1::Job job;
    const grpc::Status status = Submit(request, job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.id();
  }
  grpc::Status Get(std::int64_t id, v1::Job& job) {
    Context context;
    v1::GetJobRequest request;
    request.set_id(id);
    v1::GetJobResponse response;
    const grpc::Status status = stub_->GetJob(&context, request, &response);
    job = response.job();
    return status;
  }
  grpc::Status Cancel(std::int64_t id) {
    Context context;
    v1::CancelJobRequest request;
    request.set_id(id);
    v1::CancelJobResponse response;
    return stub_->CancelJob(&context, request, &response);
  }
  // All that WaitJob says.
  std::vector<v1::Job> WaitForEnd(std::int64_t id) {
    Context context;
    v1::WaitJobRequest request;
    request.set_id(id);
    const auto reader = stub_->WaitJob(&context, request);
    std::vector<v1::Job> states;
    v1::WaitJobResponse response;
    while (reader->Read(&response)) states.push_back(response.job());
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return states;
  }
  v1::ListJobsResponse List(const v1::ListJobsRequest& request) {
    Context context;
    v1::ListJobsResponse response;
    const grpc::Status status = stub_->ListJobs(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  struct Log {
    std::string out, err;
    grpc::Status status;
  };
  Log ReadLog(std::int64_t id, bool follow, v1::LogStream stream = v1::LOG_STREAM_UNSPECIFIED) {
    Context context;
    v1::ReadLogsRequest request;
    request.set_id(id);
    request.set_follow(follow);
    request.set_stream(stream);
    const auto reader = stub_->ReadLogs(&context, request);
    Log log;
    v1::ReadLogsResponse response;
    while (reader->Read(&response)) {
      EXPECT_LE(response.data().size(), 64u << 10);
      (response.stream() == v1::LOG_STREAM_STDERR ? log.err : log.out) += response.data();
    }
    log.status = reader->Finish();
    return log;
  }
  grpc::Status ReportExit(std::int64_t id, int code) {
    Context context;
    v1::ReportExitRequest request;
    request.set_id(id);
    request.set_exit_code(code);
    v1::ReportExitResponse response;
    return admission_->ReportExit(&context, request, &response);
  }
  static v1::GuardRequest GuardOf(pid_t pid) {
    v1::GuardRequest request;
    request.set_pid(pid);
    request.add_arguments("sleep");
    return request;
  }
  // Reads until the guard is in `state`; nothing when the stream ends before.
  static std::optional<v1::Job> ReadUntil(grpc::ClientReader<v1::GuardResponse>& reader,
                                          v1::JobState state) {
    v1::GuardResponse response;
    while (reader.Read(&response)) {
      if (response.job().state() == state) return response.job();
    }
    return std::nullopt;
  }

  TemporaryFolder folder_;
  host::SteeredHost host_;
  std::unique_ptr<host::Host> finder_ = host::NewLocalHost();
  std::mutex table_mutex_;
  std::map<std::int32_t, host::Process> table_;
  telemetry::Hub hub_{EncodeFrame};
  jobs::Jobs jobs_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<jobs::ExitWatcher> exits_;
  std::thread engine_thread_;
  std::unique_ptr<jobs::ExitsThread> exits_thread_;
  std::optional<Api> api_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> stub_;
  std::unique_ptr<v1::AdmissionService::Stub> admission_;

 private:
  // No process of a test outlives it.
  void CancelWhatIsLeft() {
    if (!engine_thread_.joinable()) return;  // such a test has none
    v1::ListJobsRequest request;
    for (const v1::JobState state : {v1::JOB_STATE_PENDING, v1::JOB_STATE_RUNNING}) {
      request.add_states(state);
    }
    const v1::ListJobsResponse left = List(request);
    for (const v1::Job& job : left.jobs()) {
      (void)Cancel(job.id());  // it may have ended by now
      WaitForEnd(job.id());
    }
  }
};

// ---- Jobs ----

TEST_F(JobServicesTest, AJobRunsAndItsWaiterSeesEachStateUntilTheEnd) {
  v1::SubmitJobRequest request = Shell("exit 7");
  request.set_name("seven");
  v1::Job job;
  ASSERT_TRUE(Submit(request, job).ok());
  EXPECT_EQ(job.id(), 1);
  EXPECT_EQ(job.name(), "seven");
  EXPECT_EQ(job.command(), "sh -c 'exit 7'");
  const std::vector<v1::Job> states = WaitForEnd(job.id());
  ASSERT_FALSE(states.empty());
  EXPECT_EQ(states.back().state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(states.back().exit_code(), 7);
  ASSERT_TRUE(Get(job.id(), job).ok());
  EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.log_directory(), jobs_.FolderOf(core::JobId{1}));
}

TEST_F(JobServicesTest, WaitingForAJobThatHasEndedSaysItsEndAtOnce) {
  const std::int64_t id = SubmitShell("true");
  WaitForEnd(id);
  const std::vector<v1::Job> states = WaitForEnd(id);
  ASSERT_THAT(states, SizeIs(1));
  EXPECT_EQ(states[0].state(), v1::JOB_STATE_COMPLETED);
}

TEST_F(JobServicesTest, TheJobGetsItsBytesFolderAndEnvironmentAsTheyWere) {
  v1::SubmitJobRequest request = Shell("printf '%s|%s|%s|%s' \"$PWD\" \"$ODD\" \"$1\" \"$2\"");
  request.add_arguments("sh");
  request.add_arguments("\xFF\xFE");
  request.add_arguments("");
  request.add_environment("ODD=a=\x80\n b");
  const std::string odd = folder_.path() + "/odd \xE9 folder";
  ASSERT_TRUE(std::filesystem::create_directory(odd));
  request.set_working_directory(odd);
  v1::Job job;
  ASSERT_TRUE(Submit(request, job).ok());
  const Log log = ReadLog(job.id(), true);
  EXPECT_EQ(log.out, odd + "|a=\x80\n b|\xFF\xFE|");
  EXPECT_TRUE(log.status.ok());
}

TEST_F(JobServicesTest, AnUnknownIdIsNotFoundAndAnIdBelowOneInvalid) {
  struct Call {
    const char* name;
    std::function<grpc::Status(std::int64_t)> call;
  };
  const std::vector<Call> calls = {
      {"GetJob",
       [&](std::int64_t id) {
         v1::Job job;
         return Get(id, job);
       }},
      {"CancelJob", [&](std::int64_t id) { return Cancel(id); }},
      {"WaitJob",
       [&](std::int64_t id) {
         Context context;
         v1::WaitJobRequest request;
         request.set_id(id);
         return stub_->WaitJob(&context, request)->Finish();
       }},
      {"ReadLogs", [&](std::int64_t id) { return ReadLog(id, false).status; }},
      {"ReadLogs, followed", [&](std::int64_t id) { return ReadLog(id, true).status; }},
      {"ReportExit", [&](std::int64_t id) { return ReportExit(id, 0); }},
  };
  for (const Call& one : calls) {
    const grpc::Status unknown = one.call(4711);
    EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND) << one.name;
    EXPECT_EQ(ReasonOnWire(unknown), kJobNotFound) << one.name;
    EXPECT_THAT(unknown.error_message(), HasSubstr("4711")) << one.name;
    for (const std::int64_t id : {0, -1}) {
      const grpc::Status bad = one.call(id);
      EXPECT_EQ(bad.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << one.name;
      EXPECT_EQ(ReasonOnWire(bad), kInvalidField) << one.name;
    }
  }
}

TEST_F(JobServicesTest, ABadSubmitNamesTheFieldAndQueuesNothing) {
  v1::SubmitJobRequest request = Shell("true");
  request.mutable_policy()->set_swap_budget_bytes(-5);
  v1::Job job;
  const grpc::Status status = Submit(request, job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(std::string(ErrorInfoOf(status).metadata().at("field")), "policy.swap_budget_bytes");
  EXPECT_EQ(List({}).jobs_size(), 0);
}

TEST_F(JobServicesTest, WhatCanNeverFitIsRefusedWithTheArithmetic) {
  v1::SubmitJobRequest request = Shell("true");
  request.mutable_policy()->set_memory_bytes(GiB(64).count());
  v1::Job job;
  const grpc::Status status = Submit(request, job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOnWire(status), kNeverFits);
  EXPECT_THAT(status.error_message(), HasSubstr("64 GiB"));
}

TEST_F(JobServicesTest, ARequestOfMoreThanFourMebibytesIsRefusedWithBothSizesAndTheRestGoesOn) {
  v1::SubmitJobRequest request = Shell("true");
  request.add_environment("A=" + std::string(5 << 20, 'x'));
  v1::Job job;
  const grpc::Status status = Submit(request, job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr(std::to_string(4 << 20)));
  EXPECT_THAT(status.error_message(), HasSubstr(std::to_string(request.ByteSizeLong())));
  EXPECT_EQ(List({}).jobs_size(), 0);
}

TEST_F(JobServicesTest, JobsArePagedNewestFirstAndFiltered) {
  SetLevel(20);  // nothing is admitted
  for (int i = 0; i < 5; ++i) SubmitShell("true");
  ASSERT_TRUE(Cancel(3).ok());
  std::vector<std::int64_t> ids;
  v1::ListJobsRequest request;
  request.set_page_size(2);
  int pages = 0;
  do {
    const v1::ListJobsResponse page = List(request);
    for (const v1::Job& job : page.jobs()) ids.push_back(job.id());
    request.set_page_token(page.next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_THAT(ids, testing::ElementsAre(5, 4, 3, 2, 1));
  EXPECT_EQ(pages, 3);
  v1::ListJobsRequest cancelled;
  cancelled.add_states(v1::JOB_STATE_CANCELLED);
  ASSERT_EQ(List(cancelled).jobs_size(), 1);
  EXPECT_EQ(List(cancelled).jobs(0).id(), 3);
}

TEST_F(JobServicesTest, InQueueOrderPagesGoOnFromWhatWaitsToWhatRunsToWhatHasEnded) {
  const std::int64_t runs = SubmitDeclared("sleep 1000");
  const std::int64_t ended = SubmitDeclared("true");
  WaitForEnd(ended);
  SetLevel(20);  // nothing is admitted from here on
  std::vector<std::int64_t> waiting;
  for (int i = 0; i < 4; ++i) waiting.push_back(SubmitShell("true"));
  v1::SubmitJobRequest urgent = Shell("true");
  urgent.mutable_policy()->set_priority(5);
  v1::Job first;
  ASSERT_TRUE(Submit(urgent, first).ok());
  const std::int64_t cancelled = SubmitShell("true");
  ASSERT_TRUE(Cancel(cancelled).ok());

  for (const int size : {1, 2, 3, 5, 8, 100}) {
    v1::ListJobsRequest request;
    request.set_order(v1::JOB_ORDER_QUEUE);
    request.set_page_size(size);
    std::vector<std::int64_t> ids;
    std::vector<std::int64_t> places;
    do {
      const v1::ListJobsResponse page = List(request);
      EXPECT_LE(page.jobs_size(), size);
      for (const v1::Job& job : page.jobs()) {
        ids.push_back(job.id());
        if (job.queue_position() > 0) places.push_back(job.queue_position());
      }
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    EXPECT_THAT(ids, testing::ElementsAre(first.id(), waiting[0], waiting[1], waiting[2],
                                          waiting[3], runs, cancelled, ended))
        << "pages of " << size;
    EXPECT_THAT(places, testing::ElementsAre(1, 2, 3, 4, 5));
  }
  for (const char* token : {"5", "0.0", "3.0.1", "0.0.0", "0.x.1", "a.b.c", "0.0.1.2"}) {
    Context context;
    v1::ListJobsRequest request;
    request.set_order(v1::JOB_ORDER_QUEUE);
    request.set_page_token(token);
    v1::ListJobsResponse response;
    EXPECT_EQ(stub_->ListJobs(&context, request, &response).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT)
        << token;
  }
}

TEST_F(JobServicesTest, AnUpdateChangesWhatIsSetClearsWhatIsNamedAndKeepsTheRest) {
  SetLevel(20);
  v1::SubmitJobRequest submit = Shell("true");
  submit.mutable_policy()->set_memory_bytes(GiB(1).count());
  submit.mutable_policy()->set_time_limit_ns(1'000'000'000);
  submit.mutable_policy()->set_priority(2);
  v1::Job job;
  ASSERT_TRUE(Submit(submit, job).ok());
  const auto update = [&](const v1::UpdateJobRequest& request, v1::Job* changed) {
    Context context;
    v1::UpdateJobResponse response;
    const grpc::Status status = stub_->UpdateJob(&context, request, &response);
    if (changed != nullptr) *changed = response.job();
    return status;
  };
  v1::UpdateJobRequest request;
  request.set_id(job.id());
  request.mutable_policy()->set_swap_budget_bytes(GiB(2).count());
  request.mutable_policy()->add_busy_patterns("ollama");
  request.add_clear_fields("time_limit_ns");
  v1::Job changed;
  ASSERT_TRUE(update(request, &changed).ok());
  EXPECT_EQ(changed.policy().swap_budget_bytes(), GiB(2).count());
  EXPECT_THAT(changed.policy().busy_patterns(), testing::ElementsAre("ollama"));
  EXPECT_FALSE(changed.policy().has_time_limit_ns());
  EXPECT_EQ(changed.policy().memory_bytes(), GiB(1).count());
  EXPECT_EQ(changed.policy().priority(), 2);

  v1::UpdateJobRequest wrong;
  wrong.set_id(job.id());
  wrong.add_clear_fields("grace_ns");
  const grpc::Status status = update(wrong, nullptr);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("time_limit_ns"));
  wrong.clear_clear_fields();
  wrong.mutable_policy()->set_priority(5000);
  EXPECT_EQ(update(wrong, nullptr).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  wrong.set_id(77);
  EXPECT_EQ(ReasonOnWire(update(wrong, nullptr)), kJobNotFound);
}

TEST_F(JobServicesTest, WatchingAllJobsStartsWithThoseThatHaveNotEndedAndEndsWithTheDaemon) {
  const std::int64_t runs = SubmitDeclared("sleep 1000");
  WaitForEnd(SubmitDeclared("true"));
  Context context;
  const auto reader = stub_->WatchJobs(&context, {});
  v1::WatchJobsResponse change;
  ASSERT_TRUE(reader->Read(&change));
  EXPECT_EQ(change.job().id(), runs);
  const std::int64_t more = SubmitShell("exit 3");
  while (reader->Read(&change)) {
    ASSERT_EQ(change.job().id(), more);
    if (change.job().state() == v1::JOB_STATE_FAILED) break;
  }
  EXPECT_EQ(change.job().exit_code(), 3);
  Context delete_context;
  v1::DeleteJobRequest forget;
  forget.set_id(more);
  v1::DeleteJobResponse forgotten;
  ASSERT_TRUE(stub_->DeleteJob(&delete_context, forget, &forgotten).ok());
  // Its end may be told once more: as it was decided, and as it was written down.
  while (reader->Read(&change) && !change.deleted()) ASSERT_EQ(change.job().id(), more);
  EXPECT_TRUE(change.deleted());
  EXPECT_EQ(change.job().id(), more);
  ASSERT_TRUE(Cancel(runs).ok());
  WaitForEnd(runs);
  Stop();
  while (reader->Read(&change)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// 200 jobs change several times while nobody reads; the last word on each is its end.
TEST_F(JobServicesTest, WhoWatchesSlowlyGetsTheNewestOfEachJob) {
  SetLevel(20);
  Context context;
  const auto reader = stub_->WatchJobs(&context, {});
  constexpr int kJobs = 200;
  for (int i = 0; i < kJobs; ++i) SubmitShell("true");
  for (int round = 0; round < 3; ++round) {
    for (int id = 1; id <= kJobs; ++id) {
      Context update_context;
      v1::UpdateJobRequest update;
      update.set_id(id);
      update.mutable_policy()->set_priority(round + 1);
      v1::UpdateJobResponse response;
      ASSERT_TRUE(stub_->UpdateJob(&update_context, update, &response).ok());
    }
  }
  for (int id = 1; id <= kJobs; ++id) ASSERT_TRUE(Cancel(id).ok());
  std::set<std::int64_t> ended;
  int told = 0;
  v1::WatchJobsResponse change;
  while (ended.size() < kJobs && reader->Read(&change)) {
    ++told;
    if (change.job().state() == v1::JOB_STATE_CANCELLED) {
      ended.insert(change.job().id());
    } else {
      ASSERT_EQ(ended.count(change.job().id()), 0u) << "an older state after its end";
    }
  }
  EXPECT_EQ(ended.size(), std::size_t{kJobs});
  EXPECT_LE(told, kJobs * 6) << "it was submitted, changed three times, and ended";
  context.TryCancel();
}

TEST_F(JobServicesTest, AProfileThatIsNotThereCannotBeForgotten) {
  Context context;
  v1::DeleteProfileRequest request;
  request.set_name("none");
  v1::DeleteProfileResponse response;
  const grpc::Status status = stub_->DeleteProfile(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOnWire(status), kProfileNotFound);
}

TEST_F(JobServicesTest, ACancelledJobEndsAndCannotBeCancelledAgain) {
  const std::int64_t id = SubmitShell("sleep 1000");
  ASSERT_TRUE(Cancel(id).ok());
  EXPECT_EQ(WaitForEnd(id).back().state(), v1::JOB_STATE_CANCELLED);
  const grpc::Status again = Cancel(id);
  EXPECT_EQ(again.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOnWire(again), kJobEnded);
}

TEST_F(JobServicesTest, APendingJobShowsWhatItWaitsForUntilThereIsRoom) {
  SetLevel(20);
  const std::int64_t id = SubmitShell("true");
  v1::Job job;
  ASSERT_TRUE(Eventually([&] { return Get(id, job).ok() && job.blockers_size() > 0; }));
  EXPECT_EQ(job.state(), v1::JOB_STATE_PENDING);
  EXPECT_EQ(job.blockers(0).kind(), v1::BLOCKER_KIND_LEVEL);
  EXPECT_EQ(job.blockers(0).needed(), 40);
  EXPECT_EQ(job.queue_position(), 1);
  SetLevel(90);
  EXPECT_EQ(WaitForEnd(id).back().state(), v1::JOB_STATE_COMPLETED);
}

// ---- Logs ----

TEST_F(JobServicesTest, ALogIsFollowedToItsEndAndBothStreamsAreToldApart) {
  const std::int64_t id = SubmitShell("echo one; echo two >&2; sleep 0.3; echo three");
  const Log followed = ReadLog(id, true);
  EXPECT_TRUE(followed.status.ok()) << followed.status.error_message();
  EXPECT_EQ(followed.out, "one\nthree\n");
  EXPECT_EQ(followed.err, "two\n");
  const Log out = ReadLog(id, false, v1::LOG_STREAM_STDOUT);
  EXPECT_EQ(out.out, "one\nthree\n");
  EXPECT_EQ(out.err, "");
  const Log err = ReadLog(id, false, v1::LOG_STREAM_STDERR);
  EXPECT_EQ(err.out, "");
  EXPECT_EQ(err.err, "two\n");
}

TEST_F(JobServicesTest, ALogBeginsWithItsLastLinesAndSaysWhatIsLeftOut) {
  const std::int64_t id = SubmitShell("echo one; echo two; echo three");
  WaitForEnd(id);
  const auto read = [&](std::int64_t lines, v1::ReadLogsResponse* piece) {
    grpc::ClientContext context;
    v1::ReadLogsRequest request;
    request.set_id(id);
    request.set_tail_lines(lines);
    const auto reader = stub_->ReadLogs(&context, request);
    reader->Read(piece);
    for (v1::ReadLogsResponse more; reader->Read(&more);) {
    }
    return reader->Finish();
  };
  v1::ReadLogsResponse piece;
  EXPECT_TRUE(read(1, &piece).ok());
  EXPECT_EQ(piece.data(), "three\n");
  EXPECT_EQ(piece.skipped_bytes(), 8);
  EXPECT_EQ(piece.dropped_bytes(), 0);
  const grpc::Status refused = read(-1, &piece);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), testing::HasSubstr("tail_lines: -1"));
}

TEST_F(JobServicesTest, WithoutFollowTheLogEndsWhereItIsAlthoughTheJobRuns) {
  const std::int64_t id = SubmitShell("echo so far; exec sleep 1000");
  ASSERT_TRUE(Eventually([&] { return ReadLog(id, false).out == "so far\n"; }));
  EXPECT_TRUE(ReadLog(id, false).status.ok());
}

TEST_F(JobServicesTest, ALargeLogComesWholeToAReaderThatPauses) {
  constexpr std::size_t kSize = 24 << 20;  // far above what the buffers between us hold
  const std::int64_t id = SubmitShell("head -c 25165824 /dev/zero");
  EXPECT_EQ(WaitForEnd(id).back().state(), v1::JOB_STATE_COMPLETED);
  const Log log = ReadLog(id, false);
  EXPECT_TRUE(log.status.ok()) << log.status.error_message();
  EXPECT_EQ(log.out.size(), kSize);
  EXPECT_EQ(log.out.find_first_not_of('\0'), std::string::npos);
}

TEST_F(JobServicesTest, ALogOfAJobThatWaitsIsEmptyAndAFollowerWaitsWithIt) {
  SetLevel(20);
  const std::int64_t id = SubmitShell("echo late");
  EXPECT_EQ(ReadLog(id, false).out, "");
  Log log;
  std::thread follower([&] { log = ReadLog(id, true); });
  SetLevel(90);
  follower.join();
  EXPECT_EQ(log.out, "late\n");
  EXPECT_TRUE(log.status.ok());
}

TEST_F(JobServicesTest, AFollowerThatLeavesIsForgotten) {
  const std::int64_t id = SubmitShell("exec sleep 1000");
  Context context;
  v1::ReadLogsRequest request;
  request.set_id(id);
  request.set_follow(true);
  const auto reader = stub_->ReadLogs(&context, request);
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  channel_.reset();
  // Were its stream still open, this would use up its time.
  EXPECT_TRUE(Cancel(id).ok());
  WaitForEnd(id);
  EXPECT_LT(Stop(), absl::Seconds(1));
}

// ---- Guards ----

TEST_F(JobServicesTest, AGuardIsAdmittedAndEndsWithWhatItsParentReports) {
  Child child;
  Context context;
  const auto reader = admission_->Guard(&context, GuardOf(child.pid()));
  const auto running = ReadUntil(*reader, v1::JOB_STATE_RUNNING);
  ASSERT_TRUE(running.has_value());
  EXPECT_EQ(running->kind(), v1::JOB_KIND_GUARD);
  EXPECT_EQ(running->pid(), child.pid());
  child.End();
  EXPECT_TRUE(ReportExit(running->id(), 5).ok());
  const auto ended = ReadUntil(*reader, v1::JOB_STATE_FAILED);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->exit_code(), 5);
  EXPECT_TRUE(reader->Finish().ok());
  const grpc::Status again = ReportExit(running->id(), 5);
  EXPECT_EQ(again.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOnWire(again), kJobEnded);
}

TEST_F(JobServicesTest, AGuardThatLeavesBeforeItsStartIsTakenBack) {
  SetLevel(20);
  Child child;
  Context context;
  const auto reader = admission_->Guard(&context, GuardOf(child.pid()));
  const auto pending = ReadUntil(*reader, v1::JOB_STATE_PENDING);
  ASSERT_TRUE(pending.has_value());
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  const v1::Job ended = WaitForEnd(pending->id()).back();
  EXPECT_EQ(ended.state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(ended.reason(), v1::REASON_CLIENT_GONE);
  EXPECT_EQ(::kill(child.pid(), 0), 0) << "the command is its caller's";
}

TEST_F(JobServicesTest, AGuardThatLeavesLaterIsStillWatched) {
  Child child;
  std::int64_t id = 0;
  {
    Context context;
    const auto reader = admission_->Guard(&context, GuardOf(child.pid()));
    const auto running = ReadUntil(*reader, v1::JOB_STATE_RUNNING);
    ASSERT_TRUE(running.has_value());
    id = running->id();
    context.TryCancel();
    (void)reader->Finish();
  }
  v1::Job job;
  ASSERT_TRUE(Get(id, job).ok());
  EXPECT_EQ(job.state(), v1::JOB_STATE_RUNNING);
  child.End();
  EXPECT_EQ(WaitForEnd(id).back().state(), v1::JOB_STATE_UNKNOWN) << "nobody saw how";
}

TEST_F(JobServicesTest, AGuardHasNoLogHere) {
  Child child;
  Context context;
  const auto reader = admission_->Guard(&context, GuardOf(child.pid()));
  const auto running = ReadUntil(*reader, v1::JOB_STATE_RUNNING);
  ASSERT_TRUE(running.has_value());
  const grpc::Status status = ReadLog(running->id(), true).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("guarded command"));
}

TEST_F(JobServicesTest, OnlyAProcessOfTheCallersUserOrBelowTheCallerCanBeNamed) {
  constexpr std::uint32_t kForeign = 12345;
  Child foreign;
  Pretend(foreign.pid(), 1, kForeign);
  {
    Context context;
    const grpc::Status status = admission_->Guard(&context, GuardOf(foreign.pid()))->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(ReasonOnWire(status), kPeerRefused);
    EXPECT_THAT(status.error_message(), HasSubstr(std::to_string(foreign.pid())));
    EXPECT_THAT(status.error_message(), HasSubstr("12345"));
  }
  EXPECT_EQ(List({}).jobs_size(), 0);
  // Below us, over a shell in between.
  constexpr std::int32_t kShell = 2'000'000'000;
  Pretend(foreign.pid(), kShell, kForeign);
  Pretend(kShell, ::getpid(), kForeign);
  Context context;
  const auto reader = admission_->Guard(&context, GuardOf(foreign.pid()));
  EXPECT_TRUE(ReadUntil(*reader, v1::JOB_STATE_RUNNING).has_value());
}

TEST_F(JobServicesTest, AProcessTreeThatGoesInACircleIsNotFollowedForEver) {
  Child foreign;
  Pretend(foreign.pid(), foreign.pid(), 12345);
  Context context;
  EXPECT_EQ(admission_->Guard(&context, GuardOf(foreign.pid()))->Finish().error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(JobServicesTest, AGuardOfNoProcessIsRefusedByName) {
  Child child;
  const pid_t gone = child.pid();
  child.End();
  for (const pid_t pid : {gone, pid_t{0}, pid_t{-1}}) {
    Context context;
    const grpc::Status status = admission_->Guard(&context, GuardOf(pid))->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << pid;
    EXPECT_EQ(std::string(ErrorInfoOf(status).metadata().at("field")), "pid");
  }
}

// ---- History ----

TEST_F(JobServicesTest, WhatAnAnswerTellsOfIsInTheHistoryAlreadyPageByPage) {
  const std::int64_t first = SubmitShell("true");
  WaitForEnd(first);
  const std::int64_t second = SubmitShell("exit 3");
  WaitForEnd(second);
  const auto telemetry = v1::TelemetryService::NewStub(channel_);
  v1::ListHistoryRequest request;
  request.set_page_size(1);
  request.set_job_id(first);
  std::vector<std::string> kinds;
  do {
    Context context;
    v1::ListHistoryResponse response;
    const grpc::Status status = telemetry->ListHistory(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(response.events_size(), 1);
    EXPECT_EQ(response.events(0).job_id(), first);
    kinds.emplace_back(response.events(0).kind());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(kinds, ElementsAre("ended", "admitted"));

  request.set_page_size(-1);
  Context context;
  v1::ListHistoryResponse response;
  const grpc::Status status = telemetry->ListHistory(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(std::string(ErrorInfoOf(status).metadata().at("field")), "page_size");
}

// ---- The end ----

TEST_F(JobServicesTest, WhoWaitsWhenTheDaemonEndsIsToldSo) {
  SetLevel(20);  // so that nothing runs
  const std::int64_t id = SubmitShell("true");
  Child child;
  Context wait_context, log_context, guard_context;
  v1::WaitJobRequest wait;
  wait.set_id(id);
  const auto waiter = stub_->WaitJob(&wait_context, wait);
  v1::ReadLogsRequest read;
  read.set_id(id);
  read.set_follow(true);
  const auto log = stub_->ReadLogs(&log_context, read);
  const auto guard = admission_->Guard(&guard_context, GuardOf(child.pid()));
  v1::WaitJobResponse waited;
  ASSERT_TRUE(waiter->Read(&waited));
  ASSERT_TRUE(ReadUntil(*guard, v1::JOB_STATE_PENDING).has_value());
  EXPECT_LT(Stop(), absl::Seconds(2));
  while (waiter->Read(&waited)) {
  }
  v1::ReadLogsResponse piece;
  EXPECT_FALSE(log->Read(&piece));
  v1::GuardResponse guarded;
  while (guard->Read(&guarded)) {
  }
  for (const grpc::Status& status : {waiter->Finish(), log->Finish(), guard->Finish()}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
    EXPECT_EQ(ReasonOnWire(status), kShuttingDown);
  }
}

}  // namespace
}  // namespace stageload::rpc
