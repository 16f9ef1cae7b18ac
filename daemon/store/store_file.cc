#include "daemon/store/store_file.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/disk_error.h"
#include "base/error_reason.h"
#include "daemon/store/columns.h"
#include "daemon/store/salvage.h"
#include "daemon/store/schema.h"

namespace stageload::store {
namespace {

// A connection of the user's own (the sqlite3 shell) may hold the file for a moment.
constexpr int kBusyTimeoutMs = 2000;
// A whole check takes 3.3 ms/MiB. Up to this size it is made at each start; a larger file is
// checked after an unclean end, or when a read has met damage.
constexpr off_t kCheckedAlways = 16 * 1024 * 1024;
// KiB. What is checked is read, and so a store of up to this size stays in memory as a whole: a
// file that is cut or written over while it is open is then written anew from there. More would not
// leave an idle daemon within its 24 MiB.
constexpr char kKeepInMemory[] = "PRAGMA cache_size = -8192";

// Of a small file, or one that nobody closed: SQLite removes the write-ahead log at the end.
bool ShouldCheck(const std::string& path) {
  struct stat found {};
  if (::stat((path + "-wal").c_str(), &found) == 0) return true;
  return ::stat(path.c_str(), &found) == 0 && found.st_size <= kCheckedAlways;
}

off_t SizeOf(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? found.st_size : -1;
}

absl::Status Failed(const std::string& what, const std::string& path, int error) {
  const absl::Status status = DiskError(error, absl::StrCat(what, " ", path));
  return WithReason(absl::UnavailableError(status.message()), kStoreFailed);
}

absl::Status Foreign(const std::string& path, uid_t owner) {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          path, " belongs to uid ", owner, " (we are uid ", ::geteuid(),
          "); chown it to the user whose jobs it holds, or set STAGELOAD_HOME to a folder of your "
          "own")),
      kStoreFailed);
}

// Where the file is that `path` names: SQLite looks for the write-ahead log beside what a link
// leads to. A file that was moved from under a daemon and linked back has left its log beside the
// link.
absl::StatusOr<std::string> PlaceOf(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISLNK(found.st_mode)) return path;
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (real == nullptr) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          path, " is a link that leads to no file: ", std::strerror(errno),
                          "; bring that file back, or remove the link to start anew")),
                      kStoreFailed);
  }
  const std::string place = real.get();
  struct stat log {};
  if (::stat((path + "-wal").c_str(), &log) != 0 || log.st_size == 0) return place;
  // One that is older than the file was left by an earlier move, and has nothing for it.
  if (::stat(place.c_str(), &found) == 0 && log.st_mtime >= found.st_mtime &&
      SizeOf(place + "-wal") <= 0) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            path, " is a link, and its newest jobs are in ", path,
            "-wal, which is not read from there: move the file back over the link (mv ", place, " ",
            path, "); to have it elsewhere, stop the daemon before you move it")),
        kStoreFailed);
  }
  return place;
}

// SQLite would say no more than "unable to open database file", and would make the file with the
// process's umask. Its -wal and -shm take their mode from it (sqlite3 os_unix.c,
// findCreateFileMode).
absl::Status MakePrivateFile(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return Failed("open", path, errno);
  struct stat found {};
  absl::Status status;
  if (::fstat(descriptor, &found) != 0) {
    status = Failed("look at", path, errno);
  } else if (found.st_uid != ::geteuid()) {
    status = Foreign(path, found.st_uid);
  } else if (::fchmod(descriptor, 0600) != 0) {
    status = Failed("chmod 0600", path, errno);
  }
  ::close(descriptor);
  return status;
}

// SQLite's word on the first damage; nothing when the file is sound.
std::optional<std::string> Damage(SQLite::Database& database) {
  const std::string found = database.execAndGet("PRAGMA quick_check(1)").getString();
  if (found == "ok") return std::nullopt;
  // "*** in database main ***\nTree 5 page 5 cell 1: ..."
  return absl::StrReplaceAll(found, {{"*** in database main ***\n", ""}, {"\n", "; "}});
}

