// What the store promises: all fields come back, a batch is all or nothing, nothing is lost over a
// reopen, and a file that cannot be used is refused with words and left alone.
#include "daemon/store/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "daemon/store/schema.h"
#include "tests/fixture.h"

namespace stageload::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr core::JobId Id(std::int64_t id) { return core::JobId{id}; }

class StoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<Store> Open() {
    absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(path_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  // A single figure, read through a connection of the test's own.
  std::int64_t Ask(const std::string& sql) {
    SQLite::Database database(path_, SQLite::OPEN_READONLY);
    return database.execAndGet(sql).getInt64();
  }

  const TemporaryFolder temporary_;
  const std::string& folder_ = temporary_.path();
  std::string path_ = folder_ + "/store.db";
};

core::JobRecord Pending(std::int64_t id) {
  core::JobRecord record;
  record.id = Id(id);
  record.name = "job";
  record.submit_time = absl::FromUnixNanos(id);
  return record;
}

core::JobSpec SpecWith(std::vector<std::string> environment) {
  core::JobSpec spec;
  spec.argv = {"true"};
  spec.working_directory = "/";
  spec.environment = std::move(environment);
  return spec;
}

core::JobRecord Full() {
  core::JobRecord record;
  record.id = Id(7);
  record.kind = core::JobKind::kGuard;
  record.name = "train \xff\xfe";
  record.command = std::string("python 'a b'\0c", 14);
  record.working_directory = "/tmp/odd \xc3\x28";
  record.policy.wait_free = Percent{12.5};
  record.policy.swap_budget = GiB(3);
  record.policy.swap_limit = GiB(5);
  record.policy.kill_free = Percent{7.25};
  record.policy.memory = Bytes(0);
  record.policy.priority = -3;
  record.policy.start_timeout = absl::Milliseconds(1500);
  record.policy.grace = absl::InfiniteDuration();
  record.state = core::JobState::kOutOfMemory;
  record.reason = core::Reason::kSwapBudget;
  record.reason_text = "charge 3.2 GiB > 3 GiB";
  record.outcome.exit_code = 126;
  record.outcome.signal = 9;
  record.outcome.start_errno = 13;
  record.submit_time = absl::FromUnixNanos(1'700'000'000'123'456'789);
  record.start_time = absl::FromUnixNanos(1'700'000'001'000'000'001);
  record.end_time = absl::InfiniteFuture();
  record.root = core::ProcessIdentity{4711, std::numeric_limits<std::uint64_t>::max()};
  record.boot_id = "boot";
  record.charge = Bytes(-12345);
  record.peak_footprint = GiB(20);
  record.policy.memory_auto = true;
  record.policy.time_limit = absl::Hours(2);
  record.policy.charge_mode = core::ChargeMode::kOwn;
  record.policy.on_over_budget = core::OverBudget::kWarn;
  record.policy.busy = {"ollama (run|serve)", "", "comfy"};
  record.policy.quiet_for = absl::Seconds(7);
  record.group = "gpu";
  record.profile = "qwen";
  record.request_id = "0f1e";
  record.requeue = true;
  record.retry_of = Id(2);
  record.may_signal = false;
  record.after = {Id(3), Id(5)};
  record.begin_time = absl::FromUnixNanos(1'700'000'002'000'000'003);
  record.held = true;
  record.started_awake = absl::Seconds(11);
  record.suspended_awake = absl::Seconds(12);
  record.suspended_for = absl::Seconds(13);
  record.stop_awake = absl::Seconds(14);
  record.swap_at_charge = GiB(15);
  record.charge_awake = absl::Seconds(16);
  record.charge_continuous = absl::Seconds(17);
  record.forgiven = GiB(1);
  record.bypassed = 4;
  record.true_peak = GiB(21);
  record.available_at_start = GiB(22);
  record.swap_at_start = GiB(2);
  record.alone = false;
  return record;
}

void ExpectSame(const core::JobRecord& a, const core::JobRecord& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.command, b.command);
  EXPECT_EQ(a.working_directory, b.working_directory);
  EXPECT_EQ(a.policy.wait_free, b.policy.wait_free);
  EXPECT_EQ(a.policy.swap_budget, b.policy.swap_budget);
  EXPECT_EQ(a.policy.swap_limit, b.policy.swap_limit);
  EXPECT_EQ(a.policy.kill_free, b.policy.kill_free);
  EXPECT_EQ(a.policy.memory, b.policy.memory);
  EXPECT_EQ(a.policy.priority, b.policy.priority);
  EXPECT_EQ(a.policy.start_timeout, b.policy.start_timeout);
  EXPECT_EQ(a.policy.grace, b.policy.grace);
  EXPECT_EQ(a.state, b.state);
  EXPECT_EQ(a.reason, b.reason);
  EXPECT_EQ(a.reason_text, b.reason_text);
  EXPECT_EQ(a.outcome.exit_code, b.outcome.exit_code);
  EXPECT_EQ(a.outcome.signal, b.outcome.signal);
  EXPECT_EQ(a.outcome.start_errno, b.outcome.start_errno);
  EXPECT_EQ(a.submit_time, b.submit_time);
  EXPECT_EQ(a.start_time, b.start_time);
  EXPECT_EQ(a.end_time, b.end_time);
  EXPECT_EQ(a.root, b.root);
  EXPECT_EQ(a.boot_id, b.boot_id);
  EXPECT_EQ(a.charge, b.charge);
  EXPECT_EQ(a.peak_footprint, b.peak_footprint);
  EXPECT_TRUE(a == b) << "a field that is not named above";
}

