// The engine with a real store, real shims and real processes; only the memory of the machine is
// made up.
#include "daemon/engine/engine.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/error_reason.h"
#include "tests/daemon/engine/engine_fixture.h"

namespace stageload::engine {
namespace {

using core::JobId;
using core::JobState;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(EngineTest, SubmittedJobRunsAndEndsWithItsOwnCode) {
  Life life(folder_, host_);
  const auto job = life.Submit({"sh", "-c", "exit 7"});
  ASSERT_TRUE(job.ok()) << job.status();
  const auto end = life.WaitForEnd(job->record.id);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->record.state, JobState::kFailed);
  EXPECT_EQ(end->record.outcome.exit_code, 7);
  const auto got = life.Get(job->record.id);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->record.state, JobState::kFailed);
  EXPECT_EQ(got->record.working_directory, "/");
  EXPECT_THAT(got->folder, HasSubstr("/jobs/1"));
}

TEST_F(EngineTest, WatcherOfAJobSeesEachStateOnceAndTheEndLast) {
  host_.SetLevel(20);
  Life life(folder_, host_);
  const auto job = life.Submit({"sh", "-c", "exit 0"});
  ASSERT_TRUE(job.ok());
  std::mutex mutex;
  std::vector<JobState> states;
  Promised<bool> pending, ended;
  life.engine().Watch(life.engine().NewWatchToken(), job->record.id, [&](auto view) {
    const std::lock_guard<std::mutex> lock(mutex);
    ASSERT_TRUE(view.ok());
    if (states.empty() || states.back() != view->record.state) {
      states.push_back(view->record.state);
    }
    if (view->record.state == JobState::kPending) {
      EXPECT_EQ(view->queue_position, 1);
      EXPECT_EQ(view->blockers.at(0).kind, core::BlockerKind::kLevel);
      pending.Set(true);
    }
    if (core::IsEnd(view->record.state)) ended.Set(true);
  });
  pending.Get();
  host_.SetLevel(90);
  ended.Get();
  const std::lock_guard<std::mutex> lock(mutex);
  EXPECT_THAT(states, ElementsAre(JobState::kPending, JobState::kRunning, JobState::kCompleted));
}

