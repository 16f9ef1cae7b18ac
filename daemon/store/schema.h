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
    // Everything that a job waits for and is stopped by, moments of its boot, and learned peaks.
    R"sql(
ALTER TABLE jobs ADD COLUMN memory_auto INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN time_limit INTEGER;
ALTER TABLE jobs ADD COLUMN charge_mode INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN on_over_budget INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN busy BLOB NOT NULL DEFAULT x'';
ALTER TABLE jobs ADD COLUMN quiet_for INTEGER NOT NULL DEFAULT 60000000000;
ALTER TABLE jobs ADD COLUMN group_name TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN profile TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN request_id TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN requeue INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN retry_of INTEGER;
ALTER TABLE jobs ADD COLUMN may_signal INTEGER NOT NULL DEFAULT 1;
ALTER TABLE jobs ADD COLUMN after BLOB NOT NULL DEFAULT x'';
ALTER TABLE jobs ADD COLUMN begin_time INTEGER;
ALTER TABLE jobs ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN started_awake INTEGER;
ALTER TABLE jobs ADD COLUMN suspended_awake INTEGER;
ALTER TABLE jobs ADD COLUMN suspended_for INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN stop_awake INTEGER;
ALTER TABLE jobs ADD COLUMN swap_at_charge INTEGER;
ALTER TABLE jobs ADD COLUMN charge_awake INTEGER;
ALTER TABLE jobs ADD COLUMN charge_continuous INTEGER;
ALTER TABLE jobs ADD COLUMN forgiven INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN bypassed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN true_peak INTEGER;
ALTER TABLE jobs ADD COLUMN available_at_start INTEGER;
ALTER TABLE jobs ADD COLUMN swap_at_start INTEGER;
ALTER TABLE jobs ADD COLUMN alone INTEGER NOT NULL DEFAULT 1;

CREATE TABLE profile_runs (
  id INTEGER PRIMARY KEY,
  profile TEXT NOT NULL,
  job INTEGER NOT NULL,
  footprint INTEGER,
  true_peak INTEGER
);
CREATE INDEX profile_runs_by_profile ON profile_runs (profile, id);

CREATE UNIQUE INDEX jobs_by_request ON jobs (request_id) WHERE request_id != '';
CREATE INDEX jobs_by_end ON jobs (end_time) WHERE end_time IS NOT NULL;
CREATE INDEX events_by_time ON events (time);
CREATE TABLE settings (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
);
)sql",
    // What a job waited for, who wants to hear of its end, and what sets it apart from others of
    // one
    // environment.
    R"sql(
ALTER TABLE jobs ADD COLUMN notify INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN waited BLOB NOT NULL DEFAULT x'';
ALTER TABLE specs ADD COLUMN variables BLOB NOT NULL DEFAULT x'';
)sql",
    // The history of one job and of one kind, in the order of time.
    R"sql(
CREATE INDEX events_by_job ON events (job, time);
CREATE INDEX events_by_kind ON events (kind, time);
)sql",
};

// The columns of `jobs` in the order in which a record is bound and read (store.cc, VisitColumns).
#define STAGELOAD_JOB_COLUMNS                                                                    \
  "id, kind, name, command, working_directory, wait_free, swap_budget, swap_limit, kill_free, "  \
  "memory, priority, "                                                                           \
  "start_timeout, grace, state, reason, reason_text, exit_code, signal, start_errno, "           \
  "submit_time, start_time, end_time, root_pid, root_start, boot_id, charge, peak_footprint, "   \
  "memory_auto, time_limit, charge_mode, on_over_budget, busy, quiet_for, group_name, profile, " \
  "request_id, requeue, retry_of, "                                                              \
  "may_signal, after, begin_time, held, started_awake, suspended_awake, suspended_for, "         \
  "stop_awake, swap_at_charge, charge_awake, charge_continuous, forgiven, bypassed, true_peak, " \
  "available_at_start, swap_at_start, alone, notify, waited"