std::string Contents(const std::string& path) {
  std::ostringstream contents;
  contents << std::ifstream(path, std::ios::binary).rdbuf();
  return contents.str();
}

void Overwrite(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
}

std::vector<std::int64_t> IdsOf(const std::vector<core::JobRecord>& records) {
  std::vector<std::int64_t> ids;
  for (const core::JobRecord& record : records) ids.push_back(core::Value(record.id));
  return ids;
}

TEST_F(StoreTest, AFileThatIsRemovedOrReplacedMeanwhileIsWrittenAgainWhole) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->Commit({{{Pending(1), SpecWith({"A=1"})}}, {}, {}}).ok());
    EXPECT_TRUE(store->InPlace());
    std::filesystem::remove(path_);  // and its write-ahead log stays, which is not the new one's
    EXPECT_FALSE(store->InPlace());
    ASSERT_TRUE(store->Commit({}).ok());
    EXPECT_TRUE(store->InPlace());
    EXPECT_THAT(store->TakeNotice().value_or(""), HasSubstr("was removed"));
    EXPECT_FALSE(store->TakeNotice());
    ASSERT_TRUE(store->Commit({{{Pending(2), SpecWith({"A=1"})}}, {}, {}}).ok());

    std::ofstream(path_ + ".other") << "somebody's";
    std::filesystem::rename(path_ + ".other", path_);
    ASSERT_TRUE(store->Commit({{{Pending(3), SpecWith({"B=1"})}}, {}, {}}).ok());
    EXPECT_THAT(store->TakeNotice().value_or(""), HasSubstr("was replaced"));
    EXPECT_EQ(Ask("SELECT count(*) FROM jobs"), 3);
  }
  const auto store = Open();
  for (const int id : {1, 2, 3}) EXPECT_EQ(store->Get(Id(id)).status(), absl::OkStatus()) << id;
  EXPECT_EQ(store->Spec(Id(1))->environment, std::vector<std::string>{"A=1"});
  EXPECT_EQ(*store->NextId(), Id(4));
  int kept = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    if (name.find(".replaced-") != std::string::npos && !name.ends_with("-wal") &&
        !name.ends_with("-shm")) {
      ++kept;
      EXPECT_EQ(std::filesystem::file_size(entry.path()), 10u);
    }
    EXPECT_EQ(name.find(".salvage"), std::string::npos);
  }
  EXPECT_EQ(kept, 1);
}

TEST_F(StoreTest, AFolderThatIsGoneIsAnErrorAndTheStoreGoesOnWhenItIsBack) {
  const std::string state = folder_ + "/state";
  path_ = state + "/store.db";
  std::filesystem::create_directory(state);
  const auto store = Open();
  ASSERT_TRUE(store->Commit({{{Pending(1), SpecWith({})}}, {}, {}}).ok());
  std::filesystem::remove_all(state);
  const absl::Status status = store->Commit({{{Pending(2), SpecWith({})}}, {}, {}});
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  EXPECT_TRUE(store->Get(Id(1)).ok());
  std::filesystem::create_directory(state);
  ASSERT_TRUE(store->Commit({{{Pending(2), SpecWith({})}}, {}, {}}).ok());
  EXPECT_EQ(Ask("SELECT count(*) FROM jobs"), 2);
}

TEST_F(StoreTest, EveryFieldOfAJobComesBackAfterAReopen) {
  ASSERT_TRUE(
      Open()->Commit({.added = {{Full(), std::nullopt}}, .changed = {}, .events = {}}).ok());
  const absl::StatusOr<core::JobRecord> read = Open()->Get(Id(7));
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, Full());
}

