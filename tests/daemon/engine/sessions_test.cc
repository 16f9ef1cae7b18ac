// Programs that register themselves, on real processes: what they are told, their leases, and what
// becomes of both when one of the two sides goes.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <deque>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error_reason.h"
#include "daemon/core/sampling.h"
#include "tests/daemon/engine/engine_fixture.h"

namespace stageload::engine {
namespace {

using core::JobId;
using core::JobState;
using core::LeaseId;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// What one stream is told, in order.
template <typename Event>
class Told {
 public:
  void Add(absl::StatusOr<Event> event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    events_.push_back(std::make_shared<const absl::StatusOr<Event>>(std::move(event)));
    added_.notify_all();
  }
  // The first that is looked for; those before it are left out. They may come for ever, so the time
  // is that of the whole wait.
  template <typename IsIt>
  absl::StatusOr<Event> Until(IsIt is_it) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    std::unique_lock<std::mutex> lock(mutex_);
    while (added_.wait_until(lock, deadline, [this] { return !events_.empty(); })) {
      const auto event = std::move(events_.front());
      events_.pop_front();
      if (is_it(*event)) return *event;
    }
    return absl::DeadlineExceededError("it was not told within 20 s");
  }
  // The first that is a `T`.
  template <typename T>
  T Next() {
    const absl::StatusOr<Event> event = Until([](const absl::StatusOr<Event>& told) {
      return !told.ok() || std::holds_alternative<T>(*told);
    });
    if (!event.ok()) {
      ADD_FAILURE() << event.status();
      abort();
    }
    return std::get<T>(*event);
  }
  absl::Status NextError() {
    return Until([](const absl::StatusOr<Event>& told) { return !told.ok(); }).status();
  }
  bool empty() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return events_.empty();
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<std::shared_ptr<const absl::StatusOr<Event>>> events_;
};

class SessionsTest : public EngineTest {
 protected:
  // The stream of a registration.
  struct Session {
    Engine::WatchToken token = 0;
    std::shared_ptr<Told<SessionEvent>> told = std::make_shared<Told<SessionEvent>>();
    JobId client{};
    Caller caller;
  };
  struct Lease {
    Engine::WatchToken token = 0;
    std::shared_ptr<Told<LeaseEvent>> told = std::make_shared<Told<LeaseEvent>>();
  };

