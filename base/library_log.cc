#include "base/library_log.h"

// Debian 12's Abseil has no log yet, and its gRPC logs errors only.
#if __has_include("absl/log/globals.h")
#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#endif

namespace stageload {

void SilenceLibraryLog() {
#if __has_include("absl/log/globals.h")
  absl::SetMinLogLevel(absl::LogSeverityAtLeast::kFatal);
#endif
}

}  // namespace stageload
