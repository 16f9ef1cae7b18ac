// A job's log: both outputs in the order in which the shim read them, in segments of bounded size.
// The shim is the only writer; any number of readers follow it across rotation.
//
// Threading: each object belongs to one thread.
#ifndef STAGELOAD_DAEMON_JOBS_LOG_H_
#define STAGELOAD_DAEMON_JOBS_LOG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/units.h"

namespace stageload::jobs {

enum class LogStream { kBoth, kStdout, kStderr };

// What one job's log may take on disk; the newest is kept.
inline constexpr Bytes kLogCap = MiB(256);

// A run of output, at most 64 KiB. `data` is empty where there is only a loss to tell.
struct LogPiece {
  LogStream stream = LogStream::kStdout;
  std::string data;
  absl::Time time;
  // Of this stream (of both, for a reader of both), lost just before this piece: over the cap, or
  // not written because the disk was full.
  Bytes dropped;
};

class LogReader {
 public:
  // `folder` is the job's folder; it need not hold a log yet.
  LogReader(std::string folder, LogStream stream);
  ~LogReader();
  LogReader(LogReader&&) noexcept;
  LogReader& operator=(LogReader&&) noexcept;

  // The next piece, or nullopt when all that is written by now has been read: ask again later.
  // A piece that is cut at the end of the file is waited for, never returned in part.
  // DataLoss, with file and offset, when the log is damaged.
  absl::StatusOr<std::optional<LogPiece>> Next();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_LOG_H_
