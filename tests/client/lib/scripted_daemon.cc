#include "tests/client/lib/scripted_daemon.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "stageload/v1/admin_service.grpc.pb.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::client {
namespace {

constexpr std::chrono::milliseconds kLook(5);

}  // namespace

void AcquireScript::Wait(const std::string& text) {
  v1::AcquireResponse response;
  response.mutable_waiting()->set_position(1);
  v1::Blocker& blocker = *response.mutable_waiting()->add_blockers();
  blocker.set_kind(v1::BLOCKER_KIND_MEMORY);
  blocker.set_read(5);
  blocker.set_needed(10);
  blocker.set_text(text);
  writer_.Write(response);
}

void AcquireScript::Grant(std::int64_t lease_id, bool forced) {
  v1::AcquireResponse response;
  response.mutable_granted()->set_lease_id(lease_id);
  response.mutable_granted()->set_forced(forced);
  writer_.Write(response);
}

bool AcquireScript::AwaitCancelled() const {
  return Eventually([this] { return context_.IsCancelled(); });
}

class ScriptedDaemon::Admin : public v1::AdminService::Service {
 public:
  grpc::Status GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*,
                          v1::GetVersionResponse* response) override {
    response->set_version("9.9.9");
    response->set_api_level(1);
    return grpc::Status::OK;
  }
};

class ScriptedDaemon::Admission : public v1::AdmissionService::Service {
 public:
  explicit Admission(ScriptedDaemon& daemon) : daemon_(daemon) {}

  grpc::Status Register(grpc::ServerContext* context, const v1::RegisterRequest* request,
                        grpc::ServerWriter<v1::RegisterResponse>* writer) override {
    daemon_.Note("register");
    if (!daemon_.register_answer.ok()) return daemon_.register_answer;
    while (daemon_.register_hangs && !context->IsCancelled()) std::this_thread::sleep_for(kLook);
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    std::unique_lock lock(daemon_.mutex_);
    daemon_.registrations_.push_back(*request);
    ++daemon_.registered_;
    v1::RegisterResponse first;
    first.mutable_registered()->set_client_id(daemon_.next_client_++);
    writer->Write(first);
    while (!context->IsCancelled() && !daemon_.end_registration_) {
      if (!daemon_.to_say_.empty()) {
        writer->Write(daemon_.to_say_.front());
        daemon_.to_say_.pop_front();
        continue;
      }
      daemon_.changed_.wait_for(lock, kLook);
    }
    --daemon_.registered_;
    return grpc::Status::OK;
  }

  grpc::Status Acquire(grpc::ServerContext* context, const v1::AcquireRequest* request,
                       grpc::ServerWriter<v1::AcquireResponse>* writer) override {
    const std::string stage(request->stage());
    daemon_.Note((request->already_loaded() ? "take up " : "acquire ") + stage);
    std::int64_t lease = 0;
    {
      const std::lock_guard lock(daemon_.mutex_);
      daemon_.acquires_.push_back(*request);
      lease = daemon_.next_lease_++;
    }
    AcquireScript script(*request, *context, *writer);
    if (daemon_.on_acquire) return daemon_.on_acquire(script);
    script.Grant(lease);
    return grpc::Status::OK;
  }

  grpc::Status Release(grpc::ServerContext*, const v1::ReleaseRequest* request,
                       v1::ReleaseResponse*) override {
    {
      const std::lock_guard lock(daemon_.mutex_);
      daemon_.releases_.push_back(*request);
    }
    daemon_.Note(request->lease_id() != 0 ? "release " + std::to_string(request->lease_id())
                                          : "release by id");
    return grpc::Status::OK;
  }

  grpc::Status Report(grpc::ServerContext*, const v1::ReportRequest* request,
                      v1::ReportResponse*) override {
    {
      const std::lock_guard lock(daemon_.mutex_);
      daemon_.reports_.push_back(*request);
    }
    daemon_.Note("report");
    return daemon_.report_answer;
  }

 private:
  ScriptedDaemon& daemon_;
};

class ScriptedDaemon::Telemetry : public v1::TelemetryService::Service {
 public:
  explicit Telemetry(ScriptedDaemon& daemon) : daemon_(daemon) {}

  grpc::Status WatchTelemetry(grpc::ServerContext* context,
                              const v1::WatchTelemetryRequest* request,
                              grpc::ServerWriter<v1::WatchTelemetryResponse>* writer) override {
    daemon_.Note("watch");
    return daemon_.on_watch(*request, *context, *writer);
  }
  grpc::Status WatchProcess(grpc::ServerContext* context, const v1::WatchProcessRequest* request,
                            grpc::ServerWriter<v1::WatchProcessResponse>* writer) override {
    daemon_.Note("watch process");
    return daemon_.on_watch_process(*request, *context, *writer);
  }

 private:
  ScriptedDaemon& daemon_;
};

ScriptedDaemon::ScriptedDaemon() {
  services_.push_back(std::make_unique<Admin>());
  services_.push_back(std::make_unique<Admission>(*this));
  services_.push_back(std::make_unique<Telemetry>(*this));
  Start();
}

ScriptedDaemon::~ScriptedDaemon() { Stop(); }

void ScriptedDaemon::Start() {
  server_.reset();  // it takes its socket with it
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket(), grpc::InsecureServerCredentials());
  for (const auto& service : services_) builder.RegisterService(service.get());
  server_ = builder.BuildAndStart();
}

void ScriptedDaemon::Stop() { server_->Shutdown(std::chrono::system_clock::now()); }

void ScriptedDaemon::Say(const v1::RegisterResponse& event) {
  const std::lock_guard lock(mutex_);
  to_say_.push_back(event);
  changed_.notify_all();
}

void ScriptedDaemon::EndRegistration() {
  const std::lock_guard lock(mutex_);
  end_registration_ = true;
  changed_.notify_all();
}

void ScriptedDaemon::Note(const std::string& call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(call);
}

std::vector<std::string> ScriptedDaemon::Calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

bool ScriptedDaemon::Has(const std::string& call) const {
  const std::vector<std::string> calls = Calls();
  return std::find(calls.begin(), calls.end(), call) != calls.end();
}

int ScriptedDaemon::registered() const {
  const std::lock_guard lock(mutex_);
  return registered_;
}

std::vector<v1::RegisterRequest> ScriptedDaemon::registrations() const {
  const std::lock_guard lock(mutex_);
  return registrations_;
}

std::vector<v1::AcquireRequest> ScriptedDaemon::acquires() const {
  const std::lock_guard lock(mutex_);
  return acquires_;
}

std::vector<v1::ReleaseRequest> ScriptedDaemon::releases() const {
  const std::lock_guard lock(mutex_);
  return releases_;
}

std::vector<v1::ReportRequest> ScriptedDaemon::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_;
}

}  // namespace stageload::client
