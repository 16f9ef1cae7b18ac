// A damaged file is set aside as it is, what can be read of it goes on, and no id is given twice.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "daemon/store/salvage.h"
#include "daemon/store/store.h"
#include "tests/fixture.h"

namespace stageload::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::size_t kPage = 4096;
constexpr uid_t kNobody = 65534;

std::string Contents(const std::string& path) {
  std::ostringstream contents;
  contents << std::ifstream(path, std::ios::binary).rdbuf();
  return contents.str();
}

void Overwrite(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
}

core::JobRecord Job(std::int64_t id) {
  core::JobRecord record;
  record.id = core::JobId{id};
  record.name = absl::StrCat("job ", id);
  record.command = "python train.py --model qwen";
  record.submit_time = absl::FromUnixNanos(id);
  return record;
}

core::JobSpec SpecOf(std::int64_t id) {
  core::JobSpec spec;
  spec.argv = {"train", absl::StrCat(id)};
  spec.working_directory = "/";
  spec.environment = {absl::StrCat("SHELL_NUMBER=", id % 3)};
  return spec;
}

class DamagedStore : public ::testing::Test {
 protected:
  std::unique_ptr<Store> Open(std::int64_t known_elsewhere = 0,
                              Sharing sharing = Sharing::kShared) {
    absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(
        path_, [=] { return core::JobId{known_elsewhere}; }, sharing);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  // Leaves `jobs` rows with specs, one event each, a profile run and a setting; closed as a daemon
  // that ends well closes it.
  void Make(int jobs) {
    const auto store = Open();
    Batch batch;
    for (int id = 1; id <= jobs; ++id) {
      batch.added.push_back({Job(id), SpecOf(id)});
      batch.events.push_back({absl::FromUnixNanos(id), core::JobId{id}, "submitted", "as a test"});
    }
    batch.learned.push_back({"qwen", {core::JobId{1}, MiB(5), std::nullopt}});
    batch.settings["held"] = "yes";
    ASSERT_TRUE(store->Commit(batch).ok());
  }

  std::vector<std::string> SetAside(const std::string& why = "damaged") const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      const std::string name = entry.path().filename();
      if (absl::StartsWith(name, absl::StrCat("store.db.", why, "-")) &&
          !absl::EndsWith(name, "-wal") && !absl::EndsWith(name, "-shm")) {
        found.push_back(entry.path());
      }
    }
    return found;
  }

  // All ids below the next one that came back are as they were; returns how many.
  std::size_t ExpectRowsAsTheyWere(Store& store) {
    const auto rows = store.List({.limit = 1'000'000, .before = {}, .states = {}});
    EXPECT_TRUE(rows.ok()) << rows.status();
    if (!rows.ok()) return 0;
    for (const core::JobRecord& row : *rows) {
      core::JobRecord expected = Job(core::Value(row.id));
      const auto spec = store.Spec(row.id);
      if (spec.ok()) {
        EXPECT_EQ(spec->argv, SpecOf(core::Value(row.id)).argv);
        EXPECT_TRUE(row == expected) << row.name;
      } else {
        EXPECT_EQ(row.state, core::JobState::kFailed) << row.name;
        EXPECT_THAT(row.reason_text, HasSubstr("submit it again"));
      }
    }
    return rows->size();
  }

  const TemporaryFolder temporary_;
  const std::string& folder_ = temporary_.path();
  std::string path_ = folder_ + "/store.db";
};

TEST_F(DamagedStore, WhatIsNoDatabaseIsSetAsideAsItIsAndTheIdsOfJobFoldersStayTaken) {
  const std::string garbage(8192, 'x');
  Overwrite(path_, garbage);
  const auto store = Open(17);
  EXPECT_THAT(*store->Unended(), IsEmpty());
  EXPECT_GT(*store->NextId(), core::JobId{17});
  ASSERT_THAT(SetAside(), SizeIs(1));
  EXPECT_TRUE(Contents(SetAside().front()) == garbage);
  EXPECT_THAT(*store->Setting(kRecovery), HasSubstr(SetAside().front()));
  EXPECT_THAT(*store->Setting(kRecovery), HasSubstr("not a database"));
  EXPECT_THAT(*store->Setting(kRecovery), HasSubstr("0 jobs"));
}

