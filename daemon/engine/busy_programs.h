// Looks for programs that are not ours and that requests wait to see gone (`--busy`).
//
// Threading: one owner; reads command lines through the host.
#ifndef STAGELOAD_DAEMON_ENGINE_BUSY_PROGRAMS_H_
#define STAGELOAD_DAEMON_ENGINE_BUSY_PROGRAMS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/core/process.h"
#include "daemon/core/sample.h"
#include "daemon/host/host.h"

namespace stageload::engine {

// InvalidArgument, with the pattern and RE2's own words, for what is no regular expression of its
// syntax: that of Perl and Python, and POSIX's classes, without back references and looking around.
absl::Status CheckBusyPattern(const std::string& pattern);

// One reading for each pattern: the first process of `table` whose whole command line it matches,
// as pgrep -f would find it. Left out are processes that `is_ours`, this one, and every stageload
// program, since its own command line holds the pattern.
std::vector<core::BusyReading> LookForBusy(
    const std::vector<std::string>& patterns, const std::vector<host::Process>& table,
    host::Host& host, const std::function<bool(const core::ProcessIdentity&)>& is_ours);

}  // namespace stageload::engine

#endif  // STAGELOAD_DAEMON_ENGINE_BUSY_PROGRAMS_H_
