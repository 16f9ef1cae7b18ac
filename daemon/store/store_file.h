// The file of the store: made for its user alone, opened, its schema brought up to date. A damaged
// one is set aside and what can be read of it is kept (salvage.h).
//
// Threading: one call at a time for one path.
#ifndef STAGELOAD_DAEMON_STORE_STORE_FILE_H_
#define STAGELOAD_DAEMON_STORE_STORE_FILE_H_

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/store/store.h"

namespace stageload::store {

struct OpenFile {
  std::unique_ptr<SQLite::Database> database;
  std::string place;  // where it is, if a link leads to it
  bool alone = false;
};

// As Store::Open().
absl::StatusOr<OpenFile> OpenStoreFile(const std::string& name, const HighestId& known_elsewhere,
                                       Sharing sharing);

// A file of ours is not as SQLite wrote it; another try will not help.
bool IsDamage(const SQLite::Exception& exception);
// "write to PATH: database or disk is full; free space ...": Unavailable, with a reason.
absl::Status StoreFailed(const std::string& path, const std::string& what,
                         const SQLite::Exception& exception);
absl::Status StoreFailed(const std::string& path, const std::string& what, const std::string& why);

void SetSetting(SQLite::Database& database, const char* name, const std::string& value);
// From here on ids of jobs begin above `highest`.
void ReserveIds(SQLite::Database& database, std::int64_t highest);

// Takes an empty or older database to kSchemaVersion.
void Migrate(SQLite::Database& database, int version);

}  // namespace stageload::store

#endif  // STAGELOAD_DAEMON_STORE_STORE_FILE_H_
