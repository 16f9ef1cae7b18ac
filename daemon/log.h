// The daemon's own log: one line an event, as text or as one JSON object, in files that are
// rotated, and on stderr where that is asked for.
//
// Threading: OpenLog() once, before the others; those from any thread.
#ifndef STAGELOAD_DAEMON_LOG_H_
#define STAGELOAD_DAEMON_LOG_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "daemon/config.h"
#include "daemon/engine/engine.h"

namespace stageload {

// Writes to stageloadd.log in `folder`, which is there.
absl::Status OpenLog(const std::string& folder, const LogConfig& config, bool to_stderr);
// Takes level and format of `config` from here on.
void ChangeLog(const LogConfig& config);
void CloseLog();

// What happened, in one word for programs, and a line for people.
void Log(LogLevel level, const char* event, const std::string& text,
         std::optional<core::JobId> job = std::nullopt);
// What the engine tells, with its readings.
void Log(const telemetry::Event& event, const engine::Readings& readings);

}  // namespace stageload

#endif  // STAGELOAD_DAEMON_LOG_H_
