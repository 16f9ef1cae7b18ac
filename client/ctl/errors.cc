// Exit codes, and what stderr is told.
#include "client/ctl/errors.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/print.h"
#include "client/lib/autostart.h"

namespace stageload::ctl {
int ExitCodeOf(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  if (reason == kAdmissionTimeout) return kExitNoRoom;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kUnavailable:
      return reason.empty() || reason == kShuttingDown ? kExitNoDaemon : kExitOther;
    default:
      return kExitOther;
  }
}

void Note(const std::string& text) {
  (void)WriteAll(2, absl::StrCat("stageload: ", Printable(text), "\n"));
}

int Fail(const absl::Status& status) {
  Note(std::string(status.message()));
  // There is one, and none for this program: it looks at another place.
  if (ReasonOf(status) == client::kOtherSocket) return kExitNoDaemon;
  return ExitCodeOf(status);
}

}  // namespace stageload::ctl
