#include "daemon/store/salvage.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/core/job.h"
#include "daemon/store/columns.h"
#include "daemon/store/file_mark.h"
#include "daemon/store/schema.h"
#include "daemon/store/store_file.h"

namespace stageload::store {
namespace {

constexpr const char* kCompanions[] = {"-shm", "-wal", ""};  // the file itself last
constexpr std::int64_t kNoId = -1;
constexpr std::int64_t kNear = 4096;

std::string Building(const std::string& path) { return path + ".salvage"; }
std::string Whole(const std::string& path) { return path + ".salvaged"; }

bool Exists(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0;
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("rename ", from, " to ", to));
}

absl::Status SyncFolderOf(const std::string& path) {
  const std::string folder = path.substr(0, path.find_last_of('/') + 1);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat("open ", folder));
  absl::Status status;
  if (::fsync(descriptor) != 0) status = absl::ErrnoToStatus(errno, absl::StrCat("fsync ", folder));
  ::close(descriptor);
  return status;
}

// "PATH.damaged-20261129T171500Z", or with a number behind it where that is taken.
std::string AsideName(const std::string& path, const char* why = "damaged") {
  const std::string name = absl::StrCat(
      path, ".", why, "-", absl::FormatTime("%Y%m%dT%H%M%SZ", absl::Now(), absl::UTCTimeZone()));
  std::string free = name;
  for (int i = 2; Exists(free); ++i) free = absl::StrCat(name, "-", i);
  return free;
}

// Errors of reading, as against those of writing the new file.
bool IsUnreadable(const SQLite::Exception& exception) {
  const int code = exception.getExtendedErrorCode();
  return IsDamage(exception) || code == SQLITE_IOERR_READ || code == SQLITE_IOERR_SHORT_READ ||
         code == SQLITE_IOERR_CORRUPTFS;
}

// One table of the damaged file, read by rowid.
class DamagedTable {
 public:
  DamagedTable(SQLite::Database& damaged, const std::string& table, const std::string& columns)
      : next_(damaged,
              absl::StrCat("SELECT rowid FROM ", table, " WHERE rowid > ? ORDER BY rowid LIMIT 1")),
        row_(damaged, absl::StrCat("SELECT ", columns, " FROM ", table, " WHERE rowid = ?")) {}

  // The first row after `id` that can be found; kNoId after the last.
  std::int64_t After(std::int64_t id) {
    // A page that cannot be read holds some dozen rows, with ids that are mostly next to each
    // other.
    for (std::int64_t from = id; from <= id + kNear; ++from) {
      if (const auto next = TryAfter(from)) return *next;
    }
    return FarAfter(id + kNear);
  }

  // The row, ready to be read; null when a page of it cannot be.
  SQLite::Statement* Row(std::int64_t id) {
    row_.tryReset();
    row_.bind(1, id);
    try {
      return row_.executeStep() ? &row_ : nullptr;
    } catch (const SQLite::Exception& exception) {
      if (!IsUnreadable(exception)) throw;
      return nullptr;
    }
  }

 private:
  std::optional<std::int64_t> TryAfter(std::int64_t id) {
    next_.tryReset();
    next_.bind(1, id);
    try {
      if (!next_.executeStep()) return kNoId;
      const std::int64_t next = next_.getColumn(0).getInt64();
      if (next > id) return next;
      return std::nullopt;  // out of order: not a page of this table
    } catch (const SQLite::Exception& exception) {
      if (!IsUnreadable(exception)) throw;
      return std::nullopt;
    }
  }

  // Steps grow until something is found, then its beginning is looked for within the last step.
  std::int64_t FarAfter(std::int64_t bad) {
    std::int64_t step = 1;
    std::optional<std::int64_t> found;
    while (!found) {
      if (step > std::numeric_limits<std::int64_t>::max() / 4) return kNoId;
      found = TryAfter(bad + step);
      if (!found) bad += step;
      step *= 2;
    }
    std::int64_t good = bad + step / 2;
    while (good - bad > 1) {
      const std::int64_t middle = bad + (good - bad) / 2;
      if (const auto here = TryAfter(middle)) {
        good = middle;
        found = here;
      } else {
        bad = middle;
      }
    }
    return *found;
  }

