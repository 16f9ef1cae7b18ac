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
  // Likewise, left out before this piece, since it comes before the lines that were asked for. What
  // was left out, dropped and read so far is where in the job's output the piece ends.
  Bytes skipped;
};

class LogReader {
 public:
  // `folder` is the job's folder; it need not hold a log yet. With `tail_lines` it begins with the
  // last so many lines of what is there at the first Next(), ordered by where they end; what an
  // output has put out after its last newline is a line, too. To find them it reads the newest
  // segments, as many as they lie in, and keeps one chunk of them at a time.
  LogReader(std::string folder, LogStream stream,
            std::optional<std::int64_t> tail_lines = std::nullopt);
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
