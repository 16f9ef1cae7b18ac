// Reading and printing the quantities that people type: sizes, durations, percentages.
//
// Threading: pure functions.
#ifndef STAGELOAD_BASE_TEXT_H_
#define STAGELOAD_BASE_TEXT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/units.h"

namespace stageload {

// "8G", "512M", "1.5GiB", "300 KB", "0"; binary multiples, letters in either case, a bare number is
// bytes. Not negative. InvalidArgument names the text and shows a right one.
absl::StatusOr<Bytes> ParseBytes(std::string_view text);

// "500ms", "90s", "1.5h", "30m", "2h", "1d", "1h30m"; a bare number is seconds. Not negative, and
// no longer than 64-bit nanoseconds hold (292 years).
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);

// "40" or "40%": 0 to 100.
absl::StatusOr<Percent> ParsePercent(std::string_view text);

// "13.3 GiB", "512 MiB", "9 B", "-1.5 GiB": three significant places at most, but whole numbers
// from 1000 to 1023 stay as they are ("1000 MiB").
std::string FormatBytes(Bytes bytes);

// "50ms", "0.5s", "42s", "3m12s", "2h05m", "1d04h".
// Not FormatDuration: argument-dependent lookup would find absl's too.
std::string FormatSpan(absl::Duration duration);

// "40 %", "7.5 %"; rounded down.
std::string FormatPercent(Percent percent);

}  // namespace stageload

#endif  // STAGELOAD_BASE_TEXT_H_
