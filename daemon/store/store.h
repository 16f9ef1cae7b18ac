// What must survive the daemon: jobs, their specs, events. One SQLite file in WAL mode with
// synchronous=FULL, so that a Commit() that returned OK is on disk.
//
// Threading: all calls from one thread.
#ifndef STAGELOAD_DAEMON_STORE_STORE_H_
#define STAGELOAD_DAEMON_STORE_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/core/ids.h"
#include "daemon/core/job.h"
#include "daemon/core/profile.h"

namespace stageload::store {

// The setting that says how a damaged store was left behind, until somebody has told it.
inline constexpr char kRecovery[] = "recovery";
// Why a job that has a row cannot start.
inline constexpr char kCommandLost[] =
    "what it was to run was lost with the damaged store; submit it again";

// The highest id that is known elsewhere, from the job folders. Asked at each open: the file itself
// may not know all that it once gave out.
using HighestId = std::function<core::JobId()>;

// Whether other connections may read and write the file meanwhile. One that has it alone keeps
// nothing in a -shm, and notices every change by others; where somebody has it open already, it is
// shared with them.
enum class Sharing { kShared, kAlone };

// The newest schema this program writes. An older file is migrated at Open(), a newer one refused.
inline constexpr int kSchemaVersion = 4;

// A submitted job as it enters the store. A guarded command has no spec.
struct NewJob {
  core::JobRecord record;
  std::optional<core::JobSpec> spec;
};

struct EventRow {
  absl::Time time;
  std::optional<core::JobId> job;
  std::string kind;
  std::string text;
  std::int64_t id = 0;  // given by the store
};

// One run that a profile remembers.
struct ProfileRow {
  std::string profile;
  core::RunPeaks run;
};

// What one engine batch writes, in one transaction: all of it or nothing.
struct Batch {
  std::vector<NewJob> added;
  std::vector<core::JobRecord> changed;
  std::vector<EventRow> events;
  std::vector<ProfileRow> learned = {};
  std::vector<core::JobId> deleted = {};             // of ended jobs; others stay
  std::vector<std::string> forgotten = {};           // profiles
  std::map<std::string, std::string> settings = {};  // new values
  bool empty() const {
    return added.empty() && changed.empty() && events.empty() && learned.empty() &&
           deleted.empty() && forgotten.empty() && settings.empty();
  }
};

struct ListQuery {
  int limit = 100;
  std::optional<core::JobId> before;        // only ids below this
  std::vector<core::JobState> states = {};  // empty is all
  std::string group = {};                   // empty is all
  std::string name_contains = {};           // likewise; in any case of A to Z
  std::optional<absl::Time> submitted_since = std::nullopt;
};

// Where an event stands in the history: by its time, and by its id where a moment has several.
struct EventPlace {
  absl::Time time;
  std::int64_t id = 0;
};

struct EventQuery {
  int limit = 100;
  std::optional<EventPlace> before = std::nullopt;  // only what is older than this
  std::optional<absl::Time> since = std::nullopt;   // at this time or later
  std::optional<absl::Time> until = std::nullopt;   // earlier than this
  std::optional<core::JobId> job = std::nullopt;
  std::vector<std::string> kinds = {};  // empty is all
};

// Whether List() with this query would have the record among its pages.
bool Matches(const ListQuery& query, const core::JobRecord& record);
// The end states among `states`; all of them when it is empty.
std::vector<core::JobState> EndStates(const std::vector<core::JobState>& states);

class Store {
 public:
  // Opens or makes the file (0600). One that is damaged is set aside as PATH.damaged-TIME, and what
  // can be read of it goes on; Setting(kRecovery) then says so. FailedPrecondition, naming both
  // versions and the file, when a newer stageload wrote it, or when it is another user's;
  // Unavailable with SQLite's own words when it cannot be opened.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path,
                                                     const HighestId& known_elsewhere = {},
                                                     Sharing sharing = Sharing::kShared);
  ~Store();

  // Unavailable when it cannot be written (disk full, I/O error); nothing is changed then. Only
  // where the very fsync failed, a crash before the next Commit() that succeeds may bring the batch
  // back; so one is tried again, also with an empty batch, which otherwise writes nothing.
  absl::Status Commit(const Batch& batch);
  // False once somebody has removed or replaced the file, or has cut it or written over it. The
  // next Commit(), also of an empty batch, then writes all that was ever committed to the path
  // again, and sets aside what is there. Of a file that is too large to be kept in memory, what was
  // cut off is lost; the notice counts what is left, and rows that change later come back.
  bool InPlace() const;
  // What such a Commit() has done, once.
  std::optional<std::string> TakeNotice();

  // Jobs that have not ended, ascending by id.
  absl::StatusOr<std::vector<core::JobRecord>> Unended();
  // The last core::Profiles::kRuns of each profile, oldest first.
  absl::StatusOr<std::vector<ProfileRow>> Profiles();
  // Above every id ever stored, also of deleted rows.
  absl::StatusOr<core::JobId> NextId();
  // NotFound for an id that never was.
  absl::StatusOr<core::JobRecord> Get(core::JobId id);
  absl::StatusOr<core::JobSpec> Spec(core::JobId id);
  // The job that a submit with this id of the caller's has made; NotFound when there is none.
  absl::StatusOr<core::JobId> FindRequest(const std::string& request_id);
  // Ids of jobs that ended before then, the oldest first, at most `limit`.
  absl::StatusOr<std::vector<core::JobId>> EndedBefore(absl::Time then, int limit);
  // Newest first. A page that begins with `before` has nothing twice and misses nothing, whatever
  // was added meanwhile.
  absl::StatusOr<std::vector<EventRow>> ListEvents(const EventQuery& query);
  // Forgets events of before then, at most `limit` in one call.
  absl::Status TrimEvents(absl::Time then, int limit);
  // What was kept under a name; empty for what never was.
  absl::StatusOr<std::string> Setting(const std::string& name);
  // Newest first.
  absl::StatusOr<std::vector<core::JobRecord>> List(const ListQuery& query);

 private:
  class Database;
  explicit Store(std::unique_ptr<Database> database);
  absl::Status PutBack();

  std::unique_ptr<Database> database_;
  HighestId known_elsewhere_;
  std::optional<std::string> notice_;
};

}  // namespace stageload::store

#endif  // STAGELOAD_DAEMON_STORE_STORE_H_