TEST_F(DamagedStore, WhateverPageIsBadTheOthersRowsGoOnAndNoIdIsGivenTwice) {
  constexpr int kJobs = 400;
  Make(kJobs);
  const std::string sound = Contents(path_);
  const std::size_t pages = sound.size() / kPage;
  ASSERT_GT(pages, 20U);
  std::map<std::size_t, int> kept;
  for (std::size_t page = 0; page < pages; ++page) {
    for (const char garbage : {'\0', '\x5a'}) {
      for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
        std::filesystem::remove(entry.path());
      }
      std::string contents = sound;
      std::fill_n(contents.begin() + static_cast<std::ptrdiff_t>(page * kPage), kPage, garbage);
      Overwrite(path_, contents);
      const auto store = Open(5);
      ASSERT_NE(store, nullptr) << "page " << page;
      ASSERT_THAT(SetAside(), SizeIs(1)) << "page " << page;
      EXPECT_GT(*store->NextId(), core::JobId{page == 0 ? 5 : kJobs}) << "page " << page;
      ++kept[ExpectRowsAsTheyWere(*store) / 40 * 40];
      EXPECT_NE(*store->Setting(kRecovery), "") << "page " << page;
    }
  }
  // Only the first page, which knows where every table is, and the root of `jobs` cost all rows.
  EXPECT_LE(kept[0], 4);
  std::cout << pages << " pages, each bad in two ways; jobs kept of " << kJobs << ":";
  for (const auto& [at_least, times] : kept) {
    std::cout << " " << at_least << "+: " << times << " times;";
  }
  std::cout << "\n";
}

TEST_F(DamagedStore, AFileThatWasCutKeepsTheRowsOfItsBeginning) {
  Make(400);
  const std::string sound = Contents(path_);
  const std::size_t pages = sound.size() / kPage;
  for (const std::size_t left : {pages - 1, pages / 4 * 3, pages / 2}) {
    Overwrite(path_, sound.substr(0, left * kPage));
    const auto store = Open();
    ASSERT_NE(store, nullptr);
    EXPECT_GT(*store->NextId(), core::JobId{400});
    EXPECT_GT(ExpectRowsAsTheyWere(*store), 20U) << left << " pages";
  }
}

TEST_F(DamagedStore, ADeletedOneIsMadeAnewAboveTheIdsOfTheJobFolders) {
  Make(3);
  std::filesystem::remove(path_);
  const auto store = Open(2);
  EXPECT_EQ(*store->NextId(), core::JobId{2 + kUnseenIds + 1}) << "the third had no folder";
  EXPECT_THAT(*store->Setting(kRecovery), HasSubstr("was not there"));
  EXPECT_THAT(SetAside(), IsEmpty());
}

TEST_F(DamagedStore, OneThatKnowsLessThanTheJobFoldersIsToldAndItsIdsStayTaken) {
  for (const bool young : {true, false}) {  // with all that was ever written in its log
    std::filesystem::remove(path_);
    if (!young) Make(3);
    {
      const auto store = Open();
      Batch batch;
      for (int id = 4; id <= 6; ++id) batch.added.push_back({Job(id), SpecOf(id)});
      ASSERT_TRUE(store->Commit(batch).ok());
      std::filesystem::copy_file(path_, folder_ + "/copy",
                                 std::filesystem::copy_options::overwrite_existing);
    }
    std::filesystem::rename(folder_ + "/copy", path_);
    {
      const auto store = Open(5);
      EXPECT_EQ(*store->NextId(), core::JobId{5 + kUnseenIds + 1}) << "the sixth had no folder";
      EXPECT_EQ(store->Get(core::JobId{3}).ok(), !young);
      EXPECT_THAT(*store->Setting(kRecovery),
                  HasSubstr(absl::StrCat("knows of no job above ", young ? 0 : 3,
                                         ", though job 5 has a folder")));
      Batch told;
      told.settings[kRecovery] = "";
      ASSERT_TRUE(store->Commit(told).ok());
    }
    EXPECT_EQ(*Open(5)->Setting(kRecovery), "") << "once";
  }
}

TEST_F(DamagedStore, AStoreAndFoldersThatGoTogetherAreNotTold) {
  for (const std::int64_t folder : {0, 3}) {
    if (folder > 0) Make(3);
    const auto store = Open(folder);
    EXPECT_EQ(*store->NextId(), core::JobId{folder + 1});
    EXPECT_EQ(*store->Setting(kRecovery), "");
  }
}

