#include "daemon/rpc/services.h"

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "base/version.h"
#include "daemon/rpc/admin_service.h"
#include "daemon/rpc/admission_service.h"
#include "daemon/rpc/health_service.h"
#include "daemon/rpc/job_service.h"
#include "daemon/rpc/reflection_service.h"
#include "daemon/rpc/telemetry_service.h"
#include "daemon/rpc/typed_call.h"

namespace stageload::rpc {
namespace {

// Of one connection.
struct Services {
  Services(const Parts& parts, const Peer& peer, OpenStreams& streams)
      : jobs(parts, streams),
        admission(parts, peer),
        telemetry(parts, peer, streams),
        admin(parts),
        health(streams) {}

  JobService jobs;
  AdmissionService admission;
  TelemetryService telemetry;
  AdminService admin;
  HealthService health;
};

absl::Status BadRequest() {
  return WithReason(absl::InvalidArgumentError("the request is not of the method's type"),
                    kInvalidField);
}

Call* NoSuchMethod(const std::string& path) {
  return new Call([path](Call& call, grpc::ByteBuffer&) {
    call.Finish({grpc::StatusCode::UNIMPLEMENTED,
                 absl::StrCat("stageloadd ", kVersion, " has no method ", path,
                              "; is the program that calls it newer? Restart the daemon after an "
                              "upgrade: stageloadctl daemon restart")});
  });
}

// How each method is begun, by its path, "/stageload.v1.JobService/GetJob".
class Methods {
 public:
  using Begin = std::function<grpc::ServerGenericBidiReactor*(Services&)>;

  Methods();

  const Begin* Find(const std::string& path) const {
    const auto found = methods_.find(path);
    return found == methods_.end() ? nullptr : &found->second;
  }

 private:
  // `TypedCall` is UnaryCall<Response> or StreamCall<Response>.
  template <typename Service, typename Request, typename TypedCall>
  void AddNamed(const std::string& name, Service Services::*service,
                void (Service::*method)(const Request&, TypedCall)) {
    methods_[absl::StrCat("/", Service::Api::service_full_name(), "/", name)] =
        [service, method](Services& services) {
          return new Call(
              [&target = services.*service, method](Call& call, grpc::ByteBuffer& bytes) {
                Request request;
                if (!Parse(bytes, request)) return call.Finish(ToGrpc(BadRequest()));
                (target.*method)(request, TypedCall(call));
              });
        };
  }

  // The name is in the request's: GetJob takes a GetJobRequest (a rule of `buf lint`).
  template <typename Service, typename Request, typename TypedCall>
  void Add(Service Services::*service, void (Service::*method)(const Request&, TypedCall)) {
    std::string name(Request::descriptor()->name());
    name.resize(name.size() - std::string_view("Request").size());
    AddNamed(name, service, method);
  }

  std::unordered_map<std::string, Begin> methods_;
};

Methods::Methods() {
  Add(&Services::jobs, &JobService::SubmitJob);
  Add(&Services::jobs, &JobService::GetJob);
  Add(&Services::jobs, &JobService::ListJobs);
  Add(&Services::jobs, &JobService::WatchJobs);
  Add(&Services::jobs, &JobService::WaitJob);
  Add(&Services::jobs, &JobService::CancelJob);
  Add(&Services::jobs, &JobService::HoldJob);
  Add(&Services::jobs, &JobService::ReleaseJob);
  Add(&Services::jobs, &JobService::SuspendJob);
  Add(&Services::jobs, &JobService::ResumeJob);
  Add(&Services::jobs, &JobService::RetryJob);
  Add(&Services::jobs, &JobService::UpdateJob);
  Add(&Services::jobs, &JobService::HoldQueue);
  Add(&Services::jobs, &JobService::ReleaseQueue);
  Add(&Services::jobs, &JobService::ListProfiles);
  Add(&Services::jobs, &JobService::DeleteProfile);
  Add(&Services::jobs, &JobService::DeleteJob);
  Add(&Services::jobs, &JobService::ReadLogs);

  Add(&Services::admission, &AdmissionService::Guard);
  Add(&Services::admission, &AdmissionService::ResumeGuard);
  Add(&Services::admission, &AdmissionService::ReportExit);
  Add(&Services::admission, &AdmissionService::Register);
  Add(&Services::admission, &AdmissionService::Acquire);
  Add(&Services::admission, &AdmissionService::Release);
  Add(&Services::admission, &AdmissionService::Report);

  Add(&Services::telemetry, &TelemetryService::GetSnapshot);
  Add(&Services::telemetry, &TelemetryService::WatchTelemetry);
  Add(&Services::telemetry, &TelemetryService::ListHistory);
  Add(&Services::telemetry, &TelemetryService::WatchProcess);

  Add(&Services::admin, &AdminService::GetVersion);
  Add(&Services::admin, &AdminService::Shutdown);
  Add(&Services::admin, &AdminService::GetConfig);
  Add(&Services::admin, &AdminService::ReloadConfig);

  AddNamed("Check", &Services::health, &HealthService::Check);
  AddNamed("Watch", &Services::health, &HealthService::Watch);
  for (const char* const path : kReflectionPaths) {
    methods_[path] = [](Services&) { return NewReflection(); };
  }
}

class Connected final : public grpc::CallbackGenericService {
 public:
  Connected(const Parts& parts, const Peer& peer, OpenStreams& streams)
      : services_(parts, peer, streams) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    static const auto* const methods = new Methods;
    const Methods::Begin* const begin = methods->Find(context->method());
    if (begin == nullptr) return NoSuchMethod(context->method());
    return (*begin)(services_);
  }

 private:
  Services services_;
};

}  // namespace

std::unique_ptr<grpc::CallbackGenericService> MakeServices(const Parts& parts, const Peer& peer,
                                                           OpenStreams& streams) {
  return std::make_unique<Connected>(parts, peer, streams);
}

const std::vector<std::string>& ServiceNames() {
  static const auto* names = new std::vector<std::string>{
      v1::JobService::service_full_name(),
      v1::AdmissionService::service_full_name(),
      v1::TelemetryService::service_full_name(),
      v1::AdminService::service_full_name(),
      grpc::health::v1::Health::service_full_name(),
      grpc::reflection::v1::ServerReflection::service_full_name(),
      grpc::reflection::v1alpha::ServerReflection::service_full_name(),
  };
  return *names;
}

}  // namespace stageload::rpc
