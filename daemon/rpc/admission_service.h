// AdmissionService of one connection.
//
// Threading: gRPC's threads.
#ifndef STAGELOAD_DAEMON_RPC_ADMISSION_SERVICE_H_
#define STAGELOAD_DAEMON_RPC_ADMISSION_SERVICE_H_

#include "daemon/rpc/parts.h"
#include "daemon/rpc/peer.h"
#include "stageload/v1/admission_service.grpc.pb.h"

namespace stageload::rpc {

class AdmissionService final : public v1::AdmissionService::CallbackService {
 public:
  AdmissionService(const Parts& parts, const Peer& peer);

  grpc::ServerWriteReactor<v1::GuardResponse>* Guard(grpc::CallbackServerContext* context,
                                                     const v1::GuardRequest* request) override;
  grpc::ServerWriteReactor<v1::ResumeGuardResponse>* ResumeGuard(
      grpc::CallbackServerContext* context, const v1::ResumeGuardRequest* request) override;
  grpc::ServerUnaryReactor* ReportExit(grpc::CallbackServerContext* context,
                                       const v1::ReportExitRequest* request,
                                       v1::ReportExitResponse* response) override;
  grpc::ServerWriteReactor<v1::RegisterResponse>* Register(
      grpc::CallbackServerContext* context, const v1::RegisterRequest* request) override;
  grpc::ServerWriteReactor<v1::AcquireResponse>* Acquire(
      grpc::CallbackServerContext* context, const v1::AcquireRequest* request) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request,
                                    v1::ReleaseResponse* response) override;
  grpc::ServerUnaryReactor* Report(grpc::CallbackServerContext* context,
                                   const v1::ReportRequest* request,
                                   v1::ReportResponse* response) override;

 private:
  const Parts& parts_;
  const Peer peer_;
  const engine::Caller caller_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_ADMISSION_SERVICE_H_