// What somebody does to the files under a store that is open, and how it is called.
struct Change {
  const char* told;
  std::function<void(const std::string& path)> make;
};

void WriteInPlace(const std::string& path, const std::string& bytes) {
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << bytes;
}

const std::vector<Change>& Changes() {
  static const std::vector<Change> changes = {
      {"was cut from", [](const std::string& path) { Overwrite(path, ""); }},
      {"was cut from",
       [](const std::string& path) { std::filesystem::resize_file(path, 3 * kPage); }},
      {"was written over",
       [](const std::string& path) {
         WriteInPlace(path, std::string(std::filesystem::file_size(path), 'x'));
       }},
      {"had its write-ahead log cut",
       [](const std::string& path) { Overwrite(path + "-wal", ""); }},
      {"had its write-ahead log written over",
       [](const std::string& path) { WriteInPlace(path + "-wal", std::string(4000, 'x')); }},
      {"has lost its write-ahead log",
       [](const std::string& path) { std::filesystem::remove(path + "-wal"); }},
      {"was cut from",
       [](const std::string& path) {
         Overwrite(path, "");
         Overwrite(path + "-wal", "");
         Overwrite(path + "-shm", "");
       }},
  };
  return changes;
}

TEST_F(DamagedStore, WhateverIsDoneToItsFilesWhileItIsOpenNothingIsLostAndItIsTold) {
  constexpr int kJobs = 400;
  Make(kJobs);
  int id = kJobs;
  for (const Change& change : Changes()) {
    SCOPED_TRACE(change.told);
    {
      const auto store = Open(0, Sharing::kAlone);
      ASSERT_NE(store, nullptr);
      // Twice: what was written anew is as safe.
      for (int time = 0; time < 2; ++time) {
        ASSERT_TRUE(store->Commit({{{Job(++id), SpecOf(id)}}, {}, {}}).ok());
        EXPECT_TRUE(store->InPlace());
        // So that there is something to cut: else a copy may have no more than it.
        ASSERT_GT(std::filesystem::file_size(path_), 3 * kPage);
        change.make(path_);
        EXPECT_FALSE(store->InPlace());
        const absl::Status status = store->Commit({{{Job(++id), SpecOf(id)}}, {}, {}});
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_TRUE(store->InPlace());
        const std::string notice = store->TakeNotice().value_or("");
        EXPECT_THAT(notice, HasSubstr(absl::StrCat(path_, " ", change.told)));
        EXPECT_THAT(notice, HasSubstr("all that the daemon had is there again"));
      }
    }
    const auto store = Open();
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(ExpectRowsAsTheyWere(*store), static_cast<std::size_t>(id));
    EXPECT_EQ(*store->NextId(), core::JobId{id + 1});
    EXPECT_EQ(*store->Setting("held"), "yes");
    EXPECT_EQ(*store->Setting(kRecovery), "");
  }
  EXPECT_THAT(SetAside(), IsEmpty());
  EXPECT_THAT(SetAside("replaced"), SizeIs(2 * Changes().size()));
}

TEST_F(DamagedStore, OneThatIsMovedAndLinkedBackWhileItIsOpenIsWrittenAnewInPlaceOfTheLink) {
  const std::string moved = folder_ + "/moved.db";
  {
    const auto store = Open(0, Sharing::kAlone);
    ASSERT_TRUE(store->Commit({{{Job(1), SpecOf(1)}}, {}, {}}).ok());
    std::filesystem::rename(path_, moved);
    std::filesystem::create_symlink(moved, path_);
    EXPECT_FALSE(store->InPlace());
    ASSERT_TRUE(store->Commit({{{Job(2), SpecOf(2)}}, {}, {}}).ok());
    EXPECT_TRUE(store->InPlace());
    EXPECT_THAT(store->TakeNotice().value_or(""),
                HasSubstr("was moved and a link put in its place while the daemon ran: that link"));
    // As a crash leaves it.
    std::filesystem::copy_file(path_, folder_ + "/copy");
    std::filesystem::copy_file(path_ + "-wal", folder_ + "/copy-wal");
  }
  EXPECT_FALSE(std::filesystem::is_symlink(path_));
  path_ = folder_ + "/copy";
  EXPECT_EQ(ExpectRowsAsTheyWere(*Open()), 2U);
}

