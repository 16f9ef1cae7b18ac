// From a frame of telemetry to the API's message.
//
// Threading: pure functions.
#ifndef STAGELOAD_DAEMON_RPC_CONVERT_FRAME_H_
#define STAGELOAD_DAEMON_RPC_CONVERT_FRAME_H_

#include "daemon/telemetry/frame.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::rpc {

v1::Frame ToProto(const telemetry::Frame& frame);
v1::Event ToProto(const telemetry::Event& event);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_CONVERT_FRAME_H_
