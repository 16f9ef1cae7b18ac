#include "base/error_reason.h"

#include <optional>

#include "absl/strings/cord.h"

namespace stageload {
namespace {

constexpr char kReasonUrl[] = "stageload.dev/reason";
constexpr char kFieldUrl[] = "stageload.dev/field";

std::string Payload(const absl::Status& status, const char* url) {
  const auto payload = status.GetPayload(url);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace

absl::Status WithReason(absl::Status status, std::string_view reason, std::string_view field) {
  status.SetPayload(kReasonUrl, absl::Cord(std::string(reason)));
  if (!field.empty()) status.SetPayload(kFieldUrl, absl::Cord(std::string(field)));
  return status;
}

std::string ReasonOf(const absl::Status& status) { return Payload(status, kReasonUrl); }
std::string FieldOf(const absl::Status& status) { return Payload(status, kFieldUrl); }

}  // namespace stageload