TEST_F(DamagedStore, OneThatALinkLeadsToIsUsedWhereItIs) {
  Make(3);
  const std::string place = folder_ + "/place.db";
  std::filesystem::rename(path_, place);
  std::filesystem::create_symlink(place, path_);
  {
    const auto store = Open(0, Sharing::kAlone);
    EXPECT_TRUE(store->InPlace());
    ASSERT_TRUE(store->Commit({{{Job(4), SpecOf(4)}}, {}, {}}).ok());
    Overwrite(place, "");
    EXPECT_FALSE(store->InPlace());
    ASSERT_TRUE(store->Commit({{{Job(5), SpecOf(5)}}, {}, {}}).ok());
    EXPECT_TRUE(std::filesystem::is_symlink(path_));
    // The link goes, and what it led to is no longer the store.
    std::filesystem::remove(path_);
    EXPECT_FALSE(store->InPlace());
    ASSERT_TRUE(store->Commit({{{Job(6), SpecOf(6)}}, {}, {}}).ok());
    EXPECT_TRUE(store->InPlace());
  }
  EXPECT_TRUE(std::filesystem::is_regular_file(path_));
  EXPECT_EQ(ExpectRowsAsTheyWere(*Open()), 6U);
}

TEST_F(DamagedStore, ALinkWhoseNewestJobsLieBesideItIsRefusedWithHowToLoseNothing) {
  const std::string moved = folder_ + "/moved.db";
  {
    const auto store = Open(0, Sharing::kAlone);
    ASSERT_TRUE(store->Commit({{{Job(1), SpecOf(1)}}, {}, {}}).ok());
    // As a crash leaves it, moved and linked back before that.
    std::filesystem::copy_file(path_, moved);
    std::filesystem::copy_file(path_ + "-wal", folder_ + "/link.db-wal");
  }
  path_ = folder_ + "/link.db";
  std::filesystem::create_symlink(moved, path_);
  const absl::Status status = Store::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("mv ", moved, " ", path_)));
  std::filesystem::rename(moved, path_);
  EXPECT_EQ(ExpectRowsAsTheyWere(*Open()), 1U);
  std::filesystem::remove(path_);
  std::filesystem::create_symlink(moved, path_);
  EXPECT_THAT(std::string(Store::Open(path_).status().message()),
              HasSubstr("is a link that leads to no file"));
}

TEST_F(DamagedStore, AnOlderCopyThatIsWrittenOverAnOpenOneIsKeptAsideAndLosesNothing) {
  Make(40);
  const std::string backup = Contents(path_);
  {
    const auto store = Open();
    Batch more;
    for (int id = 41; id <= 400; ++id) more.added.push_back({Job(id), SpecOf(id)});
    ASSERT_TRUE(store->Commit(more).ok());
  }
  const auto store = Open(0, Sharing::kAlone);
  Overwrite(path_, backup);
  EXPECT_FALSE(store->InPlace());
  ASSERT_TRUE(store->Commit({}).ok());
  EXPECT_EQ(ExpectRowsAsTheyWere(*store), 400U);
  ASSERT_THAT(SetAside("replaced"), SizeIs(1));
  EXPECT_EQ(Contents(SetAside("replaced").front()), backup);
}

TEST_F(DamagedStore, OneThatIsTooLargeForMemoryLosesWhatWasCutOffAndCountsWhatIsLeft) {
  constexpr int kJobs = 12000;
  {
    const auto store = Open();
    Batch batch;
    for (int id = 1; id <= kJobs; ++id) {
      core::JobRecord record = Job(id);
      record.command = std::string(3000, 'c');
      batch.added.push_back({record, std::nullopt});
    }
    ASSERT_TRUE(store->Commit(batch).ok());
  }
  ASSERT_GT(std::filesystem::file_size(path_), 40U * 1024 * 1024);
  const auto store = Open(0, Sharing::kAlone);
  core::JobRecord early = Job(1);
  std::filesystem::resize_file(path_, 20U * 1024 * 1024);
  EXPECT_FALSE(store->InPlace());
  ASSERT_TRUE(store->Commit({{{Job(kJobs + 1), SpecOf(kJobs + 1)}}, {early}, {}}).ok());
  EXPECT_THAT(store->TakeNotice().value_or(""), HasSubstr("what could be read goes on"));
  EXPECT_TRUE(store->Get(core::JobId{1}).ok());
  EXPECT_TRUE(store->Get(core::JobId{kJobs + 1}).ok());
  // A row that was lost comes back with its next change.
  core::JobRecord lost = Job(kJobs - 1);
  ASSERT_FALSE(store->Get(lost.id).ok());
  ASSERT_TRUE(store->Commit({{}, {lost}, {}}).ok());
  EXPECT_TRUE(store->Get(lost.id).ok());
  EXPECT_GT(*store->NextId(), core::JobId{kJobs + 1});
}