TEST_F(StoreTest, AbsentFieldsComeBackAbsent) {
  const auto store = Open();
  ASSERT_TRUE(
      store->Commit({.added = {{Pending(1), std::nullopt}}, .changed = {}, .events = {}}).ok());
  const absl::StatusOr<core::JobRecord> read = store->Get(Id(1));
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, Pending(1));
  EXPECT_FALSE(read->policy.memory.has_value());
  EXPECT_FALSE(read->root.has_value());
}

TEST_F(StoreTest, AChangeReplacesEveryField) {
  const auto store = Open();
  ASSERT_TRUE(
      store->Commit({.added = {{Pending(7), std::nullopt}}, .changed = {}, .events = {}}).ok());
  ASSERT_TRUE(store->Commit({.added = {}, .changed = {Full()}, .events = {}}).ok());
  ExpectSame(*store->Get(Id(7)), Full());
  ASSERT_TRUE(store->Commit({.added = {}, .changed = {Pending(7)}, .events = {}}).ok());
  ExpectSame(*store->Get(Id(7)), Pending(7));
}

TEST_F(StoreTest, ASpecOfAnyBytesComesBack) {
  core::JobSpec spec;
  spec.argv = {"printf", "", "\xff\x01\n", "'; DROP TABLE jobs"};
  spec.working_directory = "/tmp/\xc3\x28 odd\n";
  spec.environment = {"A=1", "EMPTY=", "LATIN=\xe9"};
  spec.umask = 0777;
  spec.soft_limits = {{7, 1024}, {3, std::numeric_limits<std::uint64_t>::max()}};
  ASSERT_TRUE(Open()->Commit({.added = {{Pending(1), spec}}, .changed = {}, .events = {}}).ok());
  const absl::StatusOr<core::JobSpec> read = Open()->Spec(Id(1));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->argv, spec.argv);
  EXPECT_EQ(read->working_directory, spec.working_directory);
  EXPECT_EQ(read->environment, spec.environment);
  EXPECT_EQ(read->umask, spec.umask);
  EXPECT_EQ(read->soft_limits, spec.soft_limits);
}

TEST_F(StoreTest, EmptyListsOfASpecComeBackEmpty) {
  const auto store = Open();
  ASSERT_TRUE(
      store->Commit({.added = {{Pending(1), core::JobSpec{}}}, .changed = {}, .events = {}}).ok());
  const absl::StatusOr<core::JobSpec> read = store->Spec(Id(1));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->argv, IsEmpty());
  EXPECT_THAT(read->environment, IsEmpty());
  EXPECT_THAT(read->soft_limits, IsEmpty());
}

