// The store over SQLiteCpp. The library throws: each public call is one Guarded() block that turns
// what it says into a status with the file's name.
#include "daemon/store/store.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error_reason.h"
#include "daemon/store/columns.h"
#include "daemon/store/file_mark.h"
#include "daemon/store/salvage.h"
#include "daemon/store/schema.h"
#include "daemon/store/store_file.h"

namespace stageload::store {
namespace {

// FNV-1a: the same on every platform and in every build, since it is stored.
std::int64_t HashOf(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return static_cast<std::int64_t>(hash);
}

// One use of a prepared statement: whatever happens, it is left reset and holds nothing of ours.
class Use {
 public:
  explicit Use(SQLite::Statement& statement) : statement_(statement) {}
  ~Use() {
    statement_.tryReset();
    statement_.clearBindings();  // cannot fail (sqlite3_clear_bindings)
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  SQLite::Statement* operator->() { return &statement_; }
  SQLite::Statement& operator*() { return statement_; }

 private:
  SQLite::Statement& statement_;
};

}  // namespace

class Store::Database {
 public:
  Database(const std::string& path, OpenFile file)
      : path_(path),
        place_(file.place),
        named_(ReadName(path)),
        alone_(file.alone),
        database_(std::move(file.database)) {
    NoteOwnWrite();
  }

