// Whether the files of an open store are still as this process has left them. SQLite does not ask:
// it goes on from its cache, and the next start would find a file that was cut or written over.
//
// Threading: as the database's.
#ifndef STAGELOAD_DAEMON_STORE_FILE_MARK_H_
#define STAGELOAD_DAEMON_STORE_FILE_MARK_H_

#include <SQLiteCpp/Database.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace stageload::store {

// Of the file itself and of its write-ahead log: what any other writer would change first.
struct FileMark {
  std::int64_t size = 0;
  std::string header;
  std::int64_t log_size = 0;
  std::string log_header;
  // By its name: the one that is open may have lost it.
  ino_t log_file = 0;
};

// Through SQLite's own descriptors: to close another one would drop its locks. Nothing where one
// cannot be read now, which is no sign of anything.
std::optional<FileMark> ReadMark(SQLite::Database& database, const std::string& path);

// "was cut from 40960 to 0 bytes"; nothing while all is as it was. Where others may have the store
// open too (`alone` is false), only what none of them does.
std::optional<std::string> ChangedBy(const FileMark& before, const FileMark& now, bool alone);

// What stands at a path, which may be a link to something else.
struct FileName {
  ino_t file = 0;
  bool is_link = false;
  bool operator==(const FileName&) const = default;
};
// Nothing where nothing can be found.
std::optional<FileName> ReadName(const std::string& path);

}  // namespace stageload::store

#endif  // STAGELOAD_DAEMON_STORE_FILE_MARK_H_
