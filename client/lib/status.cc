// Reads what travels in "grpc-status-details-bin".
#include "client/lib/status.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "stageload/v1/error.pb.h"

namespace stageload::client {
namespace {

constexpr std::string_view kErrorInfoType = "/google.rpc.ErrorInfo";

// Empty when the details hold no ErrorInfo.
v1::ErrorInfo ErrorInfoOf(const std::string& details) {
  v1::ErrorInfo info;
  v1::ErrorStatus status;
  if (details.empty() || !status.ParseFromString(details)) return info;
  for (const v1::ErrorDetail& detail : status.details()) {
    const std::string type(detail.type_url());
    if (!type.ends_with(kErrorInfoType)) continue;
    if (info.ParseFromString(std::string(detail.value()))) return info;
    info.Clear();
  }
  return info;
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // The two libraries share the numbers of the codes.
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const v1::ErrorInfo info = ErrorInfoOf(status.error_details());
  if (!info.reason().empty()) {
    const auto field = info.metadata().find("field");
    return WithReason(absl::Status(code, status.error_message()), info.reason(),
                      field == info.metadata().end() ? "" : field->second);
  }
  // Without a reason it is the library that speaks.
  switch (code) {
    case absl::StatusCode::kUnavailable:
      return absl::UnavailableError(
          absl::StrCat("the daemon went away (", status.error_message(), ")"));
    case absl::StatusCode::kUnimplemented:
      return absl::UnimplementedError(
          "the running daemon is older than this program and cannot do that; restart it with "
          "`stageloadctl daemon stop`");
    case absl::StatusCode::kDeadlineExceeded:
      return absl::DeadlineExceededError("the daemon did not answer in time");
    default:
      return absl::Status(code, status.error_message());
  }
}

}  // namespace stageload::client
