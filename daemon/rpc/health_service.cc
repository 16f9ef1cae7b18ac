#include "daemon/rpc/health_service.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/rpc/latest_stream.h"
#include "daemon/rpc/services.h"
#include "daemon/rpc/unary.h"

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

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const HealthCheckRequest* request,
                                               HealthCheckResponse* response) {
  if (!IsOurs(request->service())) {
    return Fail(context,
                absl::NotFoundError(absl::StrCat("there is no service ", request->service())));
  }
  response->set_status(HealthCheckResponse::SERVING);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext*, const HealthCheckRequest* request) {
  const auto stream = LatestStream<HealthCheckResponse>::Create();
  HealthCheckResponse response;
  response.set_status(IsOurs(request->service()) ? HealthCheckResponse::SERVING
                                                 : HealthCheckResponse::SERVICE_UNKNOWN);
  stream->Send(response);
  const std::uint64_t key = streams_.Add(
      [weak = std::weak_ptr<LatestStream<HealthCheckResponse>>(stream)](const auto& status) {
        if (const auto open = weak.lock()) open->End(status);
      });
  stream->OnGone([&streams = streams_, key] { streams.Remove(key); });
  return stream.get();
}

}  // namespace stageload::rpc
