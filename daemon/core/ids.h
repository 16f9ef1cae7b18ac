// Names of things that outlive the process that made them.
//
// Threading: plain values.
#ifndef STAGELOAD_DAEMON_CORE_IDS_H_
#define STAGELOAD_DAEMON_CORE_IDS_H_

#include <cstdint>

namespace stageload::core {

// A client: a job, a guarded command or a registered session. One sequence for all, starting at 1,
// never used again.
enum class JobId : std::int64_t {};
// A lease, asked for or held. Starts at 1 with each daemon, since no lease outlives its stream.
enum class LeaseId : std::int64_t {};

constexpr std::int64_t Value(JobId id) { return static_cast<std::int64_t>(id); }
constexpr std::int64_t Value(LeaseId id) { return static_cast<std::int64_t>(id); }

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_IDS_H_
