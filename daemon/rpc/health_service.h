// grpc.health.v1.Health of one connection: we serve as long as we answer. Ours, since gRPC's own
// would make its state for each of the many servers.
//
// Threading: gRPC's threads.
#ifndef STAGELOAD_DAEMON_RPC_HEALTH_SERVICE_H_
#define STAGELOAD_DAEMON_RPC_HEALTH_SERVICE_H_

#include "daemon/rpc/open_streams.h"
#include "daemon/rpc/typed_call.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace stageload::rpc {

class HealthService final {
 public:
  using Api = grpc::health::v1::Health;

  explicit HealthService(OpenStreams& streams) : streams_(streams) {}

  void Check(const grpc::health::v1::HealthCheckRequest& request,
             UnaryCall<grpc::health::v1::HealthCheckResponse> call);
  void Watch(const grpc::health::v1::HealthCheckRequest& request,
             StreamCall<grpc::health::v1::HealthCheckResponse> call);

 private:
  OpenStreams& streams_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_HEALTH_SERVICE_H_
