#include "daemon/rpc/status.h"

#include <string>
#include <string_view>

#include "base/error_reason.h"
#include "base/utf8.h"
#include "stageload/v1/error.pb.h"

namespace stageload::rpc {
namespace {

// It travels twice: percent-encoded in "grpc-message", and once more in the details.
constexpr std::size_t kMaxEncoded = 2048;

// `text` up to the last whole character with which it takes no more than kMaxEncoded bytes in
// "grpc-message", where all but printable ASCII and '%' takes three (gRPC over HTTP/2, Responses).
std::string_view Cut(std::string_view utf8) {
  std::size_t encoded = 0;
  std::size_t whole = 0;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto byte = static_cast<unsigned char>(utf8[i]);
    if ((byte & 0xC0) != 0x80) whole = i;  // the start of a character
    encoded += byte >= 0x20 && byte < 0x7F && byte != '%' ? 1 : 3;
    if (encoded > kMaxEncoded) return utf8.substr(0, whole);
  }
  return utf8;
}

void AddDetail(const char* type, const google::protobuf::MessageLite& detail,
               v1::ErrorStatus& out) {
  v1::ErrorDetail* any = out.add_details();
  any->set_type_url(std::string("type.googleapis.com/") + type);
  any->set_value(detail.SerializeAsString());
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message(Cut(ToUtf8(std::string(status.message().substr(0, kMaxEncoded)))));

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
