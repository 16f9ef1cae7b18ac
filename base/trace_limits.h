// What a trace may say: readers refuse what is beyond it, so whoever writes one, or takes what will
// be written, refuses it too.
//
// Threading: pure functions.
#ifndef STAGELOAD_BASE_TRACE_LIMITS_H_
#define STAGELOAD_BASE_TRACE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/units.h"

namespace stageload {

// An exbibyte, and 300 years: whatever is above was not measured.
inline constexpr Bytes kMostTraceBytes{std::int64_t{1} << 60};
inline constexpr double kMostTraceSeconds = 1e10;
inline constexpr std::size_t kLongestTraceLine = std::size_t{1} << 20;

// Of a mark's size and time. InvalidArgument with the value and the most, such as
// "4611686018427387904 bytes (4 EiB) is more than any machine has: 1 EiB at most".
absl::Status CheckTraceSize(Bytes size);
absl::Status CheckTraceSeconds(double seconds);

}  // namespace stageload

#endif  // STAGELOAD_BASE_TRACE_LIMITS_H_
