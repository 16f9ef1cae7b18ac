// AdminService.
//
// Threading: gRPC's threads.
#ifndef STAGELOAD_DAEMON_RPC_ADMIN_SERVICE_H_
#define STAGELOAD_DAEMON_RPC_ADMIN_SERVICE_H_

#include "daemon/rpc/parts.h"
#include "daemon/rpc/typed_call.h"
#include "stageload/v1/admin_service.grpc.pb.h"

namespace stageload::rpc {

class AdminService final {
 public:
  using Api = v1::AdminService;

  explicit AdminService(const Parts& parts) : parts_(parts) {}

  void GetVersion(const v1::GetVersionRequest& request, UnaryCall<v1::GetVersionResponse> call);
  void Shutdown(const v1::ShutdownRequest& request, UnaryCall<v1::ShutdownResponse> call);
  void GetConfig(const v1::GetConfigRequest& request, UnaryCall<v1::GetConfigResponse> call);
  void ReloadConfig(const v1::ReloadConfigRequest& request,
                    UnaryCall<v1::ReloadConfigResponse> call);

 private:
  const Parts& parts_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_ADMIN_SERVICE_H_
