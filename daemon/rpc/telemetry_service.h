// TelemetryService of one connection. Frames are serialised once for all who read them, and handed
// on as bytes.
//
// Threading: gRPC's threads, and the hub's for delivery.
#ifndef STAGELOAD_DAEMON_RPC_TELEMETRY_SERVICE_H_
#define STAGELOAD_DAEMON_RPC_TELEMETRY_SERVICE_H_

#include "daemon/rpc/open_streams.h"
#include "daemon/rpc/parts.h"
#include "daemon/rpc/peer.h"
#include "daemon/rpc/typed_call.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::rpc {

class TelemetryService final {
 public:
  using Api = v1::TelemetryService;

  TelemetryService(const Parts& parts, const Peer& peer, OpenStreams& streams)
      : parts_(parts), peer_(peer), streams_(streams) {}

  void GetSnapshot(const v1::GetSnapshotRequest& request, UnaryCall<v1::GetSnapshotResponse> call);
  void WatchTelemetry(const v1::WatchTelemetryRequest& request,
                      StreamCall<v1::WatchTelemetryResponse> call);
  void ListHistory(const v1::ListHistoryRequest& request, UnaryCall<v1::ListHistoryResponse> call);
  void WatchProcess(const v1::WatchProcessRequest& request,
                    StreamCall<v1::WatchProcessResponse> call);

 private:
  const Parts& parts_;
  const Peer peer_;
  OpenStreams& streams_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_TELEMETRY_SERVICE_H_