// Refuses what is not ours before anything is written: closing a database would otherwise move its
// write-ahead log into the file. DataLoss for a damaged one.
absl::Status CheckVersion(SQLite::Database& database, const std::string& path, bool suspicious,
                          int* version) {
  sqlite3_db_config(database.getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  database.exec(kKeepInMemory);
  *version = database.execAndGet("PRAGMA user_version").getInt();
  if (*version == 0 && database.execAndGet("SELECT count(*) FROM sqlite_master").getInt() != 0) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            path, " is a database of another program: move it away, or set another state folder")),
        kStoreFailed);
  }
  const bool strange = *version > kSchemaVersion || *version < 0;
  if (suspicious || strange) {
    if (const auto damage = Damage(database)) return absl::DataLossError(*damage);
  }
  if (strange) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            path, " was written by a newer stageload (schema ", *version, "; this one writes ",
            kSchemaVersion, "): install that version again, or move the file away to start anew")),
        kStoreFailed);
  }
  sqlite3_db_config(database.getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  return absl::OkStatus();
}

void Configure(SQLite::Database& database) {
  database.exec("PRAGMA journal_mode = WAL");
  database.exec("PRAGMA synchronous = FULL");
  // macOS: fsync(2) leaves data in the drive's cache, F_FULLFSYNC does not. No effect elsewhere.
  database.exec("PRAGMA fullfsync = ON");
  database.exec("PRAGMA checkpoint_fullfsync = ON");
  database.exec("PRAGMA foreign_keys = ON");
  // An environment may hold secrets: what is dropped is overwritten.
  database.exec("PRAGMA secure_delete = ON");
}

// What stood at the path.
enum class Before { kAbsent, kEmpty, kThere };

std::int64_t HighestIn(SQLite::Database& database) {
  SQLite::Statement select(database, kHighestId);
  return select.executeStep() ? select.getColumn(0).getInt64() : 0;
}

// A store that knows less than the folders of jobs, which come after their rows: the numbers that
// it has lost are not given out again, whether of those or of others since.
void KeepIdsFree(SQLite::Database& database, const std::string& path, core::JobId known,
                 Before before) {
  const std::int64_t highest = HighestIn(database);
  if (core::Value(known) <= highest && before != Before::kEmpty) return;
  const std::int64_t above = core::Value(known) + kUnseenIds;
  std::string what = " was not there, though jobs have folders";
  if (before == Before::kEmpty) {
    what = " was empty, as when it was cut or a disk has lost it: jobs that waited in it are gone";
  } else if (before == Before::kThere) {
    what = absl::StrCat(" knows of no job above ", highest, ", though job ", core::Value(known),
                        " has a folder, as when its -wal was lost or an older copy put in its "
                        "place: jobs that only waited since then are gone");
  }
  SQLite::Transaction transaction(database);
  ReserveIds(database, above);
  SetSetting(database, kRecovery, absl::StrCat(path, what, "; new jobs begin above ", above));
  transaction.commit();
}

// The number of pages is known from then on without the file (sqlite3 wal.c, sqlite3WalDbsize), by
// which they can be read from memory when the file was cut. A full disk is met by others.
void BeginLog(SQLite::Database& database) {
  try {
    SetSetting(database, "opened", std::to_string(ToNanoseconds(absl::Now())));
  } catch (const SQLite::Exception&) {
  }
}

// DataLoss when it is damaged.
absl::StatusOr<OpenFile> TryOpen(const std::string& path, core::JobId known, bool alone,
                                 Before before) {
  const bool suspicious = ShouldCheck(path);
  try {
    auto database =
        std::make_unique<SQLite::Database>(path, SQLite::OPEN_READWRITE, kBusyTimeoutMs);
    // Before anything is read: the index of the write-ahead log is then kept in memory, not in the
    // -shm, which would end us by SIGBUS when it is cut.
    if (alone) database->exec("PRAGMA locking_mode = EXCLUSIVE");
    int version = 0;
    if (absl::Status status = CheckVersion(*database, path, suspicious, &version); !status.ok()) {
      return status;
    }
    const bool logged = database->execAndGet("PRAGMA journal_mode").getString() == "wal";
    Configure(*database);
    Migrate(*database, version);
    KeepIdsFree(*database, path, known, before);
    BeginLog(*database);
    if (!logged && version != 0 && suspicious) (void)Damage(*database);  // read into memory again
    return OpenFile{std::move(database), path, alone};
  } catch (const SQLite::Exception& exception) {
    if (IsDamage(exception)) return absl::DataLossError(exception.what());
    // Somebody looks into it: it is shared with them.
    if (alone && (exception.getErrorCode() & 0xff) == SQLITE_BUSY) {
      return TryOpen(path, known, false, before);
    }
    return StoreFailed(path, "open the store", exception);
  }
}

