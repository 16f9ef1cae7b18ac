#include "daemon/rpc/health_service.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/rpc/latest_stream.h"
#include "daemon/rpc/services.h"

namespace stageload::rpc {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

bool IsOurs(const std::string& service) {
  if (service.empty()) return true;
  for (const std::string& name : ServiceNames()) {
    if (name == service) return true;
  }
  return false;
}

}  // namespace

void HealthService::Check(const HealthCheckRequest& request, UnaryCall<HealthCheckResponse> call) {
  if (!IsOurs(request.service())) {
    return call.Fail(absl::NotFoundError(absl::StrCat("there is no service ", request.service())));
  }
  HealthCheckResponse response;
  response.set_status(HealthCheckResponse::SERVING);
  call.Answer(response);
}

void HealthService::Watch(const HealthCheckRequest& request, StreamCall<HealthCheckResponse> call) {
  const auto stream = LatestStream<HealthCheckResponse>::Create(call);
  HealthCheckResponse response;
  response.set_status(IsOurs(request.service()) ? HealthCheckResponse::SERVING
                                                : HealthCheckResponse::SERVICE_UNKNOWN);
  stream->Send(response);
  const std::uint64_t key = streams_.Add(
      [weak = std::weak_ptr<LatestStream<HealthCheckResponse>>(stream)](const auto& status) {
        if (const auto open = weak.lock()) open->End(status);
      });
  stream->OnGone([&streams = streams_, key] { streams.Remove(key); });
}

}  // namespace stageload::rpc
