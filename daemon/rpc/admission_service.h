// AdmissionService of one connection.
//
// Threading: gRPC's threads.
#ifndef STAGELOAD_DAEMON_RPC_ADMISSION_SERVICE_H_
#define STAGELOAD_DAEMON_RPC_ADMISSION_SERVICE_H_

#include "daemon/rpc/parts.h"
#include "daemon/rpc/peer.h"
#include "daemon/rpc/typed_call.h"
#include "stageload/v1/admission_service.grpc.pb.h"

namespace stageload::rpc {

class AdmissionService final {
 public:
  using Api = v1::AdmissionService;

  AdmissionService(const Parts& parts, const Peer& peer);

  void Guard(const v1::GuardRequest& request, StreamCall<v1::GuardResponse> call);
  void ResumeGuard(const v1::ResumeGuardRequest& request, StreamCall<v1::ResumeGuardResponse> call);
  void ReportExit(const v1::ReportExitRequest& request, UnaryCall<v1::ReportExitResponse> call);
  void Register(const v1::RegisterRequest& request, StreamCall<v1::RegisterResponse> call);
  void Acquire(const v1::AcquireRequest& request, StreamCall<v1::AcquireResponse> call);
  void Release(const v1::ReleaseRequest& request, UnaryCall<v1::ReleaseResponse> call);
  void Report(const v1::ReportRequest& request, UnaryCall<v1::ReportResponse> call);

 private:
  const Parts& parts_;
  const Peer peer_;
  const engine::Caller caller_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_ADMISSION_SERVICE_H_
