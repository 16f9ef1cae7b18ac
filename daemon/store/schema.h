// The tables and every statement that is run on them, so that a test can ask SQLite how it would
// run each. A step once released is never edited: a new version appends a step.
//
// Threading: constants.
#ifndef STAGELOAD_DAEMON_STORE_SCHEMA_H_
#define STAGELOAD_DAEMON_STORE_SCHEMA_H_

#include <array>

#include "daemon/store/store.h"

namespace stageload::store {

// Step i takes a file from version i to i + 1. Times and durations are nanoseconds, sizes bytes;
// what was absent is NULL. argv, environment and soft limits are bytes, each entry ended by a NUL:
// what execve(2) takes need not be text in any encoding.
inline constexpr std::array<const char*, kSchemaVersion> kMigrations = {
    // AUTOINCREMENT keeps the highest id ever given in sqlite_sequence, also when its row is
    // deleted.
    // The environment of one shell is that of all its jobs, so it is stored once: found by its
    // hash, told apart by its content, and dropped with the last spec that refers to it.
    R"sql(
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind INTEGER NOT NULL,
  name TEXT NOT NULL,
  command TEXT NOT NULL,
  working_directory TEXT NOT NULL,
  wait_free REAL NOT NULL,
  swap_budget INTEGER NOT NULL,
  swap_limit INTEGER,
  kill_free REAL NOT NULL,
  memory INTEGER,
  priority INTEGER NOT NULL,
  start_timeout INTEGER,
  grace INTEGER NOT NULL,
  state INTEGER NOT NULL,
  reason INTEGER NOT NULL,
  reason_text TEXT NOT NULL,
  exit_code INTEGER,
  signal INTEGER,
  start_errno INTEGER,
  submit_time INTEGER NOT NULL,
  start_time INTEGER,
  end_time INTEGER,
  root_pid INTEGER,
  root_start INTEGER,
  boot_id TEXT NOT NULL,
  charge INTEGER NOT NULL,
  peak_footprint INTEGER
);
CREATE INDEX jobs_by_state ON jobs (state);

CREATE TABLE environments (
  id INTEGER PRIMARY KEY,
  hash INTEGER NOT NULL,
  content BLOB NOT NULL
);
CREATE INDEX environments_by_hash ON environments (hash);

CREATE TABLE specs (
  job INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
  argv BLOB NOT NULL,
  working_directory BLOB NOT NULL,
  environment INTEGER NOT NULL REFERENCES environments (id),
  umask INTEGER NOT NULL,
  soft_limits BLOB NOT NULL
);
CREATE INDEX specs_by_environment ON specs (environment);
CREATE TRIGGER drop_unused_environment AFTER DELETE ON specs BEGIN
  DELETE FROM environments WHERE id = OLD.environment
    AND NOT EXISTS (SELECT 1 FROM specs WHERE environment = OLD.environment);
END;

CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  time INTEGER NOT NULL,
  job INTEGER,
  kind TEXT NOT NULL,
  text TEXT NOT NULL
);
)sql",
};

// The columns of `jobs` in the order in which a record is bound and read (store.cc, VisitColumns).
#define STAGELOAD_JOB_COLUMNS                                                                   \
  "id, kind, name, command, working_directory, wait_free, swap_budget, swap_limit, kill_free, " \
  "memory, priority, "                                                                          \
  "start_timeout, grace, state, reason, reason_text, exit_code, signal, start_errno, "          \
  "submit_time, start_time, end_time, root_pid, root_start, boot_id, charge, peak_footprint"
#define STAGELOAD_JOB_PLACES                                                                    \
  "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, " \
  "?21, ?22, ?23, ?24, ?25, ?26, ?27"

inline constexpr char kInsertJob[] =
    "INSERT INTO jobs (" STAGELOAD_JOB_COLUMNS ") VALUES (" STAGELOAD_JOB_PLACES ")";
inline constexpr char kUpdateJob[] =
    "UPDATE jobs SET (" STAGELOAD_JOB_COLUMNS ") = (" STAGELOAD_JOB_PLACES ") WHERE id = ?1";
inline constexpr char kSelectJob[] = "SELECT " STAGELOAD_JOB_COLUMNS " FROM jobs WHERE id = ?";
// 5 is core::JobState::kCompleted, the first end state. The unary + keeps SQLite from walking all
// of the table in order of its key instead of taking the few from the index and sorting them.
inline constexpr char kSelectUnended[] =
    "SELECT " STAGELOAD_JOB_COLUMNS " FROM jobs WHERE state < 5 ORDER BY +id";
inline constexpr char kListAll[] =
    "SELECT " STAGELOAD_JOB_COLUMNS " FROM jobs WHERE id < ? ORDER BY id DESC LIMIT ?";
inline constexpr char kListIdsOfState[] =
    "SELECT id FROM jobs WHERE state = ? AND id < ? ORDER BY id DESC LIMIT ?";
inline constexpr char kHighestId[] = "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'";

inline constexpr char kFindEnvironment[] =
    "SELECT id FROM environments WHERE hash = ? AND content = ?";
inline constexpr char kInsertEnvironment[] =
    "INSERT INTO environments (hash, content) VALUES (?, ?)";
inline constexpr char kInsertSpec[] =
    "INSERT INTO specs (job, argv, working_directory, environment, umask, soft_limits) "
    "VALUES (?, ?, ?, ?, ?, ?)";
inline constexpr char kSelectSpec[] =
    "SELECT argv, working_directory, content, umask, soft_limits FROM specs "
    "JOIN environments ON environments.id = specs.environment WHERE job = ?";
inline constexpr char kDropSpec[] = "DELETE FROM specs WHERE job = ?";

inline constexpr char kInsertEvent[] =
    "INSERT INTO events (time, job, kind, text) VALUES (?, ?, ?, ?)";

}  // namespace stageload::store

#endif  // STAGELOAD_DAEMON_STORE_SCHEMA_H_
