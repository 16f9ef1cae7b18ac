// Exit codes, and what stderr is told.
#include "client/ctl/errors.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/print.h"
#include "client/lib/autostart.h"

namespace stageload::ctl {

bool SaysThereIsNone(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return absl::IsUnavailable(status) && (reason.empty() || reason == kShuttingDown);
}

int ExitCodeOf(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  if (reason == kAdmissionTimeout) return kExitNoRoom;
  // There is one, and none for this program: it looks at another place.
  if (SaysThereIsNone(status) || reason == client::kOtherSocket) return kExitNoDaemon;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    default:
      return kExitOther;
  }
}

void Note(const std::string& text) {
  (void)WriteAll(2, absl::StrCat("stageload: ", Printable(text), "\n"));
}

int Fail(const absl::Status& status) {
  Note(std::string(status.message()));
  return ExitCodeOf(status);
}

}  // namespace stageload::ctl
