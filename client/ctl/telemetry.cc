// Gets frames and events.
#include "client/ctl/telemetry.h"

#include <algorithm>
#include <utility>

#include "base/error_reason.h"
#include "client/ctl/errors.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

constexpr std::size_t kMaxPage = 1000;
constexpr absl::Duration kFrameWithin = absl::Seconds(5);  // of one that has just answered

// The next frame that the daemon makes.
absl::StatusOr<v1::Frame> NextFrame(const Connection& connection) {
  grpc::ClientContext context;
  SetTimeout(context);
  const auto stub = v1::TelemetryService::NewStub(connection.channel);
  const auto reader = stub->WatchTelemetry(&context, v1::WatchTelemetryRequest());
  v1::WatchTelemetryResponse response;
  if (reader->Read(&response)) {
    context.TryCancel();
    return response.frame();
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return FromGrpc(status);
  return absl::UnavailableError("the daemon ended the stream without a frame");
}

}  // namespace

absl::StatusOr<v1::Frame> NewestFrame(const Connection& connection) {
  grpc::ClientContext context;
  SetTimeout(context);
  v1::GetSnapshotResponse response;
  const absl::Status status =
      FromGrpc(v1::TelemetryService::NewStub(connection.channel)
                   ->GetSnapshot(&context, v1::GetSnapshotRequest(), &response));
  if (status.ok()) return response.frame();
  if (ReasonOf(status) == kNoSample) return NextFrame(connection);
  return status;
}

v1::Frame FrameIfAny(const Connection& connection) {
  grpc::ClientContext context;
  SetTimeout(context, kFrameWithin);
  v1::GetSnapshotResponse response;
  const grpc::Status status = v1::TelemetryService::NewStub(connection.channel)
                                  ->GetSnapshot(&context, v1::GetSnapshotRequest(), &response);
  return status.ok() ? std::move(*response.mutable_frame()) : v1::Frame();
}

absl::StatusOr<EventPage> NewestEvents(const Connection& connection, v1::ListHistoryRequest request,
                                       std::size_t count) {
  const auto stub = v1::TelemetryService::NewStub(connection.channel);
  EventPage page;
  do {
    // One more than is wanted tells whether there are more.
    const std::size_t missing = count + 1 - page.events.size();
    request.set_page_size(static_cast<int>(std::min(missing, kMaxPage)));
    grpc::ClientContext context;
    SetTimeout(context);
    v1::ListHistoryResponse response;
    const grpc::Status status = stub->ListHistory(&context, request, &response);
    if (!status.ok()) return FromGrpc(status);
    for (v1::Event& event : *response.mutable_events()) page.events.push_back(std::move(event));
    request.set_page_token(response.next_page_token());
  } while (page.events.size() <= count && !request.page_token().empty());
  page.more = page.events.size() > count;
  if (page.more) page.events.resize(count);
  std::reverse(page.events.begin(), page.events.end());
  return page;
}

absl::StatusOr<std::vector<v1::Event>> NewestEventsIfKept(const Connection& connection,
                                                          std::size_t count) {
  absl::StatusOr<EventPage> page = NewestEvents(connection, v1::ListHistoryRequest(), count);
  if (page.ok()) return std::move(page->events);
  if (absl::IsUnimplemented(page.status())) return std::vector<v1::Event>();
  return page.status();
}

}  // namespace stageload::ctl