#define STAGELOAD_JOB_PLACES                                                                    \
  "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, " \
  "?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, "  \
  "?39, ?40, ?41, ?42, ?43, ?44, ?45, ?46, ?47, ?48, ?49, ?50, ?51, ?52, ?53, ?54, ?55, ?56, ?57"

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
// instr() tells apart what LIKE does not, such as "_"; lower() takes A to Z only, as LIKE does.
inline constexpr char kListFiltered[] =
    "SELECT id, state FROM jobs WHERE id < ?1 AND (?2 = '' OR group_name = ?2) "
    "AND (?3 = '' OR instr(lower(name), lower(?3)) > 0) AND submit_time >= ?4 ORDER BY id DESC";
inline constexpr char kHighestId[] = "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'";

inline constexpr char kFindEnvironment[] =
    "SELECT id FROM environments WHERE hash = ? AND content = ?";
inline constexpr char kInsertEnvironment[] =
    "INSERT INTO environments (hash, content) VALUES (?, ?)";
inline constexpr char kInsertSpec[] =
    "INSERT INTO specs (job, argv, working_directory, environment, umask, soft_limits, variables) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)";
inline constexpr char kSelectSpec[] =
    "SELECT argv, working_directory, content, umask, soft_limits, variables FROM specs "
    "JOIN environments ON environments.id = specs.environment WHERE job = ?";
inline constexpr char kDropSpec[] = "DELETE FROM specs WHERE job = ?";

inline constexpr char kInsertEvent[] =
    "INSERT INTO events (time, job, kind, text) VALUES (?, ?, ?, ?)";
// Each index ends with the id, so that nothing is sorted.
#define STAGELOAD_EVENTS_WHERE "SELECT time, job, kind, text, id FROM events WHERE "
#define STAGELOAD_EVENTS_PAGE \
  "time >= ?1 AND (time, id) < (?2, ?3) ORDER BY time DESC, id DESC LIMIT ?4"
inline constexpr char kListEvents[] = STAGELOAD_EVENTS_WHERE STAGELOAD_EVENTS_PAGE;
inline constexpr char kListEventsOfJob[] =
    STAGELOAD_EVENTS_WHERE "job = ?5 AND " STAGELOAD_EVENTS_PAGE;
inline constexpr char kListEventsOfKind[] =
    STAGELOAD_EVENTS_WHERE "kind = ?5 AND " STAGELOAD_EVENTS_PAGE;

inline constexpr char kFindRequest[] =
    "SELECT id FROM jobs WHERE request_id = ? AND request_id != ''";
inline constexpr char kDeleteJob[] = "DELETE FROM jobs WHERE id = ? AND state >= 5";
inline constexpr char kOldJobs[] =
    "SELECT id FROM jobs WHERE end_time < ? ORDER BY end_time LIMIT ?";
inline constexpr char kTrimEvents[] =
    "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE time < ? ORDER BY time LIMIT ?)";
inline constexpr char kSetSetting[] =
    "INSERT INTO settings (name, value) VALUES (?, ?) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value";
inline constexpr char kGetSetting[] = "SELECT value FROM settings WHERE name = ?";

inline constexpr char kInsertProfileRun[] =
    "INSERT INTO profile_runs (profile, job, footprint, true_peak) VALUES (?, ?, ?, ?)";
// 20 is core::Profiles::kRuns.
inline constexpr char kTrimProfile[] =
    "DELETE FROM profile_runs WHERE profile = ?1 AND id <= (SELECT id FROM profile_runs "
    "WHERE profile = ?1 ORDER BY id DESC LIMIT 1 OFFSET 20)";
inline constexpr char kForgetProfile[] = "DELETE FROM profile_runs WHERE profile = ?";
inline constexpr char kSelectProfileRuns[] =
    "SELECT profile, job, footprint, true_peak FROM profile_runs ORDER BY id";

}  // namespace stageload::store

#endif  // STAGELOAD_DAEMON_STORE_SCHEMA_H_
