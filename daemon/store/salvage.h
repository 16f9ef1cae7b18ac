// What is done with a damaged store: everything that can still be read is copied into a new file,
// row by row, and the damaged one is kept beside it under a name that says so. A crash or a full
// disk in between costs nothing: the new file counts only once it is whole and on disk, and the
// next start finishes the exchange. A store whose file was taken away meanwhile is written alike.
//
// Errors: Unavailable, and then the damaged file is as it was. SQLite::Exception passes through.
// Threading: one call at a time for one path; nobody else has the store open.
#ifndef STAGELOAD_DAEMON_STORE_SALVAGE_H_
#define STAGELOAD_DAEMON_STORE_SALVAGE_H_

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/core/ids.h"

namespace stageload::store {

// `why` is SQLite's word on the damage. No id up to `known_elsewhere`, nor any that the damaged
// file shows, is given out again. What was done is kept as the setting kRecovery and as an event.
absl::Status Salvage(const std::string& path, const std::string& why, core::JobId known_elsewhere);

// Left free above what is known when a damaged file no longer tells the highest id it gave out:
// requests that waited may have had ids that nothing else shows.
inline constexpr std::int64_t kUnseenIds = 1000;

// Setting of a file that took another's place: what that one is, or was to be, kept as.
inline constexpr char kSetAside[] = "set_aside";

struct WrittenAnew {
  std::string set_aside;  // the new file's setting of that name
  std::string told;       // what was done, in words
  bool rows_lost = false;
};
// For a store that is open as `open` while its file at `path` was removed or is another one now, or
// `changed` says what was done to it ("was cut ..."): all that it holds goes into a new file there,
// in the same steps, and where a part of it can no longer be read, the rest. What stands there is
// kept as PATH.replaced-TIME.
absl::StatusOr<WrittenAnew> WriteAnew(SQLite::Database& open, const std::string& path,
                                      const std::optional<std::string>& changed,
                                      core::JobId known_elsewhere);

// Finishes an exchange that was cut short; nothing to do otherwise.
absl::Status FinishSalvage(const std::string& path);

}  // namespace stageload::store

#endif  // STAGELOAD_DAEMON_STORE_SALVAGE_H_