  SQLite::Statement next_;
  SQLite::Statement row_;
};

void BindColumn(const SQLite::Column& column, SQLite::Statement& statement, int index) {
  switch (column.getType()) {
    case SQLITE_INTEGER:
      return statement.bind(index, column.getInt64());
    case SQLITE_FLOAT:
      return statement.bind(index, column.getDouble());
    case SQLITE_TEXT:
      return statement.bind(index, column.getString());
    case SQLITE_BLOB:
      // SQLite has no pointer for an empty one, and would take none for NULL.
      return statement.bind(index, column.getBytes() > 0 ? column.getBlob() : "",
                            column.getBytes());
    default:
      return statement.bind(index);
  }
}

std::vector<std::string> ColumnsOf(SQLite::Database& database, const std::string& table) {
  std::vector<std::string> columns;
  SQLite::Statement select(database,
                           absl::StrCat("SELECT name FROM pragma_table_info('", table, "')"));
  while (select.executeStep()) columns.push_back(select.getColumn(0).getString());
  return columns;
}

// Copies what it can from one file into the other.
class Copy {
 public:
  Copy(SQLite::Database& damaged, SQLite::Database& fresh) : damaged_(damaged), fresh_(fresh) {}

  void Run() {
    ReadSequence();
    SQLite::Statement tables(fresh_,
                             "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT "
                             "LIKE 'sqlite_%' ORDER BY name");
    while (tables.executeStep()) {
      try {
        CopyTable(tables.getColumn(0).getString());
      } catch (const SQLite::Exception& exception) {
        if (!IsUnreadable(exception)) throw;  // its schema could not be read
      }
    }
  }

  // The highest id that the damaged file shows or may have given out.
  std::int64_t highest() const {
    return sequence_ ? std::max(*sequence_, highest_) : highest_ + kUnseenIds;
  }
  std::int64_t lost() const { return lost_; }

 private:
  void ReadSequence() {
    try {
      SQLite::Statement select(damaged_, kHighestId);
      if (select.executeStep()) sequence_ = select.getColumn(0).getInt64();
    } catch (const SQLite::Exception& exception) {
      if (!IsUnreadable(exception) && exception.getErrorCode() != SQLITE_ERROR) throw;
    }
  }

  void CopyTable(const std::string& table) {
    const std::vector<std::string> theirs = ColumnsOf(damaged_, table);
    std::vector<std::string> columns;
    for (const std::string& column : ColumnsOf(fresh_, table)) {
      if (std::find(theirs.begin(), theirs.end(), column) != theirs.end())
        columns.push_back(column);
    }
    if (columns.empty()) return;  // an older schema did not have it
    const std::string names = absl::StrJoin(columns, ", ");
    DamagedTable rows(damaged_, table, names);
    SQLite::Statement insert(
        fresh_,
        absl::StrCat("INSERT OR IGNORE INTO ", table, " (", names, ") VALUES (",
                     absl::StrJoin(std::vector<std::string>(columns.size(), "?"), ", "), ")"));
    for (std::int64_t id = rows.After(0); id != kNoId; id = rows.After(id)) {
      if (table == "jobs") NoteId(id);
      const SQLite::Statement* row = rows.Row(id);
      if (row == nullptr) {
        ++lost_;
        continue;
      }
      insert.tryReset();
      for (int i = 0; i < static_cast<int>(columns.size()); ++i) {
        BindColumn(row->getColumn(i), insert, i + 1);
      }
      insert.exec();
    }
  }

  // An id above the highest that was ever given out is none: its page is not ours.
  void NoteId(std::int64_t id) {
    if (!sequence_ || id <= *sequence_) highest_ = std::max(highest_, id);
  }

  SQLite::Database& damaged_;
  SQLite::Database& fresh_;
  std::optional<std::int64_t> sequence_;
  std::int64_t highest_ = 0;
  std::int64_t lost_ = 0;
};

std::int64_t Count(SQLite::Database& database, const std::string& table) {
  return database.execAndGet(absl::StrCat("SELECT count(*) FROM ", table)).getInt64();
}