TEST_F(StoreTest, AnArgumentWithANulIsRefusedAndNothingIsWritten) {
  core::JobSpec spec = SpecWith({});
  spec.argv.emplace_back("a\0b", 3);
  const auto store = Open();
  const absl::Status status =
      store->Commit({.added = {{Pending(1), spec}}, .changed = {}, .events = {}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(store->Get(Id(1)).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(StoreTest, ABatchIsAllOrNothing) {
  const auto store = Open();
  ASSERT_TRUE(
      store->Commit({.added = {{Pending(1), std::nullopt}}, .changed = {}, .events = {}}).ok());

  core::JobRecord ended = Pending(1);
  ended.state = core::JobState::kCompleted;
  const absl::Status status = store->Commit(
      {.added = {{Pending(2), SpecWith({"A=1"})}, {Pending(3), std::nullopt}, {Pending(2), {}}},
       .changed = {ended},
       .events = {{absl::Now(), Id(2), "admitted", "text"}}});

  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(ReasonOf(status), kStoreFailed);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  EXPECT_THAT(std::string(status.message()), HasSubstr("UNIQUE constraint failed: jobs.id"));
  EXPECT_THAT(IdsOf(*store->List({})), ElementsAre(1));
  EXPECT_EQ(store->Get(Id(1))->state, core::JobState::kPending);
  EXPECT_EQ(*store->NextId(), Id(2));
  EXPECT_EQ(Ask("SELECT count(*) FROM environments"), 0);
  EXPECT_EQ(Ask("SELECT count(*) FROM events"), 0);

  // And the connection is as good as before.
  EXPECT_TRUE(store->Commit({.added = {{Pending(2), {}}}, .changed = {}, .events = {}}).ok());
}

TEST_F(StoreTest, AChangeOfAnUnknownJobFailsAndUndoesTheBatch) {
  const auto store = Open();
  const absl::Status status =
      store->Commit({.added = {{Pending(1), {}}}, .changed = {Pending(9)}, .events = {}});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_THAT(*store->List({}), IsEmpty());
}

TEST_F(StoreTest, WhatAnotherConnectionLocksIsUnavailableAndWorksLater) {
  const auto store = Open();
  {
    SQLite::Database other(path_, SQLite::OPEN_READWRITE);
    other.exec("BEGIN IMMEDIATE");
    const absl::Status status =
        store->Commit({.added = {{Pending(1), {}}}, .changed = {}, .events = {}});
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("database is locked"));
  }
  EXPECT_TRUE(store->Commit({.added = {{Pending(1), {}}}, .changed = {}, .events = {}}).ok());
}

TEST_F(StoreTest, ADiskThatIsFullIsUnavailableAndNothingIsChanged) {
  const auto store = Open();
  ASSERT_TRUE(store->Commit({.added = {{Pending(1), {}}}, .changed = {}, .events = {}}).ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = std::filesystem::file_size(path_ + "-wal") + 100;  // for half a page
  signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status =
      store->Commit({.added = {{Pending(2), {}}}, .changed = {}, .events = {}});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);

  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(ReasonOf(status), kStoreFailed);
  EXPECT_THAT(IdsOf(*store->List({})), ElementsAre(1));
  EXPECT_TRUE(store->Commit({.added = {{Pending(2), {}}}, .changed = {}, .events = {}}).ok());
  EXPECT_THAT(IdsOf(*store->List({})), ElementsAre(2, 1));
}

TEST_F(StoreTest, EventsAreStored) {
  const auto store = Open();
  ASSERT_TRUE(store
                  ->Commit({.added = {},
                            .changed = {},
                            .events = {{absl::FromUnixNanos(5), Id(3), "stopped", "why"},
                                       {absl::FromUnixNanos(6), std::nullopt, "gap", "sleep"}}})
                  .ok());
  EXPECT_EQ(Ask("SELECT count(*) FROM events WHERE time = 5 AND job = 3 AND kind = 'stopped' AND "
                "text = 'why'"),
            1);
  EXPECT_EQ(Ask("SELECT count(*) FROM events WHERE time = 6 AND job IS NULL"), 1);
}

EventRow At(int second, std::optional<core::JobId> job, const std::string& kind) {
  return {absl::FromUnixSeconds(second), job, kind, absl::StrCat(kind, " at ", second)};
}

std::vector<std::string> TextsOf(const absl::StatusOr<std::vector<EventRow>>& rows) {
  EXPECT_TRUE(rows.ok()) << rows.status();
  std::vector<std::string> texts;
  for (const EventRow& row : *rows) texts.push_back(row.text);
  return texts;
}

TEST_F(StoreTest, EventsComeBackWholeAndNewestFirst) {
  const auto store = Open();
  // The clock was set back before the last was written.
  const Batch batch{.added = {},
                    .changed = {},
                    .events = {At(10, Id(3), "admitted"), At(12, std::nullopt, "gap"),
                               At(12, Id(3), "ended"), At(11, Id(4), "admitted")}};
  ASSERT_TRUE(store->Commit(batch).ok());
  const auto rows = store->ListEvents({});
  EXPECT_THAT(TextsOf(rows),
              ElementsAre("ended at 12", "gap at 12", "admitted at 11", "admitted at 10"));
  const EventRow& ended = rows->front();
  EXPECT_EQ(ended.time, absl::FromUnixSeconds(12));
  EXPECT_EQ(ended.job, Id(3));
  EXPECT_EQ(ended.kind, "ended");
  EXPECT_EQ((*rows)[1].job, std::nullopt);
  EXPECT_THAT(*store->ListEvents({.limit = 0}), IsEmpty());
  EXPECT_THAT(*store->ListEvents({.limit = -1}), IsEmpty());
}

TEST_F(StoreTest, EventsAreFilteredByTimeJobAndKindTogether) {
  const auto store = Open();
  Batch batch;
  for (int second = 1; second <= 6; ++second) {
    batch.events.push_back(At(second, Id(second % 2), second < 4 ? "warned" : "ended"));
  }
  batch.events.push_back(At(3, std::nullopt, "gap"));
  ASSERT_TRUE(store->Commit(batch).ok());
  const auto list = [&](EventQuery query) { return TextsOf(store->ListEvents(query)); };
  EXPECT_THAT(list({.since = absl::FromUnixSeconds(5)}), ElementsAre("ended at 6", "ended at 5"));
  EXPECT_THAT(list({.until = absl::FromUnixSeconds(2)}), ElementsAre("warned at 1"));
  EXPECT_THAT(list({.since = absl::FromUnixSeconds(2), .until = absl::FromUnixSeconds(3)}),
              ElementsAre("warned at 2"));
  EXPECT_THAT(list({.job = Id(1)}), ElementsAre("ended at 5", "warned at 3", "warned at 1"));
  EXPECT_THAT(list({.kinds = {"gap", "warned", "gap"}}),
              ElementsAre("gap at 3", "warned at 3", "warned at 2", "warned at 1"));
  EXPECT_THAT(list({.limit = 1, .job = Id(1), .kinds = {"warned"}}), ElementsAre("warned at 3"));
  EXPECT_THAT(list({.since = absl::FromUnixSeconds(4), .job = Id(1), .kinds = {"warned"}}),
              IsEmpty());
  EXPECT_THAT(list({.limit = 2, .kinds = {"warned", "ended"}}),
              ElementsAre("ended at 6", "ended at 5"));
}

TEST_F(StoreTest, PagesOfEventsHaveNoneTwiceAndMissNoneWhileNewOnesCome) {
  const auto store = Open();
  const auto write = [&](int second, const std::string& kind) {
    ASSERT_TRUE(store->Commit({.added = {}, .changed = {}, .events = {At(second, {}, kind)}}).ok());
  };
  // Three moments with four events each.
  for (int i = 0; i < 12; ++i) write(i / 4, i % 2 == 0 ? "even" : "odd");
  for (const std::vector<std::string>& kinds : {std::vector<std::string>{}, {"even", "odd"}}) {
    std::vector<std::int64_t> ids;
    EventQuery query{.limit = 5, .until = absl::FromUnixSeconds(3), .kinds = kinds};
    while (true) {
      const auto rows = store->ListEvents(query);
      ASSERT_TRUE(rows.ok()) << rows.status();
      if (rows->empty()) break;
      for (const EventRow& row : *rows) ids.push_back(row.id);
      query.before = {rows->back().time, rows->back().id};
      write(3, "even");
    }
    EXPECT_THAT(ids, ElementsAre(12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1));
  }
}

TEST_F(StoreTest, AnIdIsNeverGivenTwiceNotEvenAfterItsRowIsDeleted) {
  {
    const auto store = Open();
    EXPECT_EQ(*store->NextId(), Id(1));
    ASSERT_TRUE(store->Commit({.added = {{Pending(41), {}}}, .changed = {}, .events = {}}).ok());
    EXPECT_EQ(*store->NextId(), Id(42));
  }
  SQLite::Database(path_, SQLite::OPEN_READWRITE).exec("DELETE FROM jobs");
  EXPECT_EQ(*Open()->NextId(), Id(42));
}

TEST_F(StoreTest, AThousandJobsFromOneShellStoreItsEnvironmentOnce) {
  const auto store = Open();
  Batch batch;
  const core::JobSpec spec = SpecWith({"PATH=/bin", "HOME=/root"});
  for (int id = 1; id <= 1000; ++id) batch.added.push_back({Pending(id), spec});
  batch.added.push_back({Pending(1001), SpecWith({"PATH=/bin"})});
  ASSERT_TRUE(store->Commit(batch).ok());
  EXPECT_EQ(Ask("SELECT count(*) FROM environments"), 2);
  EXPECT_EQ(store->Spec(Id(1000))->environment, spec.environment);
  EXPECT_THAT(store->Spec(Id(1001))->environment, ElementsAre("PATH=/bin"));
}

TEST_F(StoreTest, TheSpecStaysForARetryUnlessTheJobCompleted) {
  const auto store = Open();
  const core::JobSpec spec = SpecWith({"SECRET=x"});
  ASSERT_TRUE(store->Commit({.added = {{Pending(1), spec}}, .changed = {}, .events = {}}).ok());
  core::JobRecord failed = Pending(1);
  failed.state = core::JobState::kOutOfMemory;
  ASSERT_TRUE(store->Commit({.added = {}, .changed = {failed}, .events = {}}).ok());
  EXPECT_THAT(store->Spec(Id(1))->environment, ElementsAre("SECRET=x"));
  Batch batch;
  batch.deleted = {Id(1)};
  ASSERT_TRUE(store->Commit(batch).ok());
  EXPECT_EQ(Ask("SELECT count(*) FROM environments"), 0);
}

TEST_F(StoreTest, OnlyEndedJobsAreDeleted) {
  const auto store = Open();
  core::JobRecord ended = Pending(2);
  ended.state = core::JobState::kCompleted;
  Batch batch;
  batch.added = {{Pending(1), std::nullopt}, {ended, std::nullopt}};
  ASSERT_TRUE(store->Commit(batch).ok());
  batch = {};
  batch.deleted = {Id(1), Id(2), Id(77)};
  ASSERT_TRUE(store->Commit(batch).ok());
  EXPECT_TRUE(store->Get(Id(1)).ok());
  EXPECT_TRUE(absl::IsNotFound(store->Get(Id(2)).status()));
}

TEST_F(StoreTest, ARequestIsFoundByTheCallersIdAndNoneHasAnEmptyOne) {
  const auto store = Open();
  core::JobRecord first = Pending(1);
  first.request_id = "abc";
  Batch batch;
  batch.added = {{first, std::nullopt}, {Pending(2), std::nullopt}, {Pending(3), std::nullopt}};
  ASSERT_TRUE(store->Commit(batch).ok());
  EXPECT_EQ(*store->FindRequest("abc"), Id(1));
  EXPECT_TRUE(absl::IsNotFound(store->FindRequest("").status()));
  core::JobRecord twice = Pending(4);
  twice.request_id = "abc";
  batch = {};
  batch.added = {{twice, std::nullopt}};
  EXPECT_FALSE(store->Commit(batch).ok());
}

TEST_F(StoreTest, OldJobsAndEventsAreFoundOldestFirst) {
  const auto store = Open();
  Batch batch;
  for (int id = 1; id <= 5; ++id) {
    core::JobRecord record = Pending(id);
    record.state = core::JobState::kCompleted;
    record.end_time = absl::FromUnixSeconds(100 - id);
    batch.added.push_back({record, std::nullopt});
    batch.events.push_back({absl::FromUnixSeconds(id), std::nullopt, "ended", ""});
  }
  batch.added.push_back({Pending(6), std::nullopt});
  ASSERT_TRUE(store->Commit(batch).ok());
  EXPECT_THAT(*store->EndedBefore(absl::FromUnixSeconds(98), 2), ElementsAre(Id(5), Id(4)));
  EXPECT_THAT(*store->EndedBefore(absl::FromUnixSeconds(98), 9), SizeIs(3));
  ASSERT_TRUE(store->TrimEvents(absl::FromUnixSeconds(4), 2).ok());
  EXPECT_EQ(Ask("SELECT min(time) FROM events"), 3'000'000'000);
  ASSERT_TRUE(store->TrimEvents(absl::FromUnixSeconds(4), 2).ok());
  EXPECT_EQ(Ask("SELECT count(*) FROM events"), 2);
}

TEST_F(StoreTest, ASettingIsKeptAndReplaced) {
  Batch batch;
  batch.settings = {{"held", "why"}};
  ASSERT_TRUE(Open()->Commit(batch).ok());
  EXPECT_EQ(*Open()->Setting("held"), "why");
  batch.settings = {{"held", ""}};
  ASSERT_TRUE(Open()->Commit(batch).ok());
  EXPECT_EQ(*Open()->Setting("held"), "");
  EXPECT_EQ(*Open()->Setting("never"), "");
}

TEST_F(StoreTest, TheSpecGoesWithTheEndOfTheJobAndTheEnvironmentWithItsLastUser) {
  const auto store = Open();
  const core::JobSpec spec = SpecWith({"SECRET=x"});
  ASSERT_TRUE(
      store
          ->Commit({.added = {{Pending(1), spec}, {Pending(2), spec}}, .changed = {}, .events = {}})
          .ok());

  core::JobRecord first = Pending(1);
  first.state = core::JobState::kRunning;
  ASSERT_TRUE(store->Commit({.added = {}, .changed = {first}, .events = {}}).ok());
  EXPECT_TRUE(store->Spec(Id(1)).ok());

  first.state = core::JobState::kCompleted;
  ASSERT_TRUE(store->Commit({.added = {}, .changed = {first}, .events = {}}).ok());
  EXPECT_EQ(store->Spec(Id(1)).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(store->Spec(Id(2))->environment, ElementsAre("SECRET=x"));
  EXPECT_EQ(Ask("SELECT count(*) FROM environments"), 1);

  core::JobRecord second = Pending(2);
  second.state = core::JobState::kCompleted;
  ASSERT_TRUE(store->Commit({.added = {}, .changed = {second}, .events = {}}).ok());
  EXPECT_EQ(Ask("SELECT count(*) FROM environments"), 0);
  EXPECT_EQ(Ask("SELECT count(*) FROM specs"), 0);
}

TEST_F(StoreTest, AJobThatIsAddedAndCompletesInOneBatchLeavesNoSpec) {
  core::JobRecord ended = Pending(1);
  ended.state = core::JobState::kCompleted;
  const auto store = Open();
  ASSERT_TRUE(
      store->Commit({.added = {{Pending(1), SpecWith({"A=1"})}}, .changed = {ended}, .events = {}})
          .ok());
  EXPECT_EQ(Ask("SELECT count(*) FROM specs"), 0);
  EXPECT_EQ(Ask("SELECT count(*) FROM environments"), 0);
}

TEST_F(StoreTest, DroppedSecretsAreNotLeftInTheFile) {
  {
    const auto store = Open();
    ASSERT_TRUE(store
                    ->Commit({.added = {{Pending(1), SpecWith({"TOKEN=hunter2hunter2"})}},
                              .changed = {},
                              .events = {}})
                    .ok());
    core::JobRecord ended = Pending(1);
    ended.state = core::JobState::kCompleted;
    ASSERT_TRUE(store->Commit({.added = {}, .changed = {ended}, .events = {}}).ok());
  }
  EXPECT_THAT(Contents(path_), Not(HasSubstr("hunter2")));
}

TEST_F(StoreTest, UnendedJobsComeInOrderOfTheirIds) {
  const auto store = Open();
  Batch batch;
  for (int state = 1; state <= 12; ++state) {
    core::JobRecord record = Pending(100 - state);
    record.state = static_cast<core::JobState>(state);
    batch.added.push_back({record, std::nullopt});
  }
  ASSERT_TRUE(store->Commit(batch).ok());
  EXPECT_THAT(IdsOf(*store->Unended()), ElementsAre(96, 97, 98, 99));
}

TEST_F(StoreTest, APageHoldsTheNewestBelowTheGivenIdOfTheGivenStates) {
  const auto store = Open();
  Batch batch;
  for (int id = 1; id <= 9; ++id) {
    core::JobRecord record = Pending(id);
    if (id % 3 == 1) record.state = core::JobState::kRunning;
    if (id % 3 == 2) record.state = core::JobState::kFailed;
    batch.added.push_back({record, std::nullopt});
  }
  ASSERT_TRUE(store->Commit(batch).ok());

  EXPECT_THAT(IdsOf(*store->List({})), ElementsAre(9, 8, 7, 6, 5, 4, 3, 2, 1));
  EXPECT_THAT(IdsOf(*store->List({.limit = 2, .before = Id(5), .states = {}})), ElementsAre(4, 3));
  EXPECT_THAT(
      IdsOf(*store->List({.limit = 100, .before = {}, .states = {core::JobState::kFailed}})),
      ElementsAre(8, 5, 2));
  EXPECT_THAT(IdsOf(*store->List({.limit = 3,
                                  .before = Id(9),
                                  .states = {core::JobState::kFailed, core::JobState::kRunning}})),
              ElementsAre(8, 7, 5));
  EXPECT_THAT(*store->List({.limit = 0, .before = {}, .states = {}}), IsEmpty());
  EXPECT_THAT(*store->List({.limit = -1, .before = {}, .states = {}}), IsEmpty());
}

TEST_F(StoreTest, NothingOfAHundredThousandJobsIsFoundByWalkingThemAll) {
  const auto store = Open();
  Batch batch;
  for (int id = 1; id <= 100'000; ++id) batch.added.push_back({Pending(id), std::nullopt});
  ASSERT_TRUE(store->Commit(batch).ok());
  EXPECT_THAT(*store->Unended(), SizeIs(100'000));
  EXPECT_THAT(IdsOf(*store->List({.limit = 2, .before = {}, .states = {core::JobState::kPending}})),
              ElementsAre(100'000, 99'999));

  SQLite::Database database(path_, SQLite::OPEN_READONLY);
  for (const char* sql :
       {kUpdateJob, kSelectJob, kSelectUnended, kListAll, kListIdsOfState, kFindEnvironment,
        kSelectSpec, kDropSpec, kTrimProfile, kFindRequest, kDeleteJob, kOldJobs, kTrimEvents,
        kGetSetting, kListEvents, kListEventsOfJob, kListEventsOfKind}) {
    SQLite::Statement plan(database, std::string("EXPLAIN QUERY PLAN ") + sql);
    while (plan.executeStep()) {
      EXPECT_THAT(plan.getColumn(3).getString(), Not(HasSubstr("SCAN"))) << sql;
      if (sql != kSelectUnended) {
        EXPECT_THAT(plan.getColumn(3).getString(), Not(HasSubstr("B-TREE"))) << sql;
      }
    }
  }
}

TEST_F(StoreTest, TheFileAndItsCompanionsAreForTheUserAlone) {
  Overwrite(path_, "");
  std::filesystem::permissions(path_, std::filesystem::perms::all);
  const auto store = Open();
  ASSERT_TRUE(store->Commit({.added = {{Pending(1), {}}}, .changed = {}, .events = {}}).ok());
  for (const char* suffix : {"", "-wal", "-shm"}) {
    struct stat about {};
    ASSERT_EQ(stat((path_ + suffix).c_str(), &about), 0) << suffix;
    EXPECT_EQ(about.st_mode & 0777, 0600u) << suffix;
  }
}

TEST_F(StoreTest, UsesAWriteAheadLogAndStampsItsSchemaVersion) {
  const auto store = Open();
  SQLite::Database database(path_, SQLite::OPEN_READONLY);
  EXPECT_EQ(database.execAndGet("PRAGMA journal_mode").getString(), "wal");
  EXPECT_EQ(database.execAndGet("PRAGMA user_version").getInt(), kSchemaVersion);
}

TEST_F(StoreTest, ANewerFileIsRefusedAndNotAByteOfItChanges) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->Commit({.added = {{Pending(1), {}}}, .changed = {}, .events = {}}).ok());
  }
  // A crash of the newer program: its last commit is still in the write-ahead log.
  {
    SQLite::Database newer(path_, SQLite::OPEN_READWRITE);
    newer.exec("PRAGMA user_version = 9");
    std::filesystem::copy_file(path_, folder_ + "/copy");
    std::filesystem::copy_file(path_ + "-wal", folder_ + "/copy-wal");
  }
  path_ = folder_ + "/copy";
  const std::string before = Contents(path_);
  const std::string log_before = Contents(path_ + "-wal");
  ASSERT_FALSE(log_before.empty());

  const absl::Status status = Store::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  EXPECT_THAT(std::string(status.message()), HasSubstr("schema 9"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("writes ", kSchemaVersion)));
  EXPECT_TRUE(Contents(path_) == before);
  EXPECT_TRUE(Contents(path_ + "-wal") == log_before);
}

TEST_F(StoreTest, AnOlderFileIsMigratedWithItsRowsAndTheDefaultsOfWhatWasNotThere) {
  {
    SQLite::Database old(path_, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    old.exec(kMigrations[0]);
    old.exec("PRAGMA user_version = 1");
    old.exec(
        "INSERT INTO jobs (id, kind, name, command, working_directory, wait_free, swap_budget, "
        "kill_free, priority, grace, state, reason, reason_text, submit_time, boot_id, charge) "
        "VALUES (4, 0, 'old', 'true', '/', 40, 8589934592, 10, 0, 5000000000, 1, 0, '', 0, '', 0)");
    old.exec("INSERT INTO events (time, job, kind, text) VALUES (7, 4, 'admitted', 'old event')");
  }
  const auto store = Open();
  EXPECT_THAT(TextsOf(store->ListEvents({.job = Id(4)})), ElementsAre("old event"));
  const auto rows = store->Unended();
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_THAT(*rows, SizeIs(1));
  core::JobRecord expected;
  expected.id = Id(4);
  expected.name = "old";
  expected.command = "true";
  expected.working_directory = "/";
  expected.submit_time = absl::UnixEpoch();
  EXPECT_TRUE(rows->front() == expected);
}

TEST_F(StoreTest, AProfileRemembersItsLastTwentyRunsOldestFirst) {
  {
    const auto store = Open();
    for (int run = 1; run <= 23; ++run) {
      Batch batch;
      batch.learned.push_back({"qwen", {Id(100 - run), MiB(run), std::nullopt}});
      batch.learned.push_back({"flux", {Id(run), std::nullopt, GiB(run)}});
      ASSERT_TRUE(store->Commit(batch).ok());
    }
  }
  const auto rows = Open()->Profiles();
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_THAT(*rows, SizeIs(2 * core::Profiles::kRuns));
  EXPECT_EQ(rows->front().profile, "qwen");
  EXPECT_EQ(rows->front().run.id, Id(96));
  EXPECT_EQ(rows->front().run.footprint, MiB(4));
  EXPECT_EQ(rows->front().run.true_peak, std::nullopt);
  EXPECT_EQ(rows->back().profile, "flux");
  EXPECT_EQ(rows->back().run.footprint, std::nullopt);
  EXPECT_EQ(rows->back().run.true_peak, GiB(23));
}

TEST_F(StoreTest, AnotherProgramsDatabaseIsRefused) {
  SQLite::Database(path_, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE bookmarks (url TEXT)");
  const absl::Status status = Store::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("another program"));
}

TEST_F(StoreTest, AFolderThatIsNotThereIsNamed) {
  path_ = folder_ + "/missing/store.db";
  const absl::Status status = Store::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  EXPECT_THAT(std::string(status.message()), HasSubstr("No such file or directory"));
}

TEST_F(StoreTest, AHomeThatIsAFileIsNamed) {
  Overwrite(folder_ + "/home", "not a folder");
  path_ = folder_ + "/home/store.db";
  const absl::Status status = Store::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("Not a directory"));
}

TEST_F(StoreTest, AnIdThatNeverWasIsNotFound) {
  const auto store = Open();
  EXPECT_EQ(store->Get(Id(5)).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(store->Get(Id(5)).status()), kJobNotFound);
  EXPECT_EQ(ReasonOf(store->Spec(Id(5)).status()), kJobNotFound);
}

}  // namespace
}  // namespace stageload::store
