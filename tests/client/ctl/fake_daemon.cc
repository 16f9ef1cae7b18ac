// The scripted services.
#include "tests/client/ctl/fake_daemon.h"

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "stageload/v1/error.pb.h"

namespace stageload::ctl {
namespace {

constexpr std::chrono::seconds kDeadline(20);

// Waits until it is, or too long.
bool IsGivenUp(const grpc::ServerContext& context) {
  const auto until = std::chrono::steady_clock::now() + kDeadline;
  while (std::chrono::steady_clock::now() < until) {
    if (context.IsCancelled()) return true;
    std::this_thread::yield();
  }
  return false;
}

}  // namespace

void GuardScript::Send(v1::JobState state, v1::Reason reason, const std::string& text,
                       const std::string& blocker) {
  v1::Job job;
  job.set_id(3);
  job.set_state(state);
  job.set_reason(reason);
  job.set_reason_text(text);
  if (!blocker.empty()) {
    job.add_blockers()->set_kind(v1::BLOCKER_KIND_LEVEL);
    job.mutable_blockers(0)->set_text(blocker);
  }
  write_(std::move(job));
}

bool GuardScript::AwaitCancelled() const { return IsGivenUp(context_); }
bool WatchScript::AwaitCancelled() const { return IsGivenUp(context_); }

class FakeDaemon::Admin : public v1::AdminService::Service {
 public:
  explicit Admin(FakeDaemon& daemon) : daemon_(daemon) {}
  grpc::Status GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*,
                          v1::GetVersionResponse* response) override {
    response->set_version("9.9.9");
    response->set_pid(4711);
    response->set_api_level(daemon_.api_level);
    return grpc::Status::OK;
  }

 private:
  FakeDaemon& daemon_;
};

class FakeDaemon::Admission : public v1::AdmissionService::Service {
 public:
  explicit Admission(FakeDaemon& daemon) : daemon_(daemon) {}
  grpc::Status Guard(grpc::ServerContext* context, const v1::GuardRequest* request,
                     grpc::ServerWriter<v1::GuardResponse>* writer) override {
    GuardScript script(*request, *context, [writer](v1::Job job) {
      v1::GuardResponse response;
      *response.mutable_job() = std::move(job);
      writer->Write(response);
    });
    return daemon_.on_guard(script);
  }
  grpc::Status ResumeGuard(grpc::ServerContext* context, const v1::ResumeGuardRequest* request,
                           grpc::ServerWriter<v1::ResumeGuardResponse>* writer) override {
    {
      const std::lock_guard lock(daemon_.mutex_);
      ++daemon_.resumes;
    }
    if (!daemon_.on_resume || request->id() != 3) {
      return Failure(grpc::StatusCode::NOT_FOUND,
                     "there is no job " + std::to_string(request->id()), "JOB_NOT_FOUND");
    }
    v1::GuardRequest asked;
    asked.set_pid(request->pid());
    GuardScript script(asked, *context, [writer](v1::Job job) {
      v1::ResumeGuardResponse response;
      *response.mutable_job() = std::move(job);
      writer->Write(response);
    });
    return daemon_.on_resume(script);
  }
  grpc::Status ReportExit(grpc::ServerContext*, const v1::ReportExitRequest* request,
                          v1::ReportExitResponse*) override {
    const std::lock_guard lock(daemon_.mutex_);
    if (!daemon_.report_answer.ok()) return daemon_.report_answer;
    daemon_.report_ = *request;
    daemon_.changed_.notify_all();
    return grpc::Status::OK;
  }
  grpc::Status Report(grpc::ServerContext*, const v1::ReportRequest* request,
                      v1::ReportResponse* response) override {
    return daemon_.on_marks(*request, *response);
  }

 private:
  FakeDaemon& daemon_;
};

class FakeDaemon::Telemetry : public v1::TelemetryService::Service {
 public:
  explicit Telemetry(FakeDaemon& daemon) : daemon_(daemon) {}
  grpc::Status WatchProcess(grpc::ServerContext* context, const v1::WatchProcessRequest* request,
                            grpc::ServerWriter<v1::WatchProcessResponse>* writer) override {
    WatchScript script(*request, *context, *writer);
    return daemon_.on_watch(script);
  }

