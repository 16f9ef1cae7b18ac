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

namespace stageload::rpc {
namespace {

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
  // They fail from 2 GiB on, which no frame comes near.
  static_cast<void>(events.AppendPartialToString(&encoded.bytes));
  static_cast<void>(response.AppendPartialToString(&encoded.bytes));
  return encoded;
}
static_assert(int{v1::GetSnapshotResponse::kFrameFieldNumber} ==
              int{v1::WatchTelemetryResponse::kFrameFieldNumber});

void TelemetryService::GetSnapshot(const v1::GetSnapshotRequest&,
                                   UnaryCall<v1::GetSnapshotResponse> call) {
  std::shared_ptr<const telemetry::Published> newest = parts_.hub->Newest();
  if (newest == nullptr) {
    return call.Fail(
        WithReason(absl::UnavailableError("the machine has not been read yet"), kNoSample));
  }
  const grpc::Slice slice = SharedSlice(std::move(newest));
  call.AnswerBytes(grpc::ByteBuffer(&slice, 1));
}

void TelemetryService::WatchTelemetry(const v1::WatchTelemetryRequest& request,
                                      StreamCall<v1::WatchTelemetryResponse> call) {
  StreamFrames(call, parts_.hub, streams_, request);
}

void TelemetryService::ListHistory(const v1::ListHistoryRequest& request,
                                   UnaryCall<v1::ListHistoryResponse> call) {
  absl::StatusOr<store::EventQuery> query = ToEventQuery(request);
  if (!query.ok()) return call.Fail(query.status());
  const int page = query->limit;
  query->limit = page + 1;  // one more tells whether there is another page
  parts_.engine->ListEvents(*std::move(query),
                            [call, page](const absl::StatusOr<std::vector<store::EventRow>>& rows) {
                              if (!rows.ok()) return call.Fail(rows.status());
                              v1::ListHistoryResponse response;
                              FillHistory(*rows, page, response);
                              call.Answer(response);
                            });
}

void TelemetryService::WatchProcess(const v1::WatchProcessRequest& request,
                                    StreamCall<v1::WatchProcessResponse> call) {
  absl::StatusOr<engine::RecordRequest> record = ToRecord(request, {0, peer_.pid});
  if (record.ok()) {
    absl::Status may = CheckMayName(parts_, peer_, record->pid, "record");
    if (!may.ok()) record = std::move(may);
  }
  StartProcessWatch(call, parts_.engine, record);
}

}  // namespace stageload::rpc
