// A recorded run as it is kept in a file: JSON lines, one of them per sample of the machine and of
// the one process that was watched, with events between them.
//
// Lines need not be in time order. A recording that was killed has no "end", and its last line may
// be cut; what is whole is read, and `notes` says what is missing. Fields and types that are not
// known here are kept as they are.
//
// Threading: plain values; ReadTrace blocks its thread.
#ifndef STAGELOAD_BASE_TRACE_H_
#define STAGELOAD_BASE_TRACE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"

namespace stageload {

// `rest` holds the fields of a line that have no place of their own, as one JSON object; empty when
// there are none. `t` is in seconds since the recording began, on a clock that stands still while
// the machine sleeps.

struct TraceStart {
  std::string utc;                         // RFC 3339; as it stands there
  std::optional<double> interval_seconds;  // from one sample to the next, as it was asked for
  std::string rest;
};

struct TraceSample {
  double t = 0;
  std::optional<Bytes> footprint;
  std::optional<Bytes> swap_used;
  std::optional<Percent> level;
  std::optional<Bytes> available;  // of the machine
  std::string rest;
};

struct TraceEvent {
  double t = 0;      // may lie before the recording's start
  std::string kind;  // "stage", "mark", "load", "reload", "release", or another word
  std::string stage;
  std::string name;
  std::optional<Bytes> nbytes;
  std::optional<double> seconds;
  std::string note;
  std::string rest;
};

// A reading that failed: there is a gap where a sample would be.
struct TraceError {
  double t = 0;
  std::string error;
};

struct Trace {
  std::string path;
  std::optional<TraceStart> start;
  std::vector<TraceSample> samples;  // one at least; by t, and in the file's order where t is equal
  std::vector<TraceEvent> events;    // likewise
  std::vector<TraceError> errors;    // in the file's order
  std::vector<std::string> others;   // lines of types that are not known, in the file's order
  bool ended = false;                // there is an "end"
  // What a reader should know, one line each: `line 207 is cut: left out`,
  // `no sample for 49s after t = 20.5`, `3 of 40 samples have no "level"`.
  std::vector<std::string> notes;
};

// Between samples that are further apart than this something is missing.
double LongestUsualGap(const Trace& trace);

// Reads a file, a pipe too, line by line. Errors name the file, and the line where there is one:
// NotFound, PermissionDenied and what else the system says; InvalidArgument for what is no trace
// (binary, empty, a line that is no JSON and not the last one, a line over 1 MiB), for a value that
// cannot be (a sample without `t`, a negative size, a level over 100), for two recordings in one
// file, and for one without a sample.
absl::StatusOr<Trace> ReadTrace(const std::string& path);

}  // namespace stageload

#endif  // STAGELOAD_BASE_TRACE_H_
