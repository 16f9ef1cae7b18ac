// The beginning of a file of SQLite's (https://www.sqlite.org/fileformat.html, 1.3).
//
// Threading: pure functions.
#ifndef STAGELOAD_BASE_DATABASE_FILE_H_
#define STAGELOAD_BASE_DATABASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stageload {

inline constexpr std::size_t kDatabaseHeaderBytes = 100;

// The length in bytes that a file has at the least by its first kDatabaseHeaderBytes; nothing where
// they are no database's.
std::optional<std::int64_t> StatedLength(std::string_view header);

}  // namespace stageload

#endif  // STAGELOAD_BASE_DATABASE_FILE_H_