  ~SessionsTest() override {
    for (const pid_t pid : children_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

  pid_t Child(std::vector<std::string> argv = {"sleep", "1000"}) {
    children_.push_back(Spawn(std::move(argv)));
    return children_.back();
  }
  void Kill(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    std::erase(children_, pid);
  }

  Session Registering(Life& life, pid_t pid, core::Policy policy = {}, bool enforce = false) {
    return Asking(life, {"pipeline", policy, pid, enforce, false, {}});
  }
  // Under terms that are not those of the client that it was joined to.
  Session ComingBack(Life& life, pid_t pid) {
    core::Policy policy;
    policy.memory = MiB(1);
    return Asking(life, {"inner", policy, pid, /*enforce=*/true, /*was_joined=*/true, {}});
  }
  // Over a connection of its own.
  static Session Asking(Life& life, RegisterRequest request) {
    Session session;
    session.token = life.engine().NewWatchToken();
    session.caller = {session.token, request.pid};
    request.caller = session.caller;
    life.engine().Register(session.token, std::move(request),
                           [told = session.told](const auto& event) { told->Add(event); });
    return session;
  }
  // "sh" and a process that it has started.
  std::pair<pid_t, pid_t> ProgramAndChild() {
    const pid_t program = Child({"sh", "-c", "sleep 1000 & wait"});
    for (int i = 0; i < 400; ++i) {
      const std::vector<host::Process> processes = host_.Processes().value();
      for (const host::Process& process : processes) {
        if (process.parent == program) return {program, process.identity.pid};
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
    ADD_FAILURE() << "sh has started nothing";
    abort();
  }
  Session Register(Life& life, pid_t pid, core::Policy policy = {}, bool enforce = false) {
    Session session = Registering(life, pid, policy, enforce);
    session.client = session.told->Next<Registered>().client;
    return session;
  }
  Lease Acquire(Life& life, const Session& session, Bytes memory,
                const std::string& request_id = "",
                std::optional<absl::Duration> timeout = std::nullopt) {
    Lease lease;
    lease.token = life.engine().NewWatchToken();
    AcquireRequest request;
    request.client = session.client;
    request.stage = "transformer";
    request.memory = memory;
    request.start_timeout = timeout;
    request.request_id = request_id;
    request.caller = session.caller;
    life.engine().Acquire(lease.token, request,
                          [told = lease.told](const auto& event) { told->Add(event); });
    return lease;
  }
  static absl::Status Release(Life& life, const ReleaseRequest& request) {
    Promised<absl::Status> answer;
    life.engine().Release(request, [&](absl::Status status) { answer.Set(std::move(status)); });
    return answer.Get();
  }
  static absl::StatusOr<Reported> Report(Life& life, const ReportRequest& request) {
    Promised<absl::StatusOr<Reported>> answer;
    life.engine().Report(request, [&](auto reported) { answer.Set(std::move(reported)); });
    return answer.Get();
  }

  std::vector<pid_t> children_;
};

TEST_F(SessionsTest, ARegisteredProgramIsAClientUntilItsStreamEnds) {
  Life life(folder_, host_);
  const Session session = Register(life, Child());
  const auto job = life.Get(session.client);
  EXPECT_EQ(job->record.state, JobState::kRunning);
  EXPECT_EQ(job->record.kind, core::JobKind::kSession);
  EXPECT_EQ(job->record.name, "pipeline");
  life.engine().Unregister(session.token);
  EXPECT_EQ(life.WaitForEnd(session.client)->record.state, JobState::kCompleted);
}

TEST_F(SessionsTest, ARegistrationThatCannotBeWrittenIsRefusedAndNeverTold) {
  Life life(folder_, host_);
  SQLite::Database vandal(folder_ + "/stageload.db", SQLite::OPEN_READWRITE);
  vandal.setBusyTimeout(5000);
  vandal.exec("ALTER TABLE jobs RENAME TO jobs_away");
  const Session refused = Registering(life, Child());
  const absl::Status why = refused.told->NextError();
  EXPECT_EQ(ReasonOf(why), kStoreFailed) << why;
  vandal.exec("ALTER TABLE jobs_away RENAME TO jobs");
  const Session next = Register(life, Child());
  Promised<absl::StatusOr<std::vector<store::EventRow>>> events;
  life.engine().ListEvents({}, [&](auto rows) { events.Set(std::move(rows)); });
  const auto told = events.Get();
  ASSERT_TRUE(told.ok()) << told.status();
  std::vector<std::string> kinds;
  for (const store::EventRow& event : *told) {
    kinds.push_back(event.kind);
    EXPECT_EQ(event.job.value_or(next.client), next.client) << event.kind << " of nobody";
  }
  EXPECT_THAT(kinds, ::testing::UnorderedElementsAre("store_failed", "store_works", "registered"));
}

TEST_F(SessionsTest, AProgramWithoutANameIsCalledAsItsCommand) {
  Life life(folder_, host_);
  Session session;
  session.token = life.engine().NewWatchToken();
  const pid_t pid = Child({"/bin/sleep", "1000"});
  // Its parent goes on a moment before the kernel has its arguments.
  const core::ProcessIdentity identity = host_.Find(pid)->identity;
  for (int i = 0; i < 400 && host_.CommandLine(identity)->empty(); ++i) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  life.engine().Register(session.token, {"", {}, pid, false, false, {1, pid}},
                         [told = session.told](const auto& event) { told->Add(event); });
  EXPECT_EQ(life.Get(session.told->Next<Registered>().client)->record.name, "sleep");
}

TEST_F(SessionsTest, AProgramThatEndsLosesItsRegistrationThoughItsStreamLivesOn) {
  Life life(folder_, host_);
  const pid_t pid = Child();
  const Session session = Register(life, pid);
  const Lease lease = Acquire(life, session, GiB(1));
  lease.told->Next<LeaseGranted>();
  const absl::Time killed = absl::Now();
  Kill(pid);
  session.told->Next<ClientEnded>();
  EXPECT_LT(absl::Now() - killed, absl::Seconds(1));
}

TEST_F(SessionsTest, TheNextLeaseGoesOnWhenItsHolderIsGone) {
  core::Config config;
  config.memory_pool = GiB(10);
  Life life(folder_, host_, config);
  const pid_t holder = Child();
  const Session first = Register(life, holder);
  const Session second = Register(life, Child());
  Acquire(life, first, GiB(8)).told->Next<LeaseGranted>();
  const Lease waits = Acquire(life, second, GiB(8));
  const LeaseWaiting waiting = waits.told->Next<LeaseWaiting>();
  EXPECT_EQ(waiting.position, 1);
  ASSERT_FALSE(waiting.blockers.empty());
  EXPECT_EQ(waiting.blockers[0].kind, core::BlockerKind::kMemory);
  const absl::Time killed = absl::Now();
  Kill(holder);
  const LeaseGranted granted = waits.told->Next<LeaseGranted>();
  EXPECT_LT(absl::Now() - killed, absl::Seconds(1));
  EXPECT_FALSE(granted.forced);
}

// The ring's bound on memory counts on it.
TEST_F(SessionsTest, FramesComeNoFasterThanTheFastestPaceHoweverManyLeasesComeAndGo) {
  Life life(folder_, host_);
  const Session session = Register(life, Child());
  const absl::Time end = absl::Now() + absl::Seconds(1);
  for (int i = 0; absl::Now() < end; ++i) {
    const Lease lease = Acquire(life, session, MiB(1), absl::StrCat("request ", i));
    const LeaseGranted granted = lease.told->Next<LeaseGranted>();
    ASSERT_TRUE(Release(life, {session.client, granted.id, "", session.caller}).ok());
  }
  const std::int64_t newest = life.hub().Newest()->sequence;
  EXPECT_GT(newest, 5);
  absl::Duration before = life.hub().At(1)->awake;
  for (std::int64_t sequence = 2; sequence <= newest; ++sequence) {
    const absl::Duration awake = life.hub().At(sequence)->awake;
    EXPECT_GE(awake - before, core::kFastInterval) << "frame " << sequence;
    before = awake;
  }
}

TEST_F(SessionsTest, ALeaseThatWaitsIsTakenBackWithItsStream) {
  core::Config config;
  config.memory_pool = GiB(10);
  Life life(folder_, host_, config);
  const Session first = Register(life, Child());
  const Session second = Register(life, Child());
  const Lease held = Acquire(life, first, GiB(8), "held");
  held.told->Next<LeaseGranted>();
  const Lease waits = Acquire(life, second, GiB(8));
  waits.told->Next<LeaseWaiting>();
  life.engine().Abandon(waits.token);
  const Lease third = Acquire(life, second, GiB(9));
  EXPECT_EQ(third.told->Next<LeaseWaiting>().position, 1);
  EXPECT_TRUE(Release(life, {first.client, std::nullopt, "held", first.caller}).ok());
  third.told->Next<LeaseGranted>();
}

TEST_F(SessionsTest, ALeaseIsReleasedByItsIdOrByItsRequestAndOnlyOnce) {
  Life life(folder_, host_);
  const Session session = Register(life, Child());
  const LeaseId lease = Acquire(life, session, GiB(1)).told->Next<LeaseGranted>().id;
  EXPECT_TRUE(Release(life, {session.client, lease, "", session.caller}).ok());
  const absl::Status again = Release(life, {session.client, lease, "", session.caller});
  EXPECT_TRUE(absl::IsNotFound(again)) << again;
  EXPECT_EQ(ReasonOf(again), kLeaseNotFound);
  Acquire(life, session, GiB(1), "mine").told->Next<LeaseGranted>();
  EXPECT_TRUE(Release(life, {session.client, std::nullopt, "mine", session.caller}).ok());
  EXPECT_FALSE(Release(life, {session.client, std::nullopt, "mine", session.caller}).ok());
}

TEST_F(SessionsTest, AReleaseEndsARequestThatStillWaits) {
  core::Config config;
  config.memory_pool = GiB(10);
  Life life(folder_, host_, config);
  const Session first = Register(life, Child());
  const Session second = Register(life, Child());
  Acquire(life, first, GiB(8)).told->Next<LeaseGranted>();
  const Lease waits = Acquire(life, second, GiB(8), "mine");
  waits.told->Next<LeaseWaiting>();
  EXPECT_TRUE(Release(life, {second.client, std::nullopt, "mine", second.caller}).ok());
  EXPECT_TRUE(absl::IsCancelled(waits.told->NextError()));
}

TEST_F(SessionsTest, ALeaseWithoutRoomInTimeIsDeniedWithTheFigures) {
  core::Config config;
  config.memory_pool = GiB(10);
  Life life(folder_, host_, config);
  const Session first = Register(life, Child());
  const Session second = Register(life, Child());
  Acquire(life, first, GiB(8)).told->Next<LeaseGranted>();
  const Lease waits = Acquire(life, second, GiB(8), "", absl::Milliseconds(300));
  const absl::Status denied = waits.told->NextError();
  EXPECT_EQ(ReasonOf(denied), kAdmissionTimeout);
  EXPECT_THAT(std::string(denied.message()), HasSubstr("no room within 0.3s: MEMORY: needs 8 GiB"));
}

TEST_F(SessionsTest, WhoDoesNotWaitIsToldWhatBlocksItAndGetsNothing) {
  core::Config config;
  config.memory_pool = GiB(10);
  Life life(folder_, host_, config);
  const Session only = Register(life, Child());
  Acquire(life, only, GiB(8)).told->Next<LeaseGranted>();
  const Lease now = Acquire(life, only, GiB(8), "", absl::ZeroDuration());
  const LeaseWaiting blocked = now.told->Next<LeaseWaiting>();
  ASSERT_THAT(blocked.blockers, SizeIs(1));
  EXPECT_EQ(blocked.blockers[0].kind, core::BlockerKind::kMemory);
  EXPECT_EQ(ReasonOf(now.told->NextError()), kAdmissionTimeout);
}

TEST_F(SessionsTest, AnotherProcessGetsNoLeaseOfAClientThatIsNotItsOwn) {
  Life life(folder_, host_);
  Session session = Register(life, Child());
  session.caller = {77, Child()};
  const absl::Status refused = Acquire(life, session, GiB(1)).told->NextError();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  session.client = JobId{4711};
  const absl::Status unknown = Acquire(life, session, GiB(1)).told->NextError();
  EXPECT_EQ(ReasonOf(unknown), kClientNotFound);
}

TEST_F(SessionsTest, AChildOfARegisteredProgramGetsLeasesForIt) {
  Life life(folder_, host_);
  const Session session = Register(life, getpid());
  Session child = session;
  child.caller = {77, Child()};
  Acquire(life, child, GiB(1)).told->Next<LeaseGranted>();
}

TEST_F(SessionsTest, AProcessInTheTreeOfAJobJoinsIt) {
  Life life(folder_, host_);
  core::Policy policy;
  policy.memory = GiB(4);
  const auto job = life.Submit({"sleep", "1000"}, policy);
  ASSERT_TRUE(life.WaitFor(job->record.id, JobState::kRunning).ok());
  std::optional<std::int32_t> pid;
  for (int i = 0; i < 400 && !pid; ++i) {
    pid = life.Get(job->record.id)->pid;
    if (!pid) absl::SleepFor(absl::Milliseconds(10));
  }
  ASSERT_TRUE(pid);
  Session session = Registering(life, *pid);
  const Registered registered = session.told->Next<Registered>();
  EXPECT_TRUE(registered.joined);
  EXPECT_EQ(registered.client, job->record.id);
  EXPECT_EQ(registered.policy.memory, GiB(4));
  session.client = registered.client;
  Acquire(life, session, GiB(3)).told->Next<LeaseGranted>();
  // What stops the job stops the process, and its registration ends with it.
  EXPECT_TRUE(life.Cancel(job->record.id).ok());
  EXPECT_EQ(session.told->Next<core::StopRequested>().reason, core::Reason::kCancelled);
  session.told->Next<ClientEnded>();
  EXPECT_EQ(life.WaitForEnd(job->record.id)->record.state, JobState::kCancelled);
}

TEST_F(SessionsTest, ALeaseOfAProgramThatJoinedEndsWithItsStreamAndTheJobGoesOn) {
  core::Config config;
  config.memory_pool = GiB(10);
  Life life(folder_, host_, config);
  const Session outer = Register(life, getpid());
  const pid_t pid = Child();
  Session inner = Registering(life, pid);
  inner.client = inner.told->Next<Registered>().client;
  EXPECT_EQ(inner.client, outer.client);
  Acquire(life, inner, GiB(8)).told->Next<LeaseGranted>();
  life.engine().Unregister(inner.token);
  Acquire(life, outer, GiB(8)).told->Next<LeaseGranted>();
  EXPECT_EQ(life.Get(outer.client)->record.state, JobState::kRunning);
}

TEST_F(SessionsTest, AClientLivesAsLongAsOneOfItsRegistrations) {
  Life life(folder_, host_);
  const pid_t pid = Child();
  const Session first = Register(life, pid);
  Session second = Registering(life, pid);
  const Registered registered = second.told->Next<Registered>();
  EXPECT_TRUE(registered.joined);
  EXPECT_EQ(registered.client, first.client);
  second.client = registered.client;
  Acquire(life, second, GiB(1)).told->Next<LeaseGranted>();
  life.engine().Unregister(first.token);
  Acquire(life, second, GiB(1)).told->Next<LeaseGranted>();
  EXPECT_EQ(life.Get(first.client)->record.state, JobState::kRunning);
  EXPECT_TRUE(second.told->empty());
  life.engine().Unregister(second.token);
  EXPECT_EQ(life.WaitForEnd(first.client)->record.state, JobState::kCompleted);
}

TEST_F(SessionsTest, AWorkerThatJoinedKeepsItsLeaseWhenTheProgramThatStartedItEnds) {
  core::Config config;
  config.memory_pool = GiB(10);
  Life life(folder_, host_, config);
  const auto [launcher, worker] = ProgramAndChild();
  const Session first = Register(life, launcher);
  Session second = Registering(life, worker);
  EXPECT_TRUE(second.told->Next<Registered>().joined);
  second.client = first.client;
  Acquire(life, first, GiB(4)).told->Next<LeaseGranted>();
  Acquire(life, second, GiB(6)).told->Next<LeaseGranted>();
  Kill(launcher);
  first.told->Next<ClientEnded>();
  // What the launcher held is free, what the worker holds is not.
  Acquire(life, second, GiB(4)).told->Next<LeaseGranted>();
  EXPECT_EQ(life.Get(first.client)->pid, worker);
  EXPECT_EQ(life.Get(first.client)->record.state, JobState::kRunning);
  EXPECT_TRUE(second.told->empty());
  kill(worker, SIGKILL);
  second.told->Next<ClientEnded>();
  EXPECT_EQ(life.WaitForEnd(first.client)->record.state, JobState::kCompleted);
}

TEST_F(SessionsTest, ARequestThatIsAskedAgainGetsTheLeaseThatItHas) {
  core::Config config;
  config.memory_pool = GiB(10);
  Life life(folder_, host_, config);
  const Session session = Register(life, Child());
  const Session other = Register(life, Child());
  const LeaseId lease = Acquire(life, session, GiB(8), "mine").told->Next<LeaseGranted>().id;
  EXPECT_EQ(Acquire(life, session, GiB(8), "mine").told->Next<LeaseGranted>().id, lease);
  const Lease waits = Acquire(life, other, GiB(8), "theirs");
  waits.told->Next<LeaseWaiting>();
  const absl::Status again = Acquire(life, other, GiB(8), "theirs").told->NextError();
  EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
  EXPECT_TRUE(Release(life, {session.client, std::nullopt, "mine", session.caller}).ok());
  waits.told->Next<LeaseGranted>();
}

TEST_F(SessionsTest, ASessionThatDoesNotWantSignalsCannotBeSuspended) {
  Life life(folder_, host_);
  const Session session = Register(life, Child());
  const auto refused = life.Control(session.client, Engine::Request::kSuspend);
  EXPECT_EQ(ReasonOf(refused.status()), kWrongState);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("did not allow signals"));
}

TEST_F(SessionsTest, AnotherThreadOfTheProgramIsNotForcedInBesideTheFirst) {
  core::Config config;
  config.memory_pool = GiB(10);
  Life life(folder_, host_, config);
  const Session session = Register(life, Child());
  const auto acquire = [&](std::uint64_t worker) {
    Lease lease;
    lease.token = life.engine().NewWatchToken();
    AcquireRequest request;
    request.client = session.client;
    request.stage = "work";
    request.memory = GiB(8);
    request.worker = worker;
    request.caller = session.caller;
    life.engine().Acquire(lease.token, request,
                          [told = lease.told](const auto& event) { told->Add(event); });
    return lease;
  };
  const LeaseId first = acquire(1).told->Next<LeaseGranted>().id;
  const Lease second = acquire(2);
  second.told->Next<LeaseWaiting>();
  EXPECT_TRUE(Release(life, {session.client, first, "", session.caller}).ok());
  EXPECT_FALSE(second.told->Next<LeaseGranted>().forced);
  // The thread that holds it waits for more: nobody else could ever go on.
  EXPECT_TRUE(acquire(2).told->Next<LeaseGranted>().forced);
}

TEST_F(SessionsTest, ASessionThatMayBeSignalledIsAskedFirstAndSignalledAfterItsGraceTime) {
  Life life(folder_, host_);
  core::Policy policy;
  policy.swap_budget = GiB(1);
  policy.grace = absl::Milliseconds(300);
  const pid_t pid = Child();
  const Session session = Register(life, pid, policy, /*enforce=*/true);
  absl::SleepFor(absl::Milliseconds(700));  // a sample from which its swap is counted
  host_.SetSwap(MiB(900));
  EXPECT_EQ(session.told->Next<core::Warned>().swap_budget, GiB(1));
  host_.SetSwap(GiB(2));
  EXPECT_EQ(session.told->Next<core::StopRequested>().reason, core::Reason::kSwapBudget);
  session.told->Next<ClientEnded>();
  EXPECT_FALSE(host_.Find(pid).ok()) << "the exit watcher has reaped it";
  std::erase(children_, pid);
  EXPECT_EQ(life.WaitForEnd(session.client)->record.state, JobState::kOutOfMemory);
}

TEST_F(SessionsTest, ASessionThatDoesNotWantSignalsIsOnlyAsked) {
  Life life(folder_, host_);
  core::Policy policy;
  policy.grace = absl::Milliseconds(100);
  const pid_t pid = Child();
  const Session session = Register(life, pid, policy);
  EXPECT_TRUE(life.Cancel(session.client).ok());
  session.told->Next<core::StopRequested>();
  absl::SleepFor(absl::Milliseconds(500));
  EXPECT_EQ(kill(pid, 0), 0);
  EXPECT_EQ(life.Get(session.client)->record.state, JobState::kStopping);
  life.engine().Unregister(session.token);
  EXPECT_EQ(life.WaitForEnd(session.client)->record.state, JobState::kCancelled);
}

TEST_F(SessionsTest, AStopThatIsUnderWayGoesOnWithTheNextDaemon) {
  core::Policy policy;
  policy.grace = absl::Milliseconds(300);
  const pid_t stopped = Child();
  const pid_t other = Child();
  {
    Life life(folder_, host_);
    const Session session = Register(life, stopped, policy, /*enforce=*/true);
    Register(life, other, policy, /*enforce=*/true);
    EXPECT_TRUE(life.Cancel(session.client).ok());
    session.told->Next<core::StopRequested>();
  }
  Life life(folder_, host_);
  const Session other_again = Register(life, other, policy, /*enforce=*/true);
  const Session again = Register(life, stopped, policy, /*enforce=*/true);
  EXPECT_EQ(again.told->Next<core::StopRequested>().reason, core::Reason::kCancelled);
  again.told->Next<ClientEnded>();
  std::erase(children_, stopped);
  EXPECT_EQ(life.WaitForEnd(again.client)->record.state, JobState::kCancelled);
  EXPECT_EQ(life.Get(other_again.client)->record.state, JobState::kRunning);
}

TEST_F(SessionsTest, AfterARestartTheTermsOfAClientCountWhicheverOfItsRegistrationsComesFirst) {
  core::Policy policy;
  policy.memory = GiB(4);
  const pid_t pid = Child();
  {
    Life life(folder_, host_);
    Register(life, pid, policy);
    Registering(life, pid).told->Next<Registered>();
  }
  for (int restarts = 0; restarts < 2; ++restarts) {
    Life life(folder_, host_);
    const Session inner = ComingBack(life, pid);
    const Registered first = inner.told->Next<Registered>();
    EXPECT_FALSE(first.joined);
    EXPECT_EQ(first.policy.memory, GiB(4));
    const core::JobRecord record = life.Get(first.client)->record;
    EXPECT_EQ(record.name, "pipeline");
    EXPECT_FALSE(record.may_signal);
    const Session outer = Registering(life, pid, policy);
    const Registered second = outer.told->Next<Registered>();
    EXPECT_TRUE(second.joined);
    EXPECT_EQ(second.client, first.client);
  }
}

TEST_F(SessionsTest, AfterARestartAProcessThatJoinedBringsTheClientThatIsAroundIt) {
  core::Policy policy;
  policy.memory = GiB(4);
  policy.grace = absl::Milliseconds(100);
  const auto [program, child] = ProgramAndChild();
  {
    Life life(folder_, host_);
    Register(life, program, policy, /*enforce=*/true);
    EXPECT_TRUE((Registering(life, child).told->Next<Registered>().joined));
  }
  {
    Life life(folder_, host_);
    const Session inner = ComingBack(life, child);
    const Session outer = Registering(life, program, policy, /*enforce=*/true);  // at once
    const Registered first = inner.told->Next<Registered>();
    const Registered second = outer.told->Next<Registered>();
    EXPECT_EQ(first.client, second.client);
    EXPECT_EQ(first.policy.memory, GiB(4));
    EXPECT_EQ(life.Get(first.client)->pid, program);
    EXPECT_TRUE(life.Cancel(first.client).ok());
    inner.told->Next<core::StopRequested>();
  }
  // What was to stop stops, also when the child comes first.
  Life life(folder_, host_);
  const Session inner = ComingBack(life, child);
  const Registered first = inner.told->Next<Registered>();
  inner.told->Next<core::StopRequested>();
  inner.told->Next<ClientEnded>();
  std::erase(children_, program);
  EXPECT_EQ(life.WaitForEnd(first.client)->record.state, JobState::kCancelled);
}

TEST_F(SessionsTest, WhoWasJoinedToWhatIsNoMoreComesBackUnderItsOwnTerms) {
  const pid_t pid = Child();
  Life life(folder_, host_);
  const Registered registered = ComingBack(life, pid).told->Next<Registered>();
  EXPECT_FALSE(registered.joined);
  EXPECT_EQ(registered.policy.memory, MiB(1));
}

TEST_F(SessionsTest, ASuspendedSessionIsToldAndGoesOn) {
  Life life(folder_, host_);
  const Session session = Register(life, Child(), {}, /*enforce=*/true);
  EXPECT_TRUE(life.Control(session.client, Engine::Request::kSuspend).ok());
  EXPECT_EQ(session.told->Next<Suspended>().reason, core::Reason::kSuspendAsked);
  EXPECT_TRUE(life.Control(session.client, Engine::Request::kResume).ok());
  session.told->Next<Resumed>();
}

TEST_F(SessionsTest, EverybodyIsToldWhenTheDaemonLeaves) {
  auto life = std::make_unique<Life>(folder_, host_, [] {
    core::Config config;
    config.memory_pool = GiB(10);
    return config;
  }());
  const Session session = Register(*life, Child());
  Acquire(*life, session, GiB(8)).told->Next<LeaseGranted>();
  const Session other = Register(*life, Child());
  const Lease waits = Acquire(*life, other, GiB(8));
  waits.told->Next<LeaseWaiting>();
  life.reset();
  EXPECT_EQ(ReasonOf(session.told->NextError()), kShuttingDown);
  EXPECT_EQ(ReasonOf(waits.told->NextError()), kShuttingDown);
}

TEST_F(SessionsTest, ASessionOfTheDaemonBeforeHasEndedAndItsProgramRegistersAgain) {
  const pid_t pid = Child();
  JobId before{};
  {
    Life life(folder_, host_);
    before = Register(life, pid).client;
  }
  Life life(folder_, host_);
  EXPECT_EQ(life.Get(before)->record.state, JobState::kCompleted);
  EXPECT_NE(Register(life, pid).client, before);
}

// ---- Reports and recordings ----

TEST_F(SessionsTest, GaugesAndStagesAreTheClientsOfWhoeverIsInItsTree) {
  Life life(folder_, host_);
  const Session session = Register(life, getpid());
  ReportRequest report;
  report.gauges = {{"mps_driver_bytes", 5e9}};
  report.marks = {{.kind = "stage", .stage = "decode"}};
  report.caller = {77, Child()};
  const auto reported = Report(life, report);
  ASSERT_TRUE(reported.ok()) << reported.status();
  EXPECT_EQ(reported->client, session.client);
  report.client = session.client;
  report.caller = session.caller;
  EXPECT_TRUE(Report(life, report).ok());
}

TEST_F(SessionsTest, AReportWithTooManyGaugesIsRefusedAsAWhole) {
  Life life(folder_, host_);
  const Session session = Register(life, Child());
  ReportRequest report;
  report.client = session.client;
  report.caller = session.caller;
  const auto with = [&](int first, int last) {
    report.gauges.clear();
    for (int i = first; i <= last; ++i) report.gauges.push_back({absl::StrCat("g", i), 1.0 * i});
    return Report(life, report).status();
  };
  ASSERT_TRUE(with(1, 30).ok());
  const absl::Status refused = with(30, 33);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(FieldOf(refused), "gauges");
  EXPECT_EQ(refused.message(),
            "gauges: with \"g31\" and 2 more there would be 33, a client has at most 32");
  EXPECT_TRUE(with(40, 41).ok()) << "those that would have fitted were not taken";
  EXPECT_EQ(with(50, 50).message(),
            "gauges: with \"g50\" there would be 33, a client has at most 32");
  EXPECT_TRUE(with(1, 30).ok()) << "known ones are told anew";
}

TEST_F(SessionsTest, AReportThatNobodyHearsIsAnError) {
  Life life(folder_, host_);
  ReportRequest report;
  report.marks = {{.kind = "mark", .note = "loaded"}};
  report.caller = {77, getpid()};
  EXPECT_EQ(ReasonOf(Report(life, report).status()), kClientNotFound);
}

class Recording {
 public:
  Recording(Life& life, pid_t pid, absl::Duration interval)
      : life_(life), token_(life.engine().NewWatchToken()) {
    // It may be told once more after it was stopped, so what it is told is not its own.
    life.engine().Record(token_, {pid, interval},
                         [told = told_](const auto& update) { told->Add(update); });
  }
  ~Recording() { life_.engine().StopRecording(token_); }

  template <typename IsIt>
  absl::StatusOr<RecordingUpdate> Until(IsIt is_it) {
    return told_->Until(is_it);
  }
  absl::StatusOr<RecordingUpdate> NextReading() {
    return Until([](const auto& update) { return !update.ok() || update->reading; });
  }

 private:
  Life& life_;
  Engine::WatchToken token_;
  std::shared_ptr<Told<RecordingUpdate>> told_ = std::make_shared<Told<RecordingUpdate>>();
};

TEST_F(SessionsTest, ARecordingReadsAProcessAtItsPaceUntilItEnds) {
  Life life(folder_, host_);
  const pid_t pid = Child();
  Recording recording(life, pid, absl::Milliseconds(50));
  const auto first = recording.NextReading();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->reading->processes, 1);
  EXPECT_TRUE(first->reading->usage.footprint);
  EXPECT_EQ(first->reading->host.level, Percent{90});
  EXPECT_FALSE(first->reading->swap_budget) << "it is nobody's client";
  absl::Duration last = first->reading->time.awake;
  for (int i = 0; i < 5; ++i) last = recording.NextReading()->reading->time.awake;
  EXPECT_GE(last - first->reading->time.awake, absl::Milliseconds(200));
  Kill(pid);
  EXPECT_TRUE(
      recording.Until([](const auto& update) { return update.ok() && update->ended; }).ok());
}

TEST_F(SessionsTest, ARecordingHearsTheMarksOfItsProcessesAndTheStagesOfItsLeases) {
  Life life(folder_, host_);
  Recording recording(life, getpid(), absl::Milliseconds(500));
  ASSERT_TRUE(recording.NextReading().ok());
  ReportRequest report;
  report.marks = {{.kind = "load", .name = "weights", .nbytes = GiB(1), .seconds = 1.5}};
  report.caller = {77, Child()};
  const auto reported = Report(life, report);
  ASSERT_TRUE(reported.ok()) << reported.status();
  EXPECT_EQ(reported->recordings, 1);
  EXPECT_FALSE(reported->client);
  const auto hears = [](const std::string& kind) {
    return [kind](const absl::StatusOr<RecordingUpdate>& update) {
      return update.ok() && std::any_of(update->events.begin(), update->events.end(),
                                        [&](const auto& event) { return event.kind == kind; });
    };
  };
  const auto mark = recording.Until(hears("load"));
  ASSERT_TRUE(mark.ok()) << mark.status();
  EXPECT_EQ(mark->events[0].mark->name, "weights");
  EXPECT_EQ(mark->events[0].mark->nbytes, GiB(1));

  const Session session = Register(life, getpid());
  Acquire(life, session, GiB(1)).told->Next<LeaseGranted>();
  const auto stage = recording.Until(hears("stage"));
  ASSERT_TRUE(stage.ok()) << stage.status();
  const auto reading = recording.NextReading();
  EXPECT_EQ(reading->reading->swap_budget, GiB(8));
}

TEST_F(SessionsTest, ARecordingHearsOfAStopBeforeItsNextSample) {
  Life life(folder_, host_);
  const pid_t pid = Child();
  const auto job = life.Guard(pid);
  ASSERT_TRUE(job.ok()) << job.status();
  Recording recording(life, pid, absl::Hours(1));
  ASSERT_TRUE(recording.NextReading().ok());
  ASSERT_TRUE(life.Cancel(job->record.id).ok());
  const auto told = recording.Until([](const absl::StatusOr<RecordingUpdate>& update) {
    return update.ok() && !update->events.empty();
  });
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ(told->events[0].kind, "stopping");
  EXPECT_FALSE(told->reading);
}

TEST_F(SessionsTest, ARecordingOfAProcessThatIsNotThereSaysSo) {
  Life life(folder_, host_);
  const pid_t pid = Child();
  Kill(pid);
  Recording recording(life, pid, absl::Milliseconds(500));
  const auto refused = recording.Until([](const auto&) { return true; });
  EXPECT_EQ(FieldOf(refused.status()), "pid");
}

}  // namespace
}  // namespace stageload::engine
