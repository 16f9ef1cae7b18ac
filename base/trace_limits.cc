#include "base/trace_limits.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace stageload {

absl::Status CheckTraceSize(Bytes size) {
  if (size < Bytes()) return absl::InvalidArgumentError(absl::StrCat(size.count(), " is negative"));
  if (size <= kMostTraceBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(size.count(), " bytes (", FormatBytes(size),
                   ") is more than any machine has: ", FormatBytes(kMostTraceBytes), " at most"));
}

absl::Status CheckTraceSeconds(double seconds) {
  if (seconds >= 0 && seconds <= kMostTraceSeconds) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(seconds, " s is not a time from 0 to ", kMostTraceSeconds, " s"));
}

}  // namespace stageload
