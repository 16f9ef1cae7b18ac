#include "daemon/rpc/telemetry_service.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error_reason.h"
#include "daemon/rpc/convert_frame.h"
#include "daemon/rpc/convert_session.h"
#include "daemon/rpc/frame_stream.h"
#include "daemon/rpc/history.h"
#include "daemon/rpc/named_process.h"
#include "daemon/rpc/process_watch.h"
#include "daemon/rpc/server.h"
#include "daemon/rpc/status.h"
#include "daemon/rpc/unary.h"

namespace stageload::rpc {
namespace {

bool Parse(const grpc::ByteBuffer& buffer, google::protobuf::MessageLite& message) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return false;
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return message.ParseFromString(bytes);
}

absl::Status BadRequest() {
  return WithReason(absl::InvalidArgumentError("the request is not of the method's type"),
                    kInvalidField);
}

// The newest ones that fit; their time is that of the frame.
void LimitEvents(absl::Time time, google::protobuf::RepeatedPtrField<v1::Event>& events) {
  std::size_t size = 0;
  for (int i = events.size(); i-- > 0;) {
    size += events[i].ByteSizeLong();
    if (size <= kMaxEventBytes) continue;
    events.DeleteSubrange(0, i);
    events[0] = EventsLeftOut(time);
    return;
  }
}

}  // namespace

// A frame on the wire is field 1 of both answers, so that one run of bytes serves both. Its events
// come first, in a field 1 of their own.
telemetry::Encoded EncodeFrame(const telemetry::Frame& frame) {
  v1::GetSnapshotResponse response;
  v1::GetSnapshotResponse events;
  *response.mutable_frame() = ToProto(frame);
  if (response.frame().events_size() > 0) {
    events.mutable_frame()->mutable_events()->Swap(response.mutable_frame()->mutable_events());
    LimitEvents(frame.time.wall, *events.mutable_frame()->mutable_events());
  }
  telemetry::Encoded encoded;
  encoded.events_size = events.ByteSizeLong();
  encoded.bytes.reserve(encoded.events_size + response.ByteSizeLong());
  events.AppendPartialToString(&encoded.bytes);
  response.AppendPartialToString(&encoded.bytes);
  return encoded;
}
static_assert(int{v1::GetSnapshotResponse::kFrameFieldNumber} ==
              int{v1::WatchTelemetryResponse::kFrameFieldNumber});

grpc::ServerUnaryReactor* TelemetryService::GetSnapshot(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  v1::GetSnapshotRequest parsed;
  if (!Parse(*request, parsed)) return Fail(context, BadRequest());
  std::shared_ptr<const telemetry::Published> newest = parts_.hub->Newest();
  if (newest == nullptr) {
    return Fail(context,
                WithReason(absl::UnavailableError("the machine has not been read yet"), kNoSample));
  }
  const grpc::Slice slice = SharedSlice(std::move(newest));
  *response = grpc::ByteBuffer(&slice, 1);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* TelemetryService::WatchTelemetry(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  v1::WatchTelemetryRequest parsed;
  if (!Parse(*request, parsed)) return new RefusedStream(BadRequest());
  return StreamFrames(parts_.hub, streams_, parsed);
}

grpc::ServerUnaryReactor* TelemetryService::ListHistory(grpc::CallbackServerContext* context,
                                                        const v1::ListHistoryRequest* request,
                                                        v1::ListHistoryResponse* response) {
  absl::StatusOr<store::EventQuery> query = ToEventQuery(*request);
  if (!query.ok()) return Fail(context, query.status());
  const int page = query->limit;
  query->limit = page + 1;  // one more tells whether there is another page
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  parts_.engine->ListEvents(
      *std::move(query),
      [reactor, response, page](const absl::StatusOr<std::vector<store::EventRow>>& rows) {
        if (rows.ok()) FillHistory(*rows, page, *response);
        reactor->Finish(ToGrpc(rows.status()));
      });
  return reactor;
}

grpc::ServerWriteReactor<v1::WatchProcessResponse>* TelemetryService::WatchProcess(
    grpc::CallbackServerContext*, const v1::WatchProcessRequest* request) {
  absl::StatusOr<engine::RecordRequest> record = ToRecord(*request, {0, peer_.pid});
  if (record.ok()) {
    absl::Status may = CheckMayName(parts_, peer_, record->pid, "record");
    if (!may.ok()) record = std::move(may);
  }
  return StartProcessWatch(parts_.engine, record);
}

}  // namespace stageload::rpc
