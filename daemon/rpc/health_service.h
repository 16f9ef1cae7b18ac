// grpc.health.v1.Health of one connection: we serve as long as we answer. Ours, since gRPC's own
// would make its state for each of the many servers.
//
// Threading: gRPC's threads.
#ifndef STAGELOAD_DAEMON_RPC_HEALTH_SERVICE_H_
#define STAGELOAD_DAEMON_RPC_HEALTH_SERVICE_H_

#include "daemon/rpc/open_streams.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace stageload::rpc {

class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  explicit HealthService(OpenStreams& streams) : streams_(streams) {}

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  OpenStreams& streams_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_HEALTH_SERVICE_H_