// How often `host` has been read once it was read at least `count` times.
std::vector<absl::Duration> AwaitReadings(const host::SteeredHost& host, std::size_t count) {
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (host.ReadAt().size() < count && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return host.ReadAt();
}

TEST_F(EngineTest, AHintOfPressureHasTheMachineReadAtOnce) {
  Life life(folder_, host_);
  const std::vector<absl::Duration> before = AwaitReadings(host_, 2);  // one second apart, idle
  ASSERT_GE(before.size(), 2U);
  while (host_.Clock().awake < before.back() + absl::Milliseconds(100)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const absl::Duration hinted = host_.Clock().awake;
  life.engine().PressureHinted();
  const std::vector<absl::Duration> after = AwaitReadings(host_, before.size() + 1);
  ASSERT_GT(after.size(), before.size());
  EXPECT_GE(after[before.size()], hinted);
  // The next that is due is 900 ms away.
  EXPECT_LT(after[before.size()] - hinted, absl::Milliseconds(500));
}

TEST_F(EngineTest, AStormOfHintsReadsTheMachineAtTheFastPaceAndNoFaster) {
  Life life(folder_, host_);
  const std::size_t before = host_.ReadAt().size();
  const absl::Duration begin = host_.Clock().awake;
  while (host_.Clock().awake < begin + absl::Milliseconds(500)) life.engine().PressureHinted();
  const absl::Duration end = host_.Clock().awake;
  const std::vector<absl::Duration> read = host_.ReadAt();
  // 10, on a machine that is not busy; one would be due anyway.
  EXPECT_GT(read.size() - before, 2U);
  EXPECT_LE(read.size() - before,
            static_cast<std::size_t>((end - begin) / absl::Milliseconds(50)) + 2);
}

TEST_F(EngineTest, AHintAfterTheEndIsNotHeard) {
  auto life = std::make_unique<Life>(folder_, host_);
  life->engine().Stop();
  life->engine().PressureHinted();
  life->engine().PressureHinted();
}

TEST_F(EngineTest, CancelEndsAWholeTreeAndSaysSo) {
  Life life(folder_, host_);
  core::Policy policy;
  policy.grace = absl::Milliseconds(300);
  const auto job =
      life.Submit({"sh", "-c", "trap '' TERM; sleep 600 & sleep 600 & wait; wait"}, policy);
  ASSERT_TRUE(job.ok());
  ASSERT_TRUE(life.WaitFor(job->record.id, JobState::kRunning).ok());
  ASSERT_TRUE(life.Cancel(job->record.id).ok());
  ASSERT_TRUE(life.Cancel(job->record.id).ok()) << "twice is one stop";
  const auto end = life.WaitForEnd(job->record.id);
  EXPECT_EQ(end->record.state, JobState::kCancelled);
  const auto again = life.Cancel(job->record.id);
  EXPECT_EQ(ReasonOf(again.status()), kJobEnded);
  EXPECT_EQ(ReasonOf(life.Cancel(JobId{99}).status()), kJobNotFound);
}

TEST_F(EngineTest, JobOverItsSwapBudgetIsStoppedWithTheFigures) {
  Life life(folder_, host_);
  core::Policy policy;
  policy.swap_budget = MiB(64);
  const auto job = life.Submit({"sleep", "600"}, policy);
  ASSERT_TRUE(life.WaitFor(job->record.id, JobState::kRunning).ok());
  host_.SetSwap(MiB(65));
  const auto end = life.WaitForEnd(job->record.id);
  EXPECT_EQ(end->record.state, JobState::kOutOfMemory);
  EXPECT_EQ(end->record.reason, core::Reason::kSwapBudget);
  EXPECT_THAT(end->record.reason_text,
              HasSubstr("swap charge 65 MiB is over the budget of 64 MiB"));
}

TEST_F(EngineTest, StoreThatCannotBeWrittenRefusesTheSubmitAndRunsNothing) {
  Life life(folder_, host_);
  SQLite::Database vandal(folder_ + "/stageload.db", SQLite::OPEN_READWRITE);
  vandal.setBusyTimeout(5000);
  vandal.exec("ALTER TABLE jobs RENAME TO jobs_away");
  const std::string proof = folder_ + "/ran";
  const auto job = life.Submit({"touch", proof});
  EXPECT_TRUE(absl::IsUnavailable(job.status())) << job.status();
  vandal.exec("ALTER TABLE jobs_away RENAME TO jobs");
  const auto next = life.Submit({"true"});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(life.WaitForEnd(next->record.id)->record.state, JobState::kCompleted);
  EXPECT_FALSE(std::filesystem::exists(proof));
}

// A store that is too large to be kept in memory.
TEST_F(EngineTest, JobsWhoseCommandWentWithAPartOfTheStoreFailAtOnceAndSaySo) {
  constexpr int kJobs = 16;
  Life life(folder_, host_);
  Promised<absl::Status> held;
  life.engine().HoldQueue("a test", [&](absl::Status status) { held.Set(std::move(status)); });
  ASSERT_TRUE(held.Get().ok());
  std::vector<std::string> command(10, std::string(100 * 1024, 'a'));
  command[0] = "true";
  for (int i = 0; i < kJobs; ++i) ASSERT_TRUE(life.Submit(command).ok());
  const std::string path = folder_ + "/stageload.db";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  std::vector<JobId> pending;
  const auto look = [&] {
    pending.clear();
    for (int id = 1; id <= kJobs; ++id) {
      const core::JobRecord job = life.Get(JobId{id})->record;
      if (job.state == JobState::kPending) {
        pending.push_back(job.id);
      } else {
        EXPECT_EQ(job.state, JobState::kFailed);
        EXPECT_EQ(job.reason, core::Reason::kStartFailed);
        EXPECT_THAT(job.reason_text, HasSubstr("submit it again"));
      }
    }
    return pending.size() < kJobs;
  };
  for (int i = 0; i < 1000 && !look(); ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_LT(pending.size(), kJobs);
  EXPECT_GT(pending.size(), 0U) << "half of the file was left";
  Promised<absl::Status> released;
  life.engine().ReleaseQueue([&](absl::Status status) { released.Set(std::move(status)); });
  ASSERT_TRUE(released.Get().ok());
  for (const JobId id : pending) {
    EXPECT_EQ(life.WaitForEnd(id)->record.state, JobState::kCompleted);
  }
}

TEST_F(EngineTest, AStartThatWaitsForItsRowToBeWrittenSaysSo) {
  host_.SetLevel(20);
  Life life(folder_, host_);
  const JobId id = life.Submit({"true"})->record.id;
  SQLite::Database vandal(folder_ + "/stageload.db", SQLite::OPEN_READWRITE);
  vandal.setBusyTimeout(5000);
  vandal.exec(
      "CREATE TRIGGER full BEFORE UPDATE ON jobs BEGIN SELECT RAISE(ABORT, 'disk is full'); END");
  host_.SetLevel(90);
  core::JobRecord waits = life.Get(id)->record;  // who watches is told after its row is written
  for (int i = 0; i < 400 && waits.reason_text.empty(); ++i) {
    absl::SleepFor(absl::Milliseconds(10));
    waits = life.Get(id)->record;
  }
  EXPECT_EQ(waits.state, JobState::kRunning);
  EXPECT_THAT(waits.reason_text, AllOf(HasSubstr("not started yet: "), HasSubstr("disk is full")));
  vandal.exec("DROP TRIGGER full");
  const core::JobRecord end = life.WaitForEnd(id)->record;
  EXPECT_EQ(end.state, JobState::kCompleted);
  EXPECT_EQ(end.reason_text, "");
}

TEST_F(EngineTest, EndThatCannotBeWrittenIsToldTheSameByAllAndWrittenLater) {
  Life life(folder_, host_);
  const std::string go = folder_ + "/go";
  const auto job =
      life.Submit({"sh", "-c", "while [ ! -e " + go + " ]; do sleep 0.02; done; exit 7"});
  ASSERT_TRUE(life.WaitFor(job->record.id, JobState::kRunning).ok());
  SQLite::Database vandal(folder_ + "/stageload.db", SQLite::OPEN_READWRITE);
  vandal.setBusyTimeout(5000);
  vandal.exec(
      "CREATE TRIGGER full BEFORE UPDATE ON jobs BEGIN SELECT RAISE(ABORT, 'disk is full'); END");
  std::ofstream(go).close();
  EXPECT_EQ(life.WaitForEnd(job->record.id)->record.outcome.exit_code, 7);
  EXPECT_EQ(life.Get(job->record.id)->record.state, JobState::kFailed);
  const auto page = life.List();
  ASSERT_TRUE(page.ok());
  ASSERT_EQ(page->jobs.size(), 1u);
  EXPECT_EQ(page->jobs[0].record.state, JobState::kFailed);
  // That it fails is not written either.
  Promised<absl::StatusOr<std::vector<store::EventRow>>> events;
  store::EventQuery query;
  query.kinds = {"store_failed"};
  life.engine().ListEvents(query, [&](auto rows) { events.Set(std::move(rows)); });
  const auto told = events.Get();
  ASSERT_TRUE(told.ok()) << told.status();
  ASSERT_EQ(told->size(), 1u);
  EXPECT_THAT(told->front().text, HasSubstr("disk is full"));
  vandal.exec("DROP TRIGGER full");
  SQLite::Statement state(vandal, "SELECT state FROM jobs");
  EXPECT_TRUE(Eventually([&] {
    state.reset();
    return state.executeStep() &&
           state.getColumn(0).getInt() == static_cast<int>(JobState::kFailed);
  }));
}

TEST_F(EngineTest, WaitingJobOutlivesTheDaemonAndRunsOnce) {
  host_.SetLevel(20);
  const std::string proof = folder_ + "/runs";
  JobId id{};
  {
    Life life(folder_, host_);
    const auto job = life.Submit({"sh", "-c", "echo ran >> " + proof});
    ASSERT_TRUE(job.ok());
    id = job->record.id;
  }
  host_.SetLevel(90);
  Life life(folder_, host_);
  EXPECT_EQ(life.WaitForEnd(id)->record.state, JobState::kCompleted);
  std::ifstream runs(proof);
  std::string line, rest;
  EXPECT_TRUE(std::getline(runs, line));
  EXPECT_FALSE(std::getline(runs, rest));
}

TEST_F(EngineTest, RunningJobIsFoundAgainWithItsReservation) {
  JobId id{};
  core::Policy policy;
  policy.memory = GiB(20);
  const std::string go = folder_ + "/go";
  {
    Life life(folder_, host_);
    const auto job =
        life.Submit({"sh", "-c", "while [ ! -e " + go + " ]; do sleep 0.05; done; exit 3"}, policy);
    id = job->record.id;
    ASSERT_TRUE(life.WaitFor(id, JobState::kRunning).ok());
  }
  Life life(folder_, host_);
  EXPECT_EQ(life.Get(id)->record.state, JobState::kRunning);
  const auto second = life.Submit({"true"}, policy);
  EXPECT_EQ(second->record.state, JobState::kPending) << "its 20 GiB are still spoken for";
  std::ofstream(go) << "go";
  const auto end = life.WaitForEnd(id);
  EXPECT_EQ(end->record.state, JobState::kFailed);
  EXPECT_EQ(end->record.outcome.exit_code, 3);
  EXPECT_EQ(life.WaitForEnd(second->record.id)->record.state, JobState::kCompleted);
}

TEST_F(EngineTest, JobWhoseShimHasTheLockAndNoNameInItYetIsNeitherLostNorRunTwice) {
  {
    const auto store = store::Store::Open(folder_ + "/stageload.db");
    ASSERT_TRUE(store.ok()) << store.status();
    store::NewJob job;
    job.record.id = core::JobId{1};
    job.record.state = core::JobState::kRunning;
    job.spec.emplace();
    job.spec->argv = {"sh", "-c", "exit 3"};
    job.spec->working_directory = "/";
    job.spec->environment = {"PATH=/usr/bin:/bin"};
    store::Batch batch;
    batch.added.push_back(job);
    ASSERT_TRUE((*store)->Commit(batch).ok());
  }
  // As a shim leaves it that the daemon before has just spawned.
  std::filesystem::create_directories(folder_ + "/jobs/1");
  const int lock = open((folder_ + "/jobs/1/job.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(flock(lock, LOCK_EX | LOCK_NB), 0);
  Life life(folder_, host_);
  const auto now = life.Get(core::JobId{1});
  ASSERT_TRUE(now.ok()) << now.status();
  EXPECT_EQ(now->record.state, core::JobState::kRunning) << now->record.reason_text;
  close(lock);
  const auto end = life.WaitForEnd(core::JobId{1});
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->record.state, core::JobState::kFailed) << end->record.reason_text;
  EXPECT_EQ(end->record.outcome.exit_code, 3);
}

TEST_F(EngineTest, JobThatEndedWhileNoDaemonWasThereHasItsCode) {
  JobId id{};
  const std::string go = folder_ + "/go";
  {
    Life life(folder_, host_);
    const auto job =
        life.Submit({"sh", "-c", "while [ ! -e " + go + " ]; do sleep 0.05; done; exit 7"});
    id = job->record.id;
    ASSERT_TRUE(life.WaitFor(id, JobState::kRunning).ok());
  }
  std::ofstream(go) << "go";
  const jobs::Jobs jobs(folder_ + "/jobs", STAGELOAD_SHIM);
  ASSERT_TRUE(Eventually([&] { return jobs.Inspect(id)->state == jobs::Found::State::kEnded; }));
  Life life(folder_, host_);
  const auto end = life.Get(id);
  EXPECT_EQ(end->record.state, JobState::kFailed);
  EXPECT_EQ(end->record.outcome.exit_code, 7);
}

TEST_F(EngineTest, GuardedCommandIsWatchedAndItsParentSaysHowItEnded) {
  Life life(folder_, host_);
  const pid_t pid = Spawn({"sleep", "600"});
  const auto job = life.Guard(pid);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->record.root->pid, pid);
  ASSERT_TRUE(life.WaitFor(job->record.id, JobState::kRunning).ok());
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  ASSERT_TRUE(life.ReportExit(job->record.id, {{}, SIGKILL, {}}).ok());
  const auto end = life.WaitForEnd(job->record.id);
  EXPECT_EQ(end->record.state, JobState::kFailed);
  EXPECT_EQ(end->record.outcome.signal, SIGKILL);
}

TEST_F(EngineTest, GuardThatDiesLeavesItsCommandUnderWatchAndItsEndIsUnknown) {
  Life life(folder_, host_);
  const pid_t pid = Spawn({"sleep", "600"});
  core::Policy policy;
  policy.swap_budget = MiB(64);
  const auto job = life.Guard(pid, policy);
  ASSERT_TRUE(life.WaitFor(job->record.id, JobState::kRunning).ok());
  life.engine().WithdrawGuard(job->record.id);
  EXPECT_EQ(life.Get(job->record.id)->record.state, JobState::kRunning);
  kill(pid, SIGKILL);
  const auto end = life.WaitForEnd(job->record.id);
  EXPECT_EQ(end->record.state, JobState::kUnknown);
  waitpid(pid, nullptr, 0);
}

TEST_F(EngineTest, WaitingGuardIsTakenBackWhenItsCallerOrItsCommandGoes) {
  host_.SetLevel(20);
  Life life(folder_, host_);
  const pid_t pid = Spawn({"sleep", "600"});
  const auto job = life.Guard(pid);
  EXPECT_EQ(job->record.state, JobState::kPending);
  life.engine().WithdrawGuard(job->record.id);
  EXPECT_EQ(life.WaitForEnd(job->record.id)->record.reason, core::Reason::kClientGone);

  const auto second = life.Guard(pid);
  EXPECT_EQ(second->record.state, JobState::kPending);
  kill(pid, SIGKILL);
  EXPECT_EQ(life.WaitForEnd(second->record.id)->record.reason, core::Reason::kClientGone);
  waitpid(pid, nullptr, 0);
}

TEST_F(EngineTest, GuardThatIsAskedForAgainIsTheSameJobUntilItsLastCallerGoes) {
  host_.SetLevel(20);
  Life life(folder_, host_);
  const pid_t pid = Spawn({"sleep", "600"});
  const auto job = life.Guard(pid);
  ASSERT_TRUE(job.ok()) << job.status();
  const JobId id = job->record.id;
  const auto again = life.Guard(pid);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->record.id, id);
  life.engine().WithdrawGuard(id);
  EXPECT_EQ(life.Get(id)->record.state, JobState::kPending);
  life.engine().WithdrawGuard(id);
  EXPECT_EQ(life.WaitForEnd(id)->record.reason, core::Reason::kClientGone);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST_F(EngineTest, WaitingGuardKeepsItsPlaceUnderTheNextDaemonAndRunsThere) {
  host_.SetLevel(20);
  const pid_t pid = Spawn({"sleep", "600"});
  JobId id{};
  {
    Life life(folder_, host_);
    id = life.Guard(pid)->record.id;
  }
  Life life(folder_, host_);
  EXPECT_EQ(life.Get(id)->record.state, JobState::kPending);
  ASSERT_TRUE(life.ResumeGuard(id, pid).ok());
  host_.SetLevel(90);
  EXPECT_EQ(life.WaitFor(id, JobState::kRunning)->record.state, JobState::kRunning);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  ASSERT_TRUE(life.ReportExit(id, {{}, SIGKILL, {}}).ok());
  EXPECT_EQ(life.WaitForEnd(id)->record.state, JobState::kFailed);
}

TEST_F(EngineTest, WaitingGuardThatDoesNotComeBackIsTakenBack) {
  host_.SetLevel(20);
  const pid_t pid = Spawn({"sleep", "600"});
  JobId id{};
  {
    Life life(folder_, host_);
    id = life.Guard(pid)->record.id;
  }
  Life life(folder_, host_);
  EXPECT_EQ(life.WaitForEnd(id)->record.reason, core::Reason::kClientGone);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST_F(EngineTest, HowAGuardedCommandEndedBetweenTwoDaemonsIsTakenFromItsGuard) {
  const pid_t pid = Spawn({"sleep", "600"});
  JobId id{};
  {
    Life life(folder_, host_);
    id = life.Guard(pid)->record.id;
    ASSERT_TRUE(life.WaitFor(id, JobState::kRunning).ok());
  }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  Life life(folder_, host_);
  EXPECT_EQ(life.Get(id)->record.state, JobState::kRunning);
  ASSERT_TRUE(life.ResumeGuard(id, pid).ok());
  ASSERT_TRUE(life.ReportExit(id, {7, {}, {}}).ok());
  EXPECT_EQ(life.Get(id)->record.state, JobState::kFailed);
  EXPECT_EQ(life.Get(id)->record.outcome.exit_code, 7);
  // Asked for again it is told its end.
  EXPECT_EQ(life.ResumeGuard(id, pid)->record.state, JobState::kFailed);
}

TEST_F(EngineTest, GuardThatIsNotTheJobsMayNotGoOnWithIt) {
  Life life(folder_, host_);
  const pid_t pid = Spawn({"sleep", "600"});
  const JobId id = life.Guard(pid)->record.id;
  const JobId job = life.Submit({"sleep", "600"})->record.id;
  EXPECT_TRUE(absl::IsInvalidArgument(life.ResumeGuard(id, getpid()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(life.ResumeGuard(job, pid).status()));
  EXPECT_TRUE(absl::IsNotFound(life.ResumeGuard(JobId{4711}, pid).status()));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  ASSERT_TRUE(life.Cancel(job).ok());
  ASSERT_TRUE(life.WaitForEnd(job).ok());
}

TEST_F(EngineTest, GuardOfNoProcessIsRefused) {
  Life life(folder_, host_);
  const pid_t pid = Spawn({"true"});
  waitpid(pid, nullptr, 0);
  const auto job = life.Guard(pid);
  EXPECT_TRUE(absl::IsInvalidArgument(job.status())) << job.status();
}

TEST_F(EngineTest, StopTellsEveryWatcherAtOnce) {
  host_.SetLevel(20);
  auto life = std::make_unique<Life>(folder_, host_);
  const auto job = life->Submit({"true"});
  Promised<absl::Status> told;
  Promised<bool> first;
  life->engine().Watch(life->engine().NewWatchToken(), job->record.id,
                       [&](auto view) { view.ok() ? first.Set(true) : told.Set(view.status()); });
  first.Get();
  life.reset();
  EXPECT_EQ(ReasonOf(told.Get()), kShuttingDown);
}

}  // namespace
}  // namespace stageload::engine