// Drops what has lost the row that it hangs on, and ends jobs that nobody can start any more.
void TieUp(SQLite::Database& fresh, std::int64_t highest) {
  fresh.exec(absl::StrCat("DELETE FROM jobs WHERE state NOT BETWEEN 1 AND ",
                          static_cast<int>(core::JobState::kUnknown),
                          " OR kind NOT BETWEEN 0 AND 2 OR id NOT BETWEEN 1 AND ", highest));
  fresh.exec(
      "DELETE FROM specs WHERE job NOT IN (SELECT id FROM jobs) OR environment NOT IN (SELECT id "
      "FROM environments)");
  fresh.exec("DELETE FROM environments WHERE id NOT IN (SELECT environment FROM specs)");
  SQLite::Statement end(fresh,
                        "UPDATE jobs SET state = ?, reason = ?, end_time = ?, reason_text = ? "
                        "WHERE kind = 0 AND state = 1 AND id NOT IN (SELECT job FROM specs)");
  end.bind(1, static_cast<std::int64_t>(core::JobState::kFailed));
  end.bind(2, static_cast<std::int64_t>(core::Reason::kStartFailed));
  end.bind(3, ToNanoseconds(absl::Now()));
  end.bind(4, kCommandLost);
  end.exec();
}

// The damaged file as it is, its write-ahead log left unmoved; null when SQLite does not know it.
std::unique_ptr<SQLite::Database> OpenDamaged(const std::string& path) {
  try {
    auto damaged = std::make_unique<SQLite::Database>(path, SQLite::OPEN_READWRITE);
    sqlite3_db_config(damaged->getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    // A file that was cut is else refused as a whole (sqlite3 btree.c, lockBtree). Nothing is
    // written.
    damaged->exec("PRAGMA writable_schema = ON");
    damaged->exec("PRAGMA user_version");  // reads the first page and the log
    return damaged;
  } catch (const SQLite::Exception& exception) {
    if (!IsUnreadable(exception)) throw;
    return nullptr;
  }
}

// A new file with the rows of `damaged` (null for none) that can be read, not yet in its place.
// Returns what it has, in words; `begun` is how the sentence begins.
std::string Build(const std::string& path, SQLite::Database* damaged, const std::string& aside,
                  const std::string& begun, std::int64_t known_elsewhere) {
  SQLite::Database fresh(Building(path), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  fresh.exec("PRAGMA journal_mode = MEMORY");
  fresh.exec("PRAGMA synchronous = FULL");
  fresh.exec("PRAGMA fullfsync = ON");
  fresh.exec("PRAGMA cache_size = -65536");  // KiB: the indexes are filled out of order
  Migrate(fresh, 0);
  SQLite::Transaction transaction(fresh);
  std::int64_t highest = known_elsewhere + kUnseenIds;
  std::int64_t lost = 0;
  if (damaged != nullptr) {
    Copy copy(*damaged, fresh);
    copy.Run();
    highest = std::max(known_elsewhere, copy.highest());
    lost = copy.lost();
  }
  TieUp(fresh, highest);
  ReserveIds(fresh, highest);
  SetSetting(fresh, kSetAside, aside);
  const std::string text = absl::StrCat(
      begun, ": it is kept as ", aside, ", and what could be read goes on: ", Count(fresh, "jobs"),
      " jobs, ", Count(fresh, "specs"), " commands, ", Count(fresh, "events"), " events, ",
      Count(fresh, "profile_runs"), " profile runs",
      lost > 0 ? absl::StrCat("; of ", lost, " rows only the id") : "", "; new jobs begin above ",
      highest);
  SetSetting(fresh, kRecovery, text);
  transaction.commit();
  return text;
}

void RemoveBuilding(const std::string& path) {
  for (const char* companion : {"-journal", "-wal", "-shm", ""}) {
    ::unlink((Building(path) + companion).c_str());
  }
}

// From here on the new file counts.
absl::Status MakeItCount(const std::string& path) {
  absl::Status status = Rename(Building(path), Whole(path));
  if (status.ok()) status = SyncFolderOf(path);
  if (status.ok()) return status;
  return StoreFailed(path, "set aside", std::string(status.message()));
}

}  // namespace

absl::Status Salvage(const std::string& path, const std::string& why, core::JobId known_elsewhere) {
  RemoveBuilding(path);
  try {
    (void)Build(path, OpenDamaged(path).get(), AsideName(path),
                absl::StrCat(path, " was damaged (", why, ")"), core::Value(known_elsewhere));
  } catch (const SQLite::Exception& exception) {
    RemoveBuilding(path);
    return StoreFailed(path, absl::StrCat("keep what can be read of the damaged (", why, ")"),
                       exception);
  }
  if (absl::Status status = MakeItCount(path); !status.ok()) return status;
  return FinishSalvage(path);
}

namespace {

// False when a page of it can neither be read from memory nor from the file.
bool CopyWhole(SQLite::Database& open, const std::string& path, const std::string& aside) {
  try {
    SQLite::Statement copy(open, "VACUUM INTO ?");
    copy.bind(1, Building(path));
    copy.exec();
    SQLite::Database fresh(Building(path), SQLite::OPEN_READWRITE);
    // A page of another file that was written over ours may look like one of ours.
    if (fresh.execAndGet("PRAGMA quick_check(1)").getString() == "ok") {
      fresh.exec("PRAGMA synchronous = FULL");  // the copy itself is not on disk before this commit
      fresh.exec("PRAGMA fullfsync = ON");
      SetSetting(fresh, kSetAside, aside);
      return true;
    }
  } catch (const SQLite::Exception& exception) {
    if (!IsUnreadable(exception)) throw;
  }
  RemoveBuilding(path);
  return false;
}

}  // namespace

absl::StatusOr<WrittenAnew> WriteAnew(SQLite::Database& open, const std::string& path,
                                      const std::optional<std::string>& changed,
                                      core::JobId known_elsewhere) {
  RemoveBuilding(path);
  const std::string aside = AsideName(path, "replaced");
  const bool replaced = Exists(path);
  const std::optional<FileName> name = ReadName(path);
  const bool linked = name && name->is_link;
  const std::string what = changed.value_or(linked     ? "was moved and a link put in its place"
                                            : replaced ? "was replaced"
                                                       : "was removed");
  const std::string begun = absl::StrCat(path, " ", what, " while the daemon ran");
  WrittenAnew written{aside, ""};
  try {
    if (!CopyWhole(open, path, aside)) {
      open.exec("PRAGMA writable_schema = ON");  // as in OpenDamaged()
      written.told = Build(path, &open, aside, begun, core::Value(known_elsewhere));
      written.rows_lost = true;
    }
  } catch (const SQLite::Exception& exception) {
    RemoveBuilding(path);
    return StoreFailed(path, "write what the daemon has back to", exception);
  }
  if (absl::Status status = MakeItCount(path); !status.ok()) return status;
  // Their file is gone, and they would be taken for the new one's.
  for (const char* companion : {"-shm", "-wal"}) {
    if (!replaced) ::unlink((path + companion).c_str());
  }
  if (absl::Status status = FinishSalvage(path); !status.ok()) return status;
  if (written.rows_lost) return written;
  written.told = absl::StrCat(
      begun, replaced ? absl::StrCat(linked ? ": that link" : ": that file", " is kept as ", aside,
                                     ", and all that the daemon had is there again")
                      : "; it is there again, nothing is lost");
  return written;
}

absl::Status FinishSalvage(const std::string& path) {
  if (!Exists(Whole(path))) return absl::OkStatus();
  const std::string aside =
      SQLite::Database(Whole(path), SQLite::OPEN_READONLY)
          .execAndGet(absl::StrCat("SELECT value FROM settings WHERE name = '", kSetAside, "'"))
          .getString();
  absl::Status status;
  for (const char* companion : kCompanions) {
    if (!status.ok() || !Exists(path + companion)) continue;
    status = Rename(path + companion, aside + companion);
  }
  if (status.ok()) status = SyncFolderOf(path);
  if (status.ok()) status = Rename(Whole(path), path);
  if (status.ok()) status = SyncFolderOf(path);
  if (status.ok()) return status;
  return StoreFailed(path, "set aside", std::string(status.message()));
}

}  // namespace stageload::store
