// WatchTelemetry: one subscriber's way through the frames.
//
// Threading: any thread.
#ifndef STAGELOAD_DAEMON_RPC_FRAME_STREAM_H_
#define STAGELOAD_DAEMON_RPC_FRAME_STREAM_H_

#include <grpcpp/support/slice.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/rpc/open_streams.h"
#include "daemon/rpc/typed_call.h"
#include "daemon/telemetry/hub.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::rpc {

// Of the events in one frame, and of those that are carried from frames left out: with both, an
// answer stays well under the 4 MiB that a client takes by default. Older ones give way, and an
// event "events_left_out" says so.
inline constexpr std::size_t kMaxEventBytes = std::size_t{1} << 20;

// The frame's bytes, which live for as long as the slice.
grpc::Slice SharedSlice(std::shared_ptr<const telemetry::Published> frame);

// Says so.
v1::Event EventsLeftOut(absl::Time time);

// A reader that is too slow skips frames and is told how many; of what it holds up, one answer is
// in memory for it alone (kMaxEventBytes of events, and the frame that all share). InvalidArgument
// names the field; ResourceExhausted when there are too many.
void StreamFrames(StreamCall<v1::WatchTelemetryResponse> call, telemetry::Hub* hub,
                  OpenStreams& streams, const v1::WatchTelemetryRequest& request);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_FRAME_STREAM_H_