 private:
  FakeDaemon& daemon_;
};

class FakeDaemon::JobCalls : public v1::JobService::Service {
 public:
  explicit JobCalls(FakeDaemon& daemon) : daemon_(daemon) {}
  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override {
    return daemon_.on_submit(*request, *response);
  }
  grpc::Status RetryJob(grpc::ServerContext*, const v1::RetryJobRequest* request,
                        v1::RetryJobResponse* response) override {
    return daemon_.on_retry(*request, *response);
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::GetJobResponse* response) override {
    const v1::Job* job = Find(request->id());
    if (job == nullptr) return NoJob(request->id());
    *response->mutable_job() = *job;
    return grpc::Status::OK;
  }
  // One job a page, so that the client must page.
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    const std::size_t at =
        request->page_token().empty() ? 0 : std::stoul(std::string(request->page_token()));
    if (at < daemon_.jobs.size()) *response->add_jobs() = daemon_.jobs[at];
    if (at + 1 < daemon_.jobs.size()) response->set_next_page_token(std::to_string(at + 1));
    return grpc::Status::OK;
  }
  grpc::Status WaitJob(grpc::ServerContext*, const v1::WaitJobRequest* request,
                       grpc::ServerWriter<v1::WaitJobResponse>* writer) override {
    const v1::Job* job = Find(request->id());
    if (job == nullptr) return NoJob(request->id());
    v1::WaitJobResponse response;
    *response.mutable_job() = *job;
    writer->Write(response);
    return grpc::Status::OK;
  }
  grpc::Status ReadLogs(grpc::ServerContext*, const v1::ReadLogsRequest*,
                        grpc::ServerWriter<v1::ReadLogsResponse>* writer) override {
    for (const v1::ReadLogsResponse& piece : daemon_.log) writer->Write(piece);
    return grpc::Status::OK;
  }

 private:
  const v1::Job* Find(std::int64_t id) const {
    for (const v1::Job& job : daemon_.jobs) {
      if (job.id() == id) return &job;
    }
    return nullptr;
  }
  static grpc::Status NoJob(std::int64_t id) {
    return Failure(grpc::StatusCode::NOT_FOUND, "no job " + std::to_string(id), "JOB_NOT_FOUND");
  }

  FakeDaemon& daemon_;
};

FakeDaemon::FakeDaemon() {
  std::string folder = (std::filesystem::temp_directory_path() / "ctl-fake-XXXXXX").string();
  home_ = mkdtemp(folder.data());
  services_.push_back(std::make_unique<Admin>(*this));
  services_.push_back(std::make_unique<Admission>(*this));
  services_.push_back(std::make_unique<JobCalls>(*this));
  services_.push_back(std::make_unique<Telemetry>(*this));
  Start();
}

void FakeDaemon::Start() {
  server_.reset();  // it takes its socket with it
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + home_ + "/stageloadd.sock", grpc::InsecureServerCredentials());
  for (const auto& service : services_) builder.RegisterService(service.get());
  server_ = builder.BuildAndStart();
}

FakeDaemon::~FakeDaemon() {
  Stop();
  std::filesystem::remove_all(home_);
}

void FakeDaemon::Stop() { server_->Shutdown(std::chrono::system_clock::now()); }

std::optional<v1::ReportExitRequest> FakeDaemon::AwaitReport() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kDeadline, [this] { return report_.has_value(); });
  return report_;
}

grpc::Status Failure(grpc::StatusCode code, const std::string& message, const std::string& reason,
                     const std::string& field) {
  v1::ErrorInfo info;
  info.set_reason(reason);
  if (!field.empty()) (*info.mutable_metadata())["field"] = field;
  v1::ErrorStatus status;
  v1::ErrorDetail& detail = *status.add_details();
  detail.set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  detail.set_value(info.SerializeAsString());
  return grpc::Status(code, message, status.SerializeAsString());
}

}  // namespace stageload::ctl
