// Says when this program and the daemon are not of one age, and when the daemon says nothing.
#include "client/ctl/connection.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/version.h"
#include "client/ctl/errors.h"

namespace stageload::ctl {

void TellSkew(const v1::GetVersionResponse& daemon) {
  if (daemon.api_level() == kApiLevel) return;
  const std::string theirs = absl::StrCat("the running daemon (", std::string(daemon.version()),
                                          ", API level ", daemon.api_level(), ")");
  const std::string ours = absl::StrCat("this program (", kVersion, ", API level ", kApiLevel, ")");
  if (daemon.api_level() < kApiLevel) {
    Note(
        absl::StrCat(theirs, " is older than ", ours,
                     "; restart it: `stageloadctl daemon stop`, then `stageloadctl daemon start`"));
    return;
  }
  Note(absl::StrCat(ours, " is older than ", theirs, "; install the newer stageloadctl"));
}

void TellSilence(absl::Duration within) {
  Note(absl::StrCat("the daemon does not answer; waiting for it, ", FormatSpan(within),
                    " at most (`stageloadctl doctor` says more)"));
}

}  // namespace stageload::ctl
