// TelemetryService of one connection. Frames are serialised once for all who read them: the raw
// methods hand on bytes.
//
// Threading: gRPC's threads, and the hub's for delivery.
#ifndef STAGELOAD_DAEMON_RPC_TELEMETRY_SERVICE_H_
#define STAGELOAD_DAEMON_RPC_TELEMETRY_SERVICE_H_

#include "daemon/rpc/open_streams.h"
#include "daemon/rpc/parts.h"
#include "daemon/rpc/peer.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::rpc {

class TelemetryService final : public v1::TelemetryService::WithRawCallbackMethod_GetSnapshot<
                                   v1::TelemetryService::WithRawCallbackMethod_WatchTelemetry<
                                       v1::TelemetryService::WithCallbackMethod_WatchProcess<
                                           v1::TelemetryService::WithCallbackMethod_ListHistory<
                                               v1::TelemetryService::Service>>>> {
 public:
  TelemetryService(const Parts& parts, const Peer& peer, OpenStreams& streams)
      : parts_(parts), peer_(peer), streams_(streams) {}

  grpc::ServerUnaryReactor* GetSnapshot(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* WatchTelemetry(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* ListHistory(grpc::CallbackServerContext* context,
                                        const v1::ListHistoryRequest* request,
                                        v1::ListHistoryResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchProcessResponse>* WatchProcess(
      grpc::CallbackServerContext* context, const v1::WatchProcessRequest* request) override;

 private:
  const Parts& parts_;
  const Peer peer_;
  OpenStreams& streams_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_TELEMETRY_SERVICE_H_