TEST_F(DamagedStore, OneThatStandsThereEmptyIsToldAndItsIdsStayTaken) {
  Make(3);
  Overwrite(path_, "");
  const auto store = Open(2);
  EXPECT_GT(*store->NextId(), core::JobId{3});
  EXPECT_THAT(*store->Setting(kRecovery), HasSubstr("was empty"));
}

TEST_F(DamagedStore, TheWriteAheadLogOfAnEmptiedOneIsReadAfterACrash) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->Commit({{{Job(1), SpecOf(1)}, {Job(2), SpecOf(2)}}, {}, {}}).ok());
    std::filesystem::copy_file(path_ + "-wal", folder_ + "/copy-wal");
  }
  path_ = folder_ + "/copy";
  Overwrite(path_, "");
  const auto store = Open(0, Sharing::kAlone);
  EXPECT_EQ(ExpectRowsAsTheyWere(*store), 2U);
  EXPECT_THAT(*store->Setting(kRecovery), HasSubstr("cut to nothing"));
  EXPECT_EQ(*store->NextId(), core::JobId{3});
}

TEST_F(DamagedStore, ANewOneIsSilent) {
  const auto store = Open();
  EXPECT_EQ(*store->Setting(kRecovery), "");
  EXPECT_EQ(*store->NextId(), core::JobId{1});
}

TEST_F(DamagedStore, WhoHasItAloneSharesItWithWhoHasItOpenAlready) {
  Make(1);
  SQLite::Database other(path_, SQLite::OPEN_READWRITE);
  EXPECT_EQ(other.execAndGet("SELECT count(*) FROM jobs").getInt(), 1);
  const auto store = Open(0, Sharing::kAlone);
  ASSERT_NE(store, nullptr);
  ASSERT_TRUE(store->Commit({{{Job(2), SpecOf(2)}}, {}, {}}).ok());
  EXPECT_EQ(other.execAndGet("SELECT count(*) FROM jobs").getInt(), 2);
  // What the other one does is none of this.
  other.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  other.exec("UPDATE settings SET value = 'no' WHERE name = 'held'");
  EXPECT_TRUE(store->InPlace());
  EXPECT_EQ(*store->Setting("held"), "no");
  Overwrite(path_, "");
  EXPECT_FALSE(store->InPlace());
}

TEST_F(DamagedStore, ASoundOneIsLeftAloneAlsoAfterACrash) {
  Make(50);
  {
    const auto store = Open(50);
    ASSERT_TRUE(store->Commit({.added = {{Job(51), {}}}, .changed = {}, .events = {}}).ok());
    std::filesystem::copy_file(path_, folder_ + "/copy");
    std::filesystem::copy_file(path_ + "-wal", folder_ + "/copy-wal");
  }
  path_ = folder_ + "/copy";
  const auto store = Open(51);
  EXPECT_EQ(*store->Setting(kRecovery), "");
  EXPECT_EQ(*store->NextId(), core::JobId{52});
  EXPECT_THAT(SetAside(), IsEmpty());
}