  const std::string& path() const { return path_; }
  // Where what it has is to be written anew.
  const std::string& place() const { return Renamed() ? path_ : place_; }
  SQLite::Database& open() { return *database_; }
  bool Moved() {
    if (Renamed()) return true;
    int moved = 0;
    (void)sqlite3_file_control(database_->getHandle(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return moved != 0;
  }
  // What somebody else has done to the file where it stands, in words.
  std::optional<std::string> Changed() {
    const std::optional<FileMark> now = ReadMark(*database_, place_);
    if (!now) return std::nullopt;
    if (!mark_) mark_ = now;
    return ChangedBy(*mark_, *now, alone_);
  }
  void NoteOwnWrite() { mark_ = ReadMark(*database_, place_); }
  bool alone() const { return alone_; }
  // A row that changes may be one that was lost.
  void NoteLostRows() { rows_lost_ = true; }
  // A commit whose last fsync fails may be whole in the write-ahead log, and would come back after
  // a crash. The next one is written over it.
  bool failed() const { return failed_; }
  void NoteFailure() { failed_ = true; }
  // By leaving the write-ahead log, as a crash would.
  void CheckAtNextOpen() {
    sqlite3_db_config(database_->getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  }

  absl::Status Commit(const Batch& batch);
  std::vector<core::JobRecord> Unended();
  std::vector<core::JobRecord> List(const ListQuery& query);
  std::vector<ProfileRow> Profiles();
  std::optional<core::JobId> FindRequest(const std::string& request_id);
  std::vector<core::JobId> EndedBefore(absl::Time then, int limit);
  std::vector<EventRow> ListEvents(const EventQuery& query);
  void TrimEvents(absl::Time then, int limit);
  std::string Setting(const std::string& name);
  std::int64_t HighestId();
  std::optional<core::JobRecord> Get(core::JobId id);
  std::optional<core::JobSpec> Spec(core::JobId id);

 private:
  // SQLite follows a link, and so does not notice one that leads to the file that it has.
  bool Renamed() const { return ReadName(path_) != named_; }
  absl::Status Add(const NewJob& job);
  absl::Status Change(const core::JobRecord& record);
  void Add(const EventRow& event);
  void Add(const ProfileRow& row);
  void Delete(core::JobId id);
  void Forget(const std::string& profile);
  void Set(const std::string& name, const std::string& value);
  absl::Status AddSpec(core::JobId id, const core::JobSpec& spec);
  std::int64_t EnvironmentId(const std::string& content);
  std::vector<std::int64_t> NewestIds(const ListQuery& query, std::int64_t before);
  std::vector<std::int64_t> FilteredIds(const ListQuery& query, std::int64_t before);

  std::vector<EventRow> EventsOfKinds(const EventQuery& query);

  SQLite::Statement Prepare(const char* sql) { return SQLite::Statement(*database_, sql); }

  const std::string path_;
  const std::string place_;  // where a link of that name leads
  const std::optional<FileName> named_;
  const bool alone_;
  std::optional<FileMark> mark_;
  bool failed_ = false;  // the last commit
  bool rows_lost_ = false;
  std::unique_ptr<SQLite::Database> database_;
  SQLite::Statement insert_job_ = Prepare(kInsertJob);
  SQLite::Statement update_job_ = Prepare(kUpdateJob);
  SQLite::Statement select_job_ = Prepare(kSelectJob);
  SQLite::Statement select_unended_ = Prepare(kSelectUnended);
  SQLite::Statement list_all_ = Prepare(kListAll);
  SQLite::Statement list_ids_of_state_ = Prepare(kListIdsOfState);
  SQLite::Statement list_filtered_ = Prepare(kListFiltered);
  SQLite::Statement highest_id_ = Prepare(kHighestId);
  SQLite::Statement find_environment_ = Prepare(kFindEnvironment);
  SQLite::Statement insert_environment_ = Prepare(kInsertEnvironment);
  SQLite::Statement insert_spec_ = Prepare(kInsertSpec);
  SQLite::Statement select_spec_ = Prepare(kSelectSpec);
  SQLite::Statement drop_spec_ = Prepare(kDropSpec);
  SQLite::Statement insert_event_ = Prepare(kInsertEvent);
  SQLite::Statement list_events_ = Prepare(kListEvents);
  SQLite::Statement list_events_of_job_ = Prepare(kListEventsOfJob);
  SQLite::Statement list_events_of_kind_ = Prepare(kListEventsOfKind);
  SQLite::Statement find_request_ = Prepare(kFindRequest);
  SQLite::Statement delete_job_ = Prepare(kDeleteJob);
  SQLite::Statement old_jobs_ = Prepare(kOldJobs);
  SQLite::Statement trim_events_ = Prepare(kTrimEvents);
  SQLite::Statement set_setting_ = Prepare(kSetSetting);
  SQLite::Statement get_setting_ = Prepare(kGetSetting);
  SQLite::Statement insert_profile_run_ = Prepare(kInsertProfileRun);
  SQLite::Statement trim_profile_ = Prepare(kTrimProfile);
  SQLite::Statement forget_profile_ = Prepare(kForgetProfile);
  SQLite::Statement select_profile_runs_ = Prepare(kSelectProfileRuns);
};

absl::Status Store::Database::Commit(const Batch& batch) {
  SQLite::Transaction transaction(*database_);  // rolls back when it goes before its commit()
  for (const NewJob& job : batch.added) {
    if (absl::Status status = Add(job); !status.ok()) return status;
  }
  for (const core::JobRecord& record : batch.changed) {
    if (absl::Status status = Change(record); !status.ok()) return status;
  }
  for (const EventRow& event : batch.events) Add(event);
  for (const std::string& profile : batch.forgotten) Forget(profile);
  for (const ProfileRow& row : batch.learned) Add(row);
  for (const core::JobId id : batch.deleted) Delete(id);
  for (const auto& [name, value] : batch.settings) Set(name, value);
  if (failed_) Set("written_again", std::to_string(ToNanoseconds(absl::Now())));
  transaction.commit();
  failed_ = false;
  return absl::OkStatus();
}

absl::Status Store::Database::Add(const NewJob& job) {
  {
    Use insert(insert_job_);
    BindJob(*insert, job.record);
    insert->exec();
  }
  if (!job.spec.has_value() || job.record.state == core::JobState::kCompleted) {
    return absl::OkStatus();
  }
  return AddSpec(job.record.id, *job.spec);
}

absl::Status Store::Database::Change(const core::JobRecord& record) {
  const std::int64_t id = core::Value(record.id);
  {
    Use update(update_job_);
    BindJob(*update, record);
    if (update->exec() == 0) {
      if (rows_lost_) return Add(NewJob{record, std::nullopt});
      return WithReason(absl::NotFoundError(absl::StrCat("no job ", id, " to change in ", path_)),
                        kJobNotFound);
    }
  }
  // The others may be asked for again.
  if (record.state == core::JobState::kCompleted) {
    Use drop(drop_spec_);
    drop->bind(1, id);
    drop->exec();
  }
  return absl::OkStatus();
}

absl::Status Store::Database::AddSpec(core::JobId id, const core::JobSpec& spec) {
  const absl::StatusOr<std::string> argv = JoinEntries(spec.argv);
  if (!argv.ok()) return argv.status();
  const absl::StatusOr<std::string> environment = JoinEntries(spec.environment);
  if (!environment.ok()) return environment.status();
  const absl::StatusOr<std::string> variables = JoinEntries(spec.variables);
  if (!variables.ok()) return variables.status();
  const std::string limits = JoinLimits(spec.soft_limits);
  const std::int64_t environment_id = EnvironmentId(*environment);
  Use insert(insert_spec_);
  insert->bind(1, core::Value(id));
  BindBytes(*insert, 2, *argv);
  BindBytes(*insert, 3, spec.working_directory);
  insert->bind(4, environment_id);
  insert->bind(5, static_cast<std::int64_t>(spec.umask));
  BindBytes(*insert, 6, limits);
  BindBytes(*insert, 7, *variables);
  insert->exec();
  return absl::OkStatus();
}

std::int64_t Store::Database::EnvironmentId(const std::string& content) {
  const std::int64_t hash = HashOf(content);
  {
    Use find(find_environment_);
    find->bind(1, hash);
    BindBytes(*find, 2, content);
    if (find->executeStep()) return find->getColumn(0).getInt64();
  }
  Use insert(insert_environment_);
  insert->bind(1, hash);
  BindBytes(*insert, 2, content);
  insert->exec();
  return database_->getLastInsertRowid();
}

void Store::Database::Add(const EventRow& event) {
  Use insert(insert_event_);
  insert->bind(1, ToNanoseconds(event.time));
  if (event.job.has_value()) insert->bind(2, core::Value(*event.job));
  BindText(*insert, 3, event.kind);
  BindText(*insert, 4, event.text);
  insert->exec();
}

void Store::Database::Add(const ProfileRow& row) {
  {
    Use insert(insert_profile_run_);
    BindText(*insert, 1, row.profile);
    insert->bind(2, core::Value(row.run.id));
    if (row.run.footprint) insert->bind(3, row.run.footprint->count());
    if (row.run.true_peak) insert->bind(4, row.run.true_peak->count());
    insert->exec();
  }
  Use trim(trim_profile_);
  BindText(*trim, 1, row.profile);
  trim->exec();
}

void Store::Database::Delete(core::JobId id) {
  Use remove(delete_job_);
  remove->bind(1, core::Value(id));
  remove->exec();
}

void Store::Database::Forget(const std::string& profile) {
  Use forget(forget_profile_);
  BindText(*forget, 1, profile);
  forget->exec();
}

void Store::Database::Set(const std::string& name, const std::string& value) {
  Use set(set_setting_);
  BindText(*set, 1, name);
  BindText(*set, 2, value);
  set->exec();
}

std::optional<core::JobId> Store::Database::FindRequest(const std::string& request_id) {
  Use find(find_request_);
  BindText(*find, 1, request_id);
  if (!find->executeStep()) return std::nullopt;
  return core::JobId{find->getColumn(0).getInt64()};
}

std::vector<core::JobId> Store::Database::EndedBefore(absl::Time then, int limit) {
  std::vector<core::JobId> ids;
  Use select(old_jobs_);
  select->bind(1, ToNanoseconds(then));
  select->bind(2, limit);
  while (select->executeStep()) ids.push_back(core::JobId{select->getColumn(0).getInt64()});
  return ids;
}

namespace {

bool Newer(const EventRow& a, const EventRow& b) {
  return a.time != b.time ? a.time > b.time : a.id > b.id;
}

void BindPage(SQLite::Statement& select, const EventQuery& query, int limit) {
  EventPlace end{query.until.value_or(absl::InfiniteFuture()),
                 std::numeric_limits<std::int64_t>::min()};
  if (query.before && query.before->time < end.time) end = *query.before;
  select.bind(1, ToNanoseconds(query.since.value_or(absl::InfinitePast())));
  select.bind(2, ToNanoseconds(end.time));
  select.bind(3, end.id);
  select.bind(4, limit);
}

EventRow ReadEvent(SQLite::Statement& select) {
  EventRow row;
  row.time = absl::FromUnixNanos(select.getColumn(0).getInt64());
  if (!select.isColumnNull(1)) row.job = core::JobId{select.getColumn(1).getInt64()};
  row.kind = select.getColumn(2).getString();
  row.text = select.getColumn(3).getString();
  row.id = select.getColumn(4).getInt64();
  return row;
}

}  // namespace

std::vector<EventRow> Store::Database::ListEvents(const EventQuery& query) {
  std::vector<EventRow> rows;
  if (query.limit <= 0) return rows;  // a negative LIMIT would be none at all
  if (!query.job && !query.kinds.empty()) return EventsOfKinds(query);
  Use select(query.job ? list_events_of_job_ : list_events_);
  // Of one job, all are walked: it has few.
  BindPage(*select, query, query.kinds.empty() ? query.limit : -1);
  if (query.job) select->bind(5, core::Value(*query.job));
  while (static_cast<int>(rows.size()) < query.limit && select->executeStep()) {
    EventRow row = ReadEvent(*select);
    const auto& kinds = query.kinds;
    if (kinds.empty() || std::find(kinds.begin(), kinds.end(), row.kind) != kinds.end()) {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// The newest of each kind, merged, as NewestIds() does it.
std::vector<EventRow> Store::Database::EventsOfKinds(const EventQuery& query) {
  std::vector<EventRow> rows;
  for (const std::string& kind : std::set<std::string>(query.kinds.begin(), query.kinds.end())) {
    Use select(list_events_of_kind_);
    BindPage(*select, query, query.limit);
    BindText(*select, 5, kind);
    while (select->executeStep()) rows.push_back(ReadEvent(*select));
  }
  std::sort(rows.begin(), rows.end(), Newer);
  if (rows.size() > static_cast<std::size_t>(query.limit)) {
    rows.resize(static_cast<std::size_t>(query.limit));
  }
  return rows;
}

void Store::Database::TrimEvents(absl::Time then, int limit) {
  Use trim(trim_events_);
  trim->bind(1, ToNanoseconds(then));
  trim->bind(2, limit);
  trim->exec();
}

std::string Store::Database::Setting(const std::string& name) {
  Use select(get_setting_);
  BindText(*select, 1, name);
  return select->executeStep() ? select->getColumn(0).getString() : std::string();
}

std::vector<ProfileRow> Store::Database::Profiles() {
  std::vector<ProfileRow> rows;
  Use select(select_profile_runs_);
  while (select->executeStep()) {
    ProfileRow row;
    row.profile = select->getColumn(0).getString();
    row.run.id = core::JobId{select->getColumn(1).getInt64()};
    if (!select->isColumnNull(2)) row.run.footprint = Bytes(select->getColumn(2).getInt64());
    if (!select->isColumnNull(3)) row.run.true_peak = Bytes(select->getColumn(3).getInt64());
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<core::JobRecord> Store::Database::Unended() {
  std::vector<core::JobRecord> records;
  Use select(select_unended_);
  while (select->executeStep()) records.push_back(ReadJob(*select));
  return records;
}

std::int64_t Store::Database::HighestId() {
  Use select(highest_id_);
  return select->executeStep() ? select->getColumn(0).getInt64() : 0;
}

std::optional<core::JobRecord> Store::Database::Get(core::JobId id) {
  Use select(select_job_);
  select->bind(1, core::Value(id));
  if (!select->executeStep()) return std::nullopt;
  return ReadJob(*select);
}

std::optional<core::JobSpec> Store::Database::Spec(core::JobId id) {
  Use select(select_spec_);
  select->bind(1, core::Value(id));
  if (!select->executeStep()) return std::nullopt;
  core::JobSpec spec;
  spec.argv = SplitEntries(select->getColumn(0).getString());
  spec.working_directory = select->getColumn(1).getString();
  spec.environment = SplitEntries(select->getColumn(2).getString());
  spec.umask = static_cast<std::uint32_t>(select->getColumn(3).getInt64());
  spec.soft_limits = SplitLimits(select->getColumn(4).getString());
  spec.variables = SplitEntries(select->getColumn(5).getString());
  return spec;
}

// The newest of each state, merged: every part is read from the index and none is longer than the
// page, however many jobs there are.
std::vector<std::int64_t> Store::Database::NewestIds(const ListQuery& query, std::int64_t before) {
  std::vector<std::int64_t> ids;
  for (const core::JobState state : query.states) {
    Use select(list_ids_of_state_);
    select->bind(1, static_cast<std::int64_t>(state));
    select->bind(2, before);
    select->bind(3, query.limit);
    while (select->executeStep()) ids.push_back(select->getColumn(0).getInt64());
  }
  std::sort(ids.begin(), ids.end(), std::greater<>());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (ids.size() > static_cast<std::size_t>(query.limit)) {
    ids.resize(static_cast<std::size_t>(query.limit));
  }
  return ids;
}

std::vector<core::JobRecord> Store::Database::List(const ListQuery& query) {
  const std::int64_t before = query.before.has_value() ? core::Value(*query.before)
                                                       : std::numeric_limits<std::int64_t>::max();
  std::vector<core::JobRecord> records;
  if (query.limit <= 0) return records;  // a negative LIMIT would be none at all
  const bool filtered =
      !query.group.empty() || !query.name_contains.empty() || query.submitted_since.has_value();
  if (filtered || !query.states.empty()) {
    for (const std::int64_t id : filtered ? FilteredIds(query, before) : NewestIds(query, before)) {
      if (std::optional<core::JobRecord> record = Get(core::JobId{id})) {
        records.push_back(*std::move(record));
      }
    }
    return records;
  }
  Use select(list_all_);
  select->bind(1, before);
  select->bind(2, query.limit);
  while (select->executeStep()) records.push_back(ReadJob(*select));
  return records;
}

std::vector<std::int64_t> Store::Database::FilteredIds(const ListQuery& query,
                                                       std::int64_t before) {
  std::vector<std::int64_t> ids;
  Use select(list_filtered_);
  select->bind(1, before);
  BindText(*select, 2, query.group);
  BindText(*select, 3, query.name_contains);
  select->bind(4, ToNanoseconds(query.submitted_since.value_or(absl::InfinitePast())));
  while (static_cast<int>(ids.size()) < query.limit && select->executeStep()) {
    const auto state = static_cast<core::JobState>(select->getColumn(1).getInt());
    const auto& wanted = query.states;
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), state) != wanted.end()) {
      ids.push_back(select->getColumn(0).getInt64());
    }
  }
  return ids;
}

namespace {

// Runs `body`, which returns an absl::Status or StatusOr; what SQLite throws becomes Unavailable.
template <typename Database, typename Body>
auto Guarded(Database& database, const std::string& what, Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& exception) {
    if (IsDamage(exception)) database.CheckAtNextOpen();
    return StoreFailed(database.path(), what, exception);
  } catch (const std::exception& exception) {
    return StoreFailed(database.path(), what, exception.what());
  }
}

// The same of a read that only SQLite can make fail.
template <typename Database, typename Body>
auto Reading(Database& database, Body body) -> absl::StatusOr<decltype(body())> {
  return Guarded(database, "read", [&]() -> absl::StatusOr<decltype(body())> { return body(); });
}

}  // namespace

Store::Store(std::unique_ptr<Database> database) : database_(std::move(database)) {}
Store::~Store() = default;

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& path,
                                                   const HighestId& known_elsewhere,
                                                   Sharing sharing) {
  absl::StatusOr<OpenFile> file = OpenStoreFile(path, known_elsewhere, sharing);
  if (!file.ok()) return file.status();
  try {
    std::unique_ptr<Store> store(new Store(std::make_unique<Database>(path, *std::move(file))));
    store->known_elsewhere_ = known_elsewhere;
    return store;
  } catch (const SQLite::Exception& exception) {
    return StoreFailed(path, "open the store", exception);
  }
}

absl::Status Store::Commit(const Batch& batch) {
  if (!InPlace()) {
    if (absl::Status status = PutBack(); !status.ok()) return status;
  }
  if (batch.empty() && !database_->failed()) return absl::OkStatus();
  absl::Status status = Guarded(*database_, "write to", [&] { return database_->Commit(batch); });
  if (absl::IsUnavailable(status)) database_->NoteFailure();
  database_->NoteOwnWrite();
  return status;
}

bool Store::InPlace() const { return !database_->Moved() && !database_->Changed(); }

std::optional<std::string> Store::TakeNotice() { return std::exchange(notice_, std::nullopt); }

absl::Status Store::PutBack() {
  const std::string place = database_->place();
  const std::optional<std::string> changed =
      database_->Moved() ? std::nullopt : database_->Changed();
  const core::JobId highest = changed && known_elsewhere_ ? known_elsewhere_() : core::JobId{0};
  absl::StatusOr<WrittenAnew> written = Guarded(*database_, "write anew", [&] {
    return WriteAnew(database_->open(), place, changed, highest);
  });
  if (!written.ok()) return written.status();
  const std::string path = database_->path();
  absl::StatusOr<std::unique_ptr<Store>> anew =
      Open(path, known_elsewhere_, database_->alone() ? Sharing::kAlone : Sharing::kShared);
  if (!anew.ok()) return anew.status();
  const absl::StatusOr<std::string> set_aside = (*anew)->Setting(kSetAside);
  if (!set_aside.ok()) return set_aside.status();
  if (*set_aside != written->set_aside) {  // the old one, which has it all, is tried again
    return StoreFailed(path, "write anew", "it was replaced again in that moment");
  }
  if (database_->failed()) (*anew)->database_->NoteFailure();
  database_->CheckAtNextOpen();  // closing it is to move nothing, least of all into the new file
  database_ = std::move((*anew)->database_);
  if (written->rows_lost) database_->NoteLostRows();
  notice_ = std::move(written->told);
  return absl::OkStatus();
}

absl::StatusOr<core::JobId> Store::FindRequest(const std::string& request_id) {
  return Guarded(*database_, "read", [&]() -> absl::StatusOr<core::JobId> {
    if (const auto id = database_->FindRequest(request_id)) return *id;
    return absl::NotFoundError(absl::StrCat("no submit with request id ", request_id));
  });
}

absl::StatusOr<std::vector<core::JobId>> Store::EndedBefore(absl::Time then, int limit) {
  return Reading(*database_, [&] { return database_->EndedBefore(then, limit); });
}

absl::StatusOr<std::vector<EventRow>> Store::ListEvents(const EventQuery& query) {
  return Reading(*database_, [&] { return database_->ListEvents(query); });
}

absl::Status Store::TrimEvents(absl::Time then, int limit) {
  return Guarded(*database_, "write", [&] {
    if (!InPlace()) return absl::OkStatus();  // the next Commit() mends it, and this comes again
    database_->TrimEvents(then, limit);
    database_->NoteOwnWrite();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::string> Store::Setting(const std::string& name) {
  return Reading(*database_, [&] { return database_->Setting(name); });
}

absl::StatusOr<std::vector<ProfileRow>> Store::Profiles() {
  return Reading(*database_, [&] { return database_->Profiles(); });
}

absl::StatusOr<std::vector<core::JobRecord>> Store::Unended() {
  return Reading(*database_, [&] { return database_->Unended(); });
}

absl::StatusOr<core::JobId> Store::NextId() {
  return Guarded(*database_, "read", [&]() -> absl::StatusOr<core::JobId> {
    return core::JobId{database_->HighestId() + 1};
  });
}

absl::StatusOr<core::JobRecord> Store::Get(core::JobId id) {
  return Guarded(*database_, "read", [&]() -> absl::StatusOr<core::JobRecord> {
    if (std::optional<core::JobRecord> record = database_->Get(id)) return *std::move(record);
    return WithReason(absl::NotFoundError(absl::StrCat("no job ", core::Value(id))), kJobNotFound);
  });
}

absl::StatusOr<core::JobSpec> Store::Spec(core::JobId id) {
  return Guarded(*database_, "read", [&]() -> absl::StatusOr<core::JobSpec> {
    if (std::optional<core::JobSpec> spec = database_->Spec(id)) return *std::move(spec);
    if (!database_->Get(id).has_value()) {
      return WithReason(absl::NotFoundError(absl::StrCat("no job ", core::Value(id))),
                        kJobNotFound);
    }
    return absl::NotFoundError(absl::StrCat("the command of job ", core::Value(id),
                                            " is not kept: it has ended or was a guarded one"));
  });
}

absl::StatusOr<std::vector<core::JobRecord>> Store::List(const ListQuery& query) {
  return Reading(*database_, [&] { return database_->List(query); });
}

}  // namespace stageload::store
