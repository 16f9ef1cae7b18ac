// How a job and its spec become columns and come back. One list of fields serves both ways, so that
// they cannot drift apart.
//
// Errors: SQLite::Exception passes through; whoever calls catches it.
// Threading: pure functions of the statement.
#ifndef STAGELOAD_DAEMON_STORE_COLUMNS_H_
#define STAGELOAD_DAEMON_STORE_COLUMNS_H_

#include <SQLiteCpp/Statement.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/core/job.h"

namespace stageload::store {

// The record in the order of STAGELOAD_JOB_COLUMNS. What is bound must outlive the statement's run.
void BindJob(SQLite::Statement& statement, const core::JobRecord& record);
core::JobRecord ReadJob(SQLite::Statement& statement);

void BindBytes(SQLite::Statement& statement, int index, std::string_view bytes);
void BindText(SQLite::Statement& statement, int index, const std::string& text);

std::int64_t ToNanoseconds(absl::Time time);

// Entries, each ended by a NUL. InvalidArgument for an entry that holds one itself.
absl::StatusOr<std::string> JoinEntries(const std::vector<std::string>& entries);
std::vector<std::string> SplitEntries(std::string_view joined);
// "7=1024", an entry for each limit.
std::string JoinLimits(const std::vector<std::pair<int, std::uint64_t>>& limits);
std::vector<std::pair<int, std::uint64_t>> SplitLimits(std::string_view joined);

}  // namespace stageload::store

#endif  // STAGELOAD_DAEMON_STORE_COLUMNS_H_