TEST_F(DamagedStore, WhatIsMetAtRunTimeIsUnavailableWithWhatToDoAndMendedByTheNextStart) {
  {
    const auto store = Open();
    Batch batch;
    for (int id = 1; id <= 5000; ++id) {  // more than is checked at each start
      core::JobRecord record = Job(id);
      record.command = std::string(4000, 'c');
      batch.added.push_back({record, std::nullopt});
    }
    ASSERT_TRUE(store->Commit(batch).ok());
  }
  ASSERT_GT(std::filesystem::file_size(path_), 16U * 1024 * 1024);
  std::string contents = Contents(path_);
  std::fill_n(contents.begin() + static_cast<std::ptrdiff_t>(contents.size() / 2), 20 * kPage, 'Z');
  Overwrite(path_, contents);
  {
    const auto store = Open();
    EXPECT_THAT(SetAside(), IsEmpty()) << "checked, though it is large and was closed well";
    const absl::Status met = store->List({.limit = 9000, .before = {}, .states = {}}).status();
    EXPECT_EQ(met.code(), absl::StatusCode::kUnavailable) << met;
    EXPECT_EQ(ReasonOf(met), kStoreFailed);
    EXPECT_THAT(std::string(met.message()), HasSubstr("malformed"));
    EXPECT_THAT(std::string(met.message()), HasSubstr(path_));
    EXPECT_THAT(std::string(met.message()), HasSubstr("stageloadctl daemon stop"));
  }
  const auto store = Open();
  EXPECT_THAT(SetAside(), SizeIs(1));
  const auto rows = store->List({.limit = 9000, .before = {}, .states = {}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_GT(rows->size(), 4900U);
  EXPECT_LT(rows->size(), 5000U);
}

TEST_F(DamagedStore, AnExchangeThatWasCutShortIsFinishedByTheNextStart) {
  Make(40);
  std::string contents = Contents(path_);
  std::fill_n(contents.begin() + 4 * static_cast<std::ptrdiff_t>(kPage), kPage, 'Z');
  Overwrite(path_, contents);
  (void)Open();
  ASSERT_THAT(SetAside(), SizeIs(1));
  const std::string aside = SetAside().front();
  // As a crash leaves it: the new file is whole, and a part or none of the old one has moved.
  for (const bool moved : {false, true}) {
    std::filesystem::rename(path_, path_ + ".salvaged");
    Overwrite(path_ + "-wal", "old");
    if (!moved) std::filesystem::rename(aside, path_);
    const auto store = Open();
    ASSERT_NE(store, nullptr);
    EXPECT_THAT(SetAside(), ElementsAre(aside));
    EXPECT_EQ(Contents(aside), contents);
    EXPECT_EQ(Contents(aside + "-wal"), "old");
    EXPECT_FALSE(std::filesystem::exists(path_ + ".salvaged"));
    EXPECT_GT(*store->NextId(), core::JobId{40});
  }
}

TEST_F(DamagedStore, WithoutRoomForTheNewFileTheDamagedOneStaysAsItIs) {
  Make(400);
  std::string contents = Contents(path_);
  std::fill_n(contents.begin() + 9 * static_cast<std::ptrdiff_t>(kPage), kPage, 'Z');
  Overwrite(path_, contents);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 8 * kPage;
  signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = Store::Open(path_).status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  EXPECT_TRUE(Contents(path_) == contents);
  EXPECT_THAT(SetAside(), IsEmpty());
  EXPECT_GT(ExpectRowsAsTheyWere(*Open()), 300U);
}

TEST_F(DamagedStore, AnotherUsersFileIsRefusedWithWhoseItIs) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  Make(1);
  ASSERT_EQ(chown(path_.c_str(), kNobody, kNobody), 0);
  const absl::Status status = Store::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("belongs to uid ", kNobody)));
  EXPECT_THAT(std::string(status.message()), HasSubstr("chown"));
}

TEST_F(DamagedStore, AFileThatMayNotBeReadIsRefusedWithWhatToDo) {
  Make(1);
  ASSERT_EQ(chmod(path_.c_str(), 0), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  // Root may read everything, so a child that is nobody opens it.
  const std::string answer = folder_ + "/answer";
  Overwrite(answer, "");
  ASSERT_EQ(chmod(answer.c_str(), 0666), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(kNobody) != 0) _exit(2);
    std::ofstream(answer) << Store::Open(path_).status();
    _exit(0);
  }
  int ended = -1;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  ASSERT_EQ(ended, 0);
  EXPECT_THAT(Contents(answer), HasSubstr("UNAVAILABLE"));
  EXPECT_THAT(Contents(answer), HasSubstr("Permission denied"));
  EXPECT_THAT(Contents(answer), HasSubstr("chown"));
}

}  // namespace
}  // namespace stageload::store
