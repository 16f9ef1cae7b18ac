// AdminService.
//
// Threading: gRPC's threads.
#ifndef STAGELOAD_DAEMON_RPC_ADMIN_SERVICE_H_
#define STAGELOAD_DAEMON_RPC_ADMIN_SERVICE_H_

#include "daemon/rpc/parts.h"
#include "stageload/v1/admin_service.grpc.pb.h"

namespace stageload::rpc {

class AdminService final : public v1::AdminService::CallbackService {
 public:
  explicit AdminService(const Parts& parts) : parts_(parts) {}

  grpc::ServerUnaryReactor* GetVersion(grpc::CallbackServerContext* context,
                                       const v1::GetVersionRequest* request,
                                       v1::GetVersionResponse* response) override;
  grpc::ServerUnaryReactor* Shutdown(grpc::CallbackServerContext* context,
                                     const v1::ShutdownRequest* request,
                                     v1::ShutdownResponse* response) override;

 private:
  const Parts& parts_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_ADMIN_SERVICE_H_
