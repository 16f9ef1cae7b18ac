// Server reflection of one connection, so that grpcurl and its like work. Ours, since gRPC's plugin
// costs a thread for each server it is linked into (measured: 100 servers, 99 threads).
//
// Threading: gRPC's threads.
#ifndef STAGELOAD_DAEMON_RPC_REFLECTION_SERVICE_H_
#define STAGELOAD_DAEMON_RPC_REFLECTION_SERVICE_H_

#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"

namespace stageload::rpc {

class ReflectionService final : public grpc::reflection::v1::ServerReflection::CallbackService {
 public:
  grpc::ServerBidiReactor<grpc::reflection::v1::ServerReflectionRequest,
                          grpc::reflection::v1::ServerReflectionResponse>*
  ServerReflectionInfo(grpc::CallbackServerContext* context) override;
};

// The same under its older name.
class ReflectionServiceAlpha final
    : public grpc::reflection::v1alpha::ServerReflection::CallbackService {
 public:
  grpc::ServerBidiReactor<grpc::reflection::v1alpha::ServerReflectionRequest,
                          grpc::reflection::v1alpha::ServerReflectionResponse>*
  ServerReflectionInfo(grpc::CallbackServerContext* context) override;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_REFLECTION_SERVICE_H_