// SQLite deletes the write-ahead log of an empty file unread. That of a small store may have all
// that was ever in it.
bool KeepLogOfEmptied(const std::string& path) {
  constexpr off_t kNotEmpty = 512;  // the smallest page; of a single byte, SQLite says 0
  return SizeOf(path) == 0 && SizeOf(path + "-wal") > 0 && ::truncate(path.c_str(), kNotEmpty) == 0;
}

}  // namespace

void SetSetting(SQLite::Database& database, const char* name, const std::string& value) {
  SQLite::Statement set(database, kSetSetting);
  set.bind(1, name);
  set.bind(2, value);
  set.exec();
}

void ReserveIds(SQLite::Database& database, std::int64_t highest) {
  database.exec("DELETE FROM sqlite_sequence WHERE name = 'jobs'");
  SQLite::Statement reserve(database, "INSERT INTO sqlite_sequence (name, seq) VALUES ('jobs', ?)");
  reserve.bind(1, highest);
  reserve.exec();
}

bool IsDamage(const SQLite::Exception& exception) {
  const int code = exception.getErrorCode() & 0xff;
  return code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
}

absl::Status StoreFailed(const std::string& path, const std::string& what, const std::string& why) {
  return WithReason(absl::UnavailableError(absl::StrCat(what, " ", path, ": ", why)), kStoreFailed);
}

absl::Status StoreFailed(const std::string& path, const std::string& what,
                         const SQLite::Exception& exception) {
  const char* advice = "";
  if (IsDamage(exception)) {
    advice =
        "; run `stageloadctl daemon stop`: the next start sets the damaged file aside and goes on "
        "with what can be read of it, and jobs run on meanwhile";
  } else if (exception.getExtendedErrorCode() == SQLITE_IOERR_FSYNC) {
    advice =
        "; its disk is full or fails, and may keep this or not: what is sent again with the same "
        "request id is not queued twice";
  } else if ((exception.getErrorCode() & 0xff) == SQLITE_FULL) {
    advice = "; free space on its disk";
  } else if ((exception.getErrorCode() & 0xff) == SQLITE_IOERR) {
    advice = "; its disk is full or fails: free space, or see what the system's log says of it";
  } else if ((exception.getErrorCode() & 0xff) == SQLITE_READONLY) {
    advice = "; mount it writable";
  }
  return StoreFailed(path, what, absl::StrCat(exception.what(), advice));
}

void Migrate(SQLite::Database& database, int version) {
  for (; version < kSchemaVersion; ++version) {
    SQLite::Transaction transaction(database);
    database.exec(kMigrations[static_cast<std::size_t>(version)]);
    database.exec(absl::StrCat("PRAGMA user_version = ", version + 1));
    transaction.commit();
  }
}

absl::StatusOr<OpenFile> OpenStoreFile(const std::string& name, const HighestId& known_elsewhere,
                                       Sharing sharing) {
  const bool alone = sharing == Sharing::kAlone;
  if (absl::Status status = FinishSalvage(name); !status.ok()) return status;
  const absl::StatusOr<std::string> place = PlaceOf(name);
  if (!place.ok()) return place.status();
  const std::string& path = *place;
  if (absl::Status status = FinishSalvage(path); !status.ok()) return status;
  const off_t size = SizeOf(path);
  const Before before = size < 0 ? Before::kAbsent : size == 0 ? Before::kEmpty : Before::kThere;
  if (absl::Status status = MakePrivateFile(path); !status.ok()) return status;
  std::string why =
      before == Before::kAbsent ? "it was removed, and its -wal was left" : "it was cut to nothing";
  const core::JobId known = known_elsewhere ? known_elsewhere() : core::JobId{0};
  if (!KeepLogOfEmptied(path)) {
    absl::StatusOr<OpenFile> file = TryOpen(path, known, alone, before);
    if (!absl::IsDataLoss(file.status())) return file;
    why = std::string(file.status().message());
  }
  if (absl::Status status = Salvage(path, why, known); !status.ok()) return status;
  if (absl::Status status = MakePrivateFile(path); !status.ok()) return status;
  return TryOpen(path, known, alone, Before::kThere);
}

}  // namespace stageload::store
