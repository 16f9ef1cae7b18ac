#include "tests/client/ctl/frame_daemon.h"

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace stageload::ctl {

class FrameDaemon::Admin : public v1::AdminService::Service {
 public:
  explicit Admin(FrameDaemon& daemon) : daemon_(daemon) {}
  grpc::Status GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*,
                          v1::GetVersionResponse* response) override {
    const std::lock_guard lock(daemon_.mutex_);
    *response = daemon_.version_;
    return grpc::Status::OK;
  }

 private:
  FrameDaemon& daemon_;
};

class FrameDaemon::Telemetry : public v1::TelemetryService::Service {
 public:
  explicit Telemetry(FrameDaemon& daemon) : daemon_(daemon) {}
  grpc::Status GetSnapshot(grpc::ServerContext*, const v1::GetSnapshotRequest*,
                           v1::GetSnapshotResponse* response) override {
    *response->mutable_frame() = daemon_.Now();
    return grpc::Status::OK;
  }
  grpc::Status WatchTelemetry(grpc::ServerContext* context,
                              const v1::WatchTelemetryRequest* request,
                              grpc::ServerWriter<v1::WatchTelemetryResponse>* writer) override {
    std::vector<v1::Frame> past;
    {
      const std::lock_guard lock(daemon_.mutex_);
      daemon_.watches_asked_.push_back(*request);
      if (request->has_since_sequence()) past = daemon_.past_;
    }
    v1::WatchTelemetryResponse response;
    for (v1::Frame& frame : past) {
      *response.mutable_frame() = std::move(frame);
      writer->Write(response);
    }
    do {
      *response.mutable_frame() = daemon_.Now();
      if (!writer->Write(response)) break;
      absl::SleepFor(absl::Milliseconds(50));  // its pace
    } while (!context->IsCancelled());
    return grpc::Status::OK;
  }
  // Two a page, so that the client must page.
  grpc::Status ListHistory(grpc::ServerContext*, const v1::ListHistoryRequest* request,
                           v1::ListHistoryResponse* response) override {
    const std::lock_guard lock(daemon_.mutex_);
    daemon_.history_asked_.push_back(*request);
    const std::string token(request->page_token());
    std::size_t at = token.empty() ? 0 : std::stoul(token);
    const std::size_t end = std::min(daemon_.history_.size(), at + 2);
    for (; at < end; ++at) *response->add_events() = daemon_.history_[at];
    if (end < daemon_.history_.size()) response->set_next_page_token(std::to_string(end));
    return grpc::Status::OK;
  }

 private:
  FrameDaemon& daemon_;
};

class FrameDaemon::Jobs : public v1::JobService::Service {
 public:
  explicit Jobs(FrameDaemon& daemon) : daemon_(daemon) {}
  grpc::Status SuspendJob(grpc::ServerContext*, const v1::SuspendJobRequest* request,
                          v1::SuspendJobResponse* response) override {
    return Act("suspend", request->id(), *response->mutable_job());
  }
  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request,
                         v1::ResumeJobResponse* response) override {
    return Act("resume", request->id(), *response->mutable_job());
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                         v1::CancelJobResponse* response) override {
    return Act("cancel", request->id(), *response->mutable_job());
  }
  grpc::Status HoldJob(grpc::ServerContext*, const v1::HoldJobRequest* request,
                       v1::HoldJobResponse* response) override {
    return Act("hold", request->id(), *response->mutable_job());
  }
  grpc::Status ReleaseJob(grpc::ServerContext*, const v1::ReleaseJobRequest* request,
                          v1::ReleaseJobResponse* response) override {
    return Act("release", request->id(), *response->mutable_job());
  }

 private:
  grpc::Status Act(const std::string& verb, std::int64_t id, v1::Job& job) {
    OnAction on_action;
    {
      const std::lock_guard lock(daemon_.mutex_);
      on_action = daemon_.on_action_;
    }
    job.set_id(id);
    if (!on_action) return {grpc::StatusCode::INTERNAL, "nobody expected to be asked to " + verb};
    return on_action(verb, id, job);
  }

  FrameDaemon& daemon_;
};

FrameDaemon::FrameDaemon() {
  std::string folder = (std::filesystem::temp_directory_path() / "ctl-top-XXXXXX").string();
  home_ = mkdtemp(folder.data());
  version_.set_version("9.9.9");
  version_.set_pid(4711);
  version_.set_api_level(1);
  version_.set_start_time_ns(absl::ToUnixNanos(absl::Now()));
  services_.push_back(std::make_unique<Admin>(*this));
  services_.push_back(std::make_unique<Telemetry>(*this));
  services_.push_back(std::make_unique<Jobs>(*this));
  Start();
}

FrameDaemon::~FrameDaemon() {
  Stop();
  std::filesystem::remove_all(home_);
}

void FrameDaemon::Start() {
  server_.reset();  // it takes its socket with it
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + home_ + "/stageloadd.sock", grpc::InsecureServerCredentials());
  for (const auto& service : services_) builder.RegisterService(service.get());
  server_ = builder.BuildAndStart();
}

void FrameDaemon::Stop() { server_->Shutdown(std::chrono::system_clock::now()); }

void FrameDaemon::SetVersion(const v1::GetVersionResponse& version) {
  const std::lock_guard lock(mutex_);
  version_ = version;
}

void FrameDaemon::SetFrame(const v1::Frame& frame) {
  const std::lock_guard lock(mutex_);
  frame_ = frame;
}

void FrameDaemon::SetPast(const std::vector<v1::Frame>& past) {
  const std::lock_guard lock(mutex_);
  past_ = past;
}

void FrameDaemon::SetHistory(const std::vector<v1::Event>& newest_first) {
  const std::lock_guard lock(mutex_);
  history_ = newest_first;
}

void FrameDaemon::SetAction(OnAction on_action) {
  const std::lock_guard lock(mutex_);
  on_action_ = std::move(on_action);
}

std::vector<v1::ListHistoryRequest> FrameDaemon::HistoryAsked() const {
  const std::lock_guard lock(mutex_);
  return history_asked_;
}

std::vector<v1::WatchTelemetryRequest> FrameDaemon::WatchesAsked() const {
  const std::lock_guard lock(mutex_);
  return watches_asked_;
}

v1::Frame FrameDaemon::Now() {
  const std::lock_guard lock(mutex_);
  v1::Frame frame = frame_;
  frame.set_sequence(++sequence_);
  frame.set_time_ns(absl::ToUnixNanos(absl::Now()));
  frame.set_awake_ns(frame.time_ns());
  return frame;
}

}  // namespace stageload::ctl
