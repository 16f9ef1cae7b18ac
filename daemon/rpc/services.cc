#include "daemon/rpc/services.h"

#include "daemon/rpc/admin_service.h"
#include "daemon/rpc/admission_service.h"
#include "daemon/rpc/health_service.h"
#include "daemon/rpc/job_service.h"
#include "daemon/rpc/reflection_service.h"
#include "daemon/rpc/telemetry_service.h"

namespace stageload::rpc {

std::vector<std::unique_ptr<grpc::Service>> MakeServices(const Parts& parts, const Peer& peer,
                                                         OpenStreams& streams) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(std::make_unique<JobService>(parts, streams));
  services.push_back(std::make_unique<AdmissionService>(parts, peer));
  services.push_back(std::make_unique<TelemetryService>(parts, peer, streams));
  services.push_back(std::make_unique<AdminService>(parts));
  services.push_back(std::make_unique<HealthService>(streams));
  services.push_back(std::make_unique<ReflectionService>());
  services.push_back(std::make_unique<ReflectionServiceAlpha>());
  return services;
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
