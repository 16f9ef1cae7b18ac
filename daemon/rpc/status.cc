#include "daemon/rpc/status.h"

#include <string>

#include "base/error_reason.h"
#include "daemon/rpc/utf8.h"
#include "stageload/v1/error.pb.h"

namespace stageload::rpc {
namespace {

constexpr std::size_t kMaxMessage = 2048;  // it travels twice

void AddDetail(const char* type, const google::protobuf::MessageLite& detail,
               v1::ErrorStatus& out) {
  v1::ErrorDetail* any = out.add_details();
  any->set_type_url(std::string("type.googleapis.com/") + type);
  any->set_value(detail.SerializeAsString());
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string message(status.message());
  if (message.size() > kMaxMessage) message.resize(kMaxMessage);
  message = ToUtf8(message);

  v1::ErrorStatus out;
  out.set_code(static_cast<int>(status.code()));
  out.set_message(message);
  if (const std::string reason = ReasonOf(status); !reason.empty()) {
    v1::ErrorInfo info;
    info.set_reason(reason);
    info.set_domain("stageload.dev");
    if (const std::string field = FieldOf(status); !field.empty()) {
      (*info.mutable_metadata())["field"] = field;
    }
    AddDetail("google.rpc.ErrorInfo", info, out);
  }
  if (absl::IsUnavailable(status)) {
    v1::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(1);
    AddDetail("google.rpc.RetryInfo", retry, out);
  }
  return {static_cast<grpc::StatusCode>(status.code()), message, out.SerializeAsString()};
}

}  // namespace stageload::rpc
