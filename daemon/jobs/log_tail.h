// Where the last lines of a job's log begin.
//
// A line belongs to one of the two outputs and ends with its newline, or with the last byte of its
// output where that is none. Lines are ordered by where they end, so the last ones of both outputs
// together may begin far apart: each output has a begin of its own.
//
// Threading: pure calls into the kernel.
#ifndef STAGELOAD_DAEMON_JOBS_LOG_TAIL_H_
#define STAGELOAD_DAEMON_JOBS_LOG_TAIL_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/jobs/log.h"

namespace stageload::jobs {

// All counts are of bytes that the job has put out, stdout first, then stderr.
using OutputBytes = std::array<std::uint64_t, 2>;

struct LogTail {
  std::uint64_t segment = 0;  // to begin to read with
  OutputBytes seen = {};      // what comes before that was left out, and nobody misses it
  OutputBytes from = {};      // of each output what is wanted begins here
};

// Reads the newest segments, as many as the lines lie in, one chunk at a time. nullopt when the log
// has no more lines than that, so that all of it is wanted.
absl::StatusOr<std::optional<LogTail>> FindTail(const std::string& folder, LogStream stream,
                                                std::int64_t lines);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_LOG_TAIL_H_
