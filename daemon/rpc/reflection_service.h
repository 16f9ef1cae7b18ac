// Server reflection of one connection, so that grpcurl and its like work. Ours, since gRPC's plugin
// costs a thread for each server it is linked into (measured: 100 servers, 99 threads).
//
// Threading: gRPC's threads.
#ifndef STAGELOAD_DAEMON_RPC_REFLECTION_SERVICE_H_
#define STAGELOAD_DAEMON_RPC_REFLECTION_SERVICE_H_

#include <grpcpp/generic/async_generic_service.h>

#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"

namespace stageload::rpc {

// Its one method, under its name and its older one. The messages are the same on the wire.
inline constexpr const char* kReflectionPaths[] = {
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
};

// A call of it, with many questions and answers.
grpc::ServerGenericBidiReactor* NewReflection();

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_REFLECTION_SERVICE_H_
