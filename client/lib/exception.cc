#include "client/lib/exception.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "base/utf8.h"
#include "client/lib/connection.h"

namespace stageload::client {

Error ToError(const absl::Status& status) {
  return Error(static_cast<ErrorCode>(status.code()), ReasonOf(status),
               std::string(status.message()));
}

void Throw(const absl::Status& status, std::vector<Blocker> blockers) {
  const std::string reason = ReasonOf(status);
  const std::string message(status.message());
  if (reason == kAdmissionTimeout) throw NoRoom(message, std::move(blockers));
  if (reason == kNeverFits) throw NeverFits(message);
  if (reason == kJobEnded) throw Stopped(message);
  if (WentAway(status) || (absl::IsDeadlineExceeded(status) && reason.empty())) {
    throw NoDaemon(message);
  }
  if (absl::IsCancelled(status)) throw Cancelled(message);
  throw ToError(status);
}

void ThrowForked(const char* what) {
  throw Error(ErrorCode::kFailedPrecondition, "FORKED",
              absl::StrCat(what,
                           " belongs to the process that made it, and this is a child that was "
                           "forked from that: use it there, or execute a program that makes one of "
                           "its own"));
}

void CheckText(const char* field, const std::string& text) {
  const bool utf8 = IsUtf8(text);
  const bool control = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  if (utf8 && !control) return;
  Throw(WithReason(absl::InvalidArgumentError(absl::StrCat(
                       field, utf8 ? ": holds a control character" : ": is not UTF-8")),
                   kInvalidField, field));
}

void CheckSaysSomething(const char* field, const std::string& text) {
  CheckText(field, text);
  if (!text.empty()) return;
  Throw(WithReason(absl::InvalidArgumentError(absl::StrCat(field, ": is empty")), kInvalidField,
                   field));
}

}  // namespace stageload::client
