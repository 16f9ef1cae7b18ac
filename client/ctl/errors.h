// From a failed call to one line and an exit code.
//
// Threading: pure functions, but for Fail and Note, which write to stderr.
#ifndef STAGELOAD_CLIENT_CTL_ERRORS_H_
#define STAGELOAD_CLIENT_CTL_ERRORS_H_

#include <string>

#include "absl/status/status.h"
#include "client/lib/status.h"

namespace stageload::ctl {

using client::FromGrpc;

// Whether it is that there is no daemon, or that it went away.
bool SaysThereIsNone(const absl::Status& status);

// 2 for what the user asked wrongly, 4 for ADMISSION_TIMEOUT, 69 when there is no daemon, it went
// away or it listens elsewhere, else 1.
int ExitCodeOf(const absl::Status& status);

// "stageload: <text>" as one line on stderr, in one write; control characters are shown as '?'.
void Note(const std::string& text);

// Says why on stderr; returns the exit code.
int Fail(const absl::Status& status);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_ERRORS_H_
