// AdmissionService of one connection.
//
// Threading: gRPC's threads.
#ifndef STAGELOAD_DAEMON_RPC_ADMISSION_SERVICE_H_
#define STAGELOAD_DAEMON_RPC_ADMISSION_SERVICE_H_

#include "absl/status/status.h"
#include "daemon/rpc/parts.h"
#include "daemon/rpc/peer.h"
#include "stageload/v1/admission_service.grpc.pb.h"

namespace stageload::rpc {

class AdmissionService final : public v1::AdmissionService::CallbackService {
 public:
  AdmissionService(const Parts& parts, const Peer& peer) : parts_(parts), peer_(peer) {}

  grpc::ServerWriteReactor<v1::GuardResponse>* Guard(grpc::CallbackServerContext* context,
                                                     const v1::GuardRequest* request) override;
  grpc::ServerWriteReactor<v1::ResumeGuardResponse>* ResumeGuard(
      grpc::CallbackServerContext* context, const v1::ResumeGuardRequest* request) override;
  grpc::ServerUnaryReactor* ReportExit(grpc::CallbackServerContext* context,
                                       const v1::ReportExitRequest* request,
                                       v1::ReportExitResponse* response) override;

 private:
  // PermissionDenied unless the process belongs to the peer's user or descends from the peer.
  absl::Status CheckMayName(std::int32_t pid) const;

  const Parts& parts_;
  const Peer peer_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_ADMISSION_SERVICE_H_
