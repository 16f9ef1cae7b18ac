// Gets frames and puts the machine's part into words.
#include "client/ctl/telemetry.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_reason.h"
#include "base/text.h"
#include "client/ctl/errors.h"
#include "client/ctl/json.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

std::string Size(std::int64_t bytes) { return FormatBytes(Bytes(bytes)); }

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

std::string HostLine(const v1::HostSample& host) {
  std::vector<std::string> parts;
  if (host.has_level_percent()) {
    parts.push_back(absl::StrCat("level ", FormatPercent(Percent{host.level_percent()})));
  }
  if (host.has_available_bytes()) {
    parts.push_back(
        absl::StrCat(Size(host.available_bytes()),
                     host.has_total_bytes() ? absl::StrCat(" of ", Size(host.total_bytes())) : "",
                     " available"));
  }
  if (host.has_swap_used_bytes()) {
    parts.push_back(absl::StrCat(
        "swap ", Size(host.swap_used_bytes()),
        host.has_swap_total_bytes() ? absl::StrCat(" of ", Size(host.swap_total_bytes())) : ""));
  }
  if (host.has_pressure()) parts.push_back(absl::StrCat("pressure ", Word(host.pressure())));
  return absl::StrJoin(parts, ", ");
}

}  // namespace stageload::ctl
