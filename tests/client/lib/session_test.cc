// Session and Lease against a daemon that the test plays.
#include "stageload/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/ctl/fake_daemon.h"
#include "tests/client/lib/scripted_daemon.h"

namespace stageload::client {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kGiB = 1024 * 1024 * 1024;

class SessionTest : public ::testing::Test {
 protected:
  SessionOptions Options() {
    SessionOptions options;
    options.name = "render";
    options.socket = daemon_.socket();
    options.autostart = false;
    options.require = true;
    options.on_event = [this](const SessionEvent& event) {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
    };
    return options;
  }
  bool Told(SessionEvent::Kind kind) {
    return Eventually([&] {
      const std::lock_guard lock(mutex_);
      for (const SessionEvent& event : events_) {
        if (event.kind == kind) return true;
      }
      return false;
    });
  }
  std::size_t EventsSoFar() {
    const std::lock_guard lock(mutex_);
    return events_.size();
  }

  ScriptedDaemon daemon_;

 private:
  std::mutex mutex_;
  std::vector<SessionEvent> events_;
};

v1::RegisterResponse StopWord() {
  v1::RegisterResponse word;
  word.mutable_stop_requested()->set_reason(v1::REASON_SWAP_BUDGET);
  word.mutable_stop_requested()->set_text("swap charge 9 GiB is over the budget of 8 GiB");
  word.mutable_stop_requested()->set_grace_ns(5'000'000'000);
  return word;
}

// ---- registering ----

TEST_F(SessionTest, RegistersWithWhatItsOptionsSayAndLeavesTheRestToTheDaemon) {
  SessionOptions options = Options();
  options.swap_budget_bytes = 4 * kGiB;
  options.wait_free_percent = 25;
  options.priority = -3;
  options.grace = milliseconds(1500);
  options.on_over_budget = OverBudget::kSuspend;
  options.enforce = true;
  options.pid = 4711;
  const Session session(options);
  EXPECT_EQ(session.client_id(), 7);
  ASSERT_EQ(daemon_.registrations().size(), 1U);
  const v1::RegisterRequest request = daemon_.registrations()[0];
  EXPECT_EQ(request.name(), "render");
  EXPECT_EQ(request.pid(), 4711);
  EXPECT_TRUE(request.enforce());
  const v1::Policy& policy = request.policy();
  EXPECT_EQ(policy.swap_budget_bytes(), 4 * kGiB);
  EXPECT_EQ(policy.wait_free_percent(), 25);
  EXPECT_EQ(policy.priority(), -3);
  EXPECT_EQ(policy.grace_ns(), 1'500'000'000);
  EXPECT_EQ(policy.on_over_budget(), v1::OVER_BUDGET_SUSPEND);
  EXPECT_EQ(policy.charge_mode(), v1::CHARGE_MODE_SYSTEM);
  EXPECT_FALSE(policy.has_memory_bytes());
  EXPECT_FALSE(policy.has_swap_limit_bytes());
  EXPECT_FALSE(policy.has_kill_free_percent());
}

TEST_F(SessionTest, ATextThatCannotBeIsNamedBeforeTheDaemonIsAsked) {
  SessionOptions options = Options();
  options.name = "render\xFF";
  try {
    const Session session(options);
    FAIL() << "a name that is not UTF-8";
  } catch (const Error& error) {
    EXPECT_EQ(error.reason(), "INVALID_FIELD");
    EXPECT_THAT(error.what(), HasSubstr("name: is not UTF-8"));
  }
  EXPECT_EQ(daemon_.registered(), 0);
  Session session(Options());
  try {
    const Lease lease = session.Acquire("text\tencoder", kGiB);
    FAIL() << "a stage with a tab";
  } catch (const Error& error) {
    EXPECT_EQ(error.reason(), "INVALID_FIELD");
    EXPECT_THAT(error.what(), HasSubstr("stage: holds a control character"));
  }
}

TEST_F(SessionTest, AStageOrANoteThatIsEmptyIsRefused) {
  daemon_.on_acquire = [](AcquireScript& script) {
    script.Grant(1);
    return grpc::Status::OK;
  };
  Session session(Options());
  const auto refused = [](const std::function<void()>& call, const std::string& what) {
    try {
      call();
      ADD_FAILURE() << "not refused: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.reason(), "INVALID_FIELD");
      EXPECT_EQ(std::string(error.what()), what);
    }
  };
  refused([&] { (void)session.Acquire("", kGiB); }, "stage: is empty");
  refused([&] { (void)session.TryAcquire("", kGiB); }, "stage: is empty");
  refused([&] { (void)session.Stage(""); }, "stage: is empty");
  refused([&] { (void)session.Mark(""); }, "note: is empty");
}

TEST_F(SessionTest, ATimeoutBelowZeroDoesNotWaitAndTheLargestIsForEver) {
  std::vector<std::int64_t> asked;
  daemon_.on_acquire = [&](AcquireScript& script) {
    asked.push_back(script.request.start_timeout_ns());
    if (asked.back() == 0) {
      return ctl::Failure(grpc::StatusCode::RESOURCE_EXHAUSTED, "no room", "ADMISSION_TIMEOUT");
    }
    script.Wait("needs 10, has 5");
    script.Grant(1);
    return grpc::Status::OK;
  };
  Session session(Options());
  AcquireOptions options;
  for (const nanoseconds timeout : {nanoseconds(-1), nanoseconds::min()}) {
    options.timeout = timeout;
    EXPECT_THROW((void)session.Acquire("decode", kGiB, options), NoRoom);
  }
  options.timeout = nanoseconds::max();
  EXPECT_TRUE(session.Acquire("decode", kGiB, options));
  ASSERT_EQ(asked.size(), 3U);
  EXPECT_EQ(asked[0], 0);
  EXPECT_EQ(asked[1], 0);
  EXPECT_GT(asked[2], nanoseconds(hours(24 * 365 * 290)).count());
}

TEST_F(SessionTest, ItsEndIsTheEndOfTheRegistration) {
  {
    const Session session(Options());
    EXPECT_EQ(daemon_.registered(), 1);
  }
  EXPECT_TRUE(Eventually([this] { return daemon_.registered() == 0; }));
}

TEST_F(SessionTest, ARefusedRegistrationIsAnErrorAlsoWhereNoDaemonIsRequired) {
  daemon_.register_answer = ctl::Failure(grpc::StatusCode::INVALID_ARGUMENT,
                                         "priority: 5000 is over 1000", "INVALID_FIELD");
  for (const bool require : {false, true}) {
    SessionOptions options = Options();
    options.require = require;
    try {
      const Session session(options);
      FAIL() << "registered";
    } catch (const Error& error) {
      EXPECT_EQ(error.reason(), "INVALID_FIELD");
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_STREQ(error.what(), "priority: 5000 is over 1000");
    }
  }
}

// ---- leases ----

TEST_F(SessionTest, ALeaseIsGivenBackWhenItIsDestroyedReleasedOrReplaced) {
  Session session(Options());
  {
    const Lease lease = session.Acquire("transformer", 13 * kGiB);
    EXPECT_TRUE(lease);
    EXPECT_TRUE(lease.managed());
    EXPECT_FALSE(lease.forced());
    EXPECT_EQ(lease.stage(), "transformer");
    EXPECT_EQ(lease.memory_bytes(), 13 * kGiB);
    EXPECT_THAT(daemon_.Calls(), ElementsAre("register", "acquire transformer"));
  }
  EXPECT_TRUE(daemon_.Has("release 100"));
  Lease lease = session.Acquire("decode", kGiB);
  Lease moved = std::move(lease);
  EXPECT_FALSE(lease);  // NOLINT: what a move leaves is defined
  EXPECT_FALSE(daemon_.Has("release 101"));
  moved = session.Acquire("again", kGiB);
  EXPECT_TRUE(daemon_.Has("release 101"));
  moved.Release();
  EXPECT_FALSE(moved);
  moved.Release();
  EXPECT_EQ(daemon_.releases().size(), 3U);
  EXPECT_EQ(daemon_.releases()[2].client_id(), 7);
}

TEST_F(SessionTest, AcquireTellsWhyItWaitsOnTheWaitingThreadAndReturnsOnceGranted) {
  daemon_.on_acquire = [](AcquireScript& script) {
    EXPECT_EQ(script.request.client_id(), 7);
    EXPECT_EQ(script.request.memory_bytes(), kGiB);
    EXPECT_FALSE(script.request.has_start_timeout_ns());
    EXPECT_FALSE(script.request.already_loaded());
    EXPECT_EQ(script.request.request_id().size(), 32U);
    script.Wait("needs 10, has 5");
    script.Wait("needs 10, has 8");
    script.Grant(55, true);
    return grpc::Status::OK;
  };
  Session session(Options());
  std::vector<std::string> reasons;
  AcquireOptions options;
  options.on_wait = [&, me = std::this_thread::get_id()](const Waiting& waiting) {
    EXPECT_EQ(std::this_thread::get_id(), me);
    EXPECT_EQ(waiting.position, 1);
    ASSERT_EQ(waiting.blockers.size(), 1U);
    EXPECT_EQ(waiting.blockers[0].kind, "MEMORY");
    EXPECT_EQ(waiting.blockers[0].needed, 10);
    reasons.push_back(waiting.blockers[0].text);
  };
  const Lease lease = session.Acquire("decode", kGiB, options);
  EXPECT_TRUE(lease.forced());
  EXPECT_THAT(reasons, ElementsAre("needs 10, has 5", "needs 10, has 8"));
}

TEST_F(SessionTest, WhenTimeRunsOutNoRoomHasTheFigures) {
  daemon_.on_acquire = [](AcquireScript& script) {
    EXPECT_GT(script.request.start_timeout_ns(), 29'000'000'000);
    EXPECT_LE(script.request.start_timeout_ns(), 30'000'000'000);
    script.Wait("needs 10, has 5");
    return ctl::Failure(grpc::StatusCode::RESOURCE_EXHAUSTED, "no room within 30s: needs 10, has 5",
                        "ADMISSION_TIMEOUT");
  };
  Session session(Options());
  AcquireOptions options;
  options.timeout = seconds(30);
  try {
    const Lease lease = session.Acquire("decode", kGiB, options);
    FAIL() << "granted";
  } catch (const NoRoom& error) {
    EXPECT_THAT(error.what(), HasSubstr("needs 10, has 5"));
    EXPECT_EQ(error.reason(), "ADMISSION_TIMEOUT");
    ASSERT_EQ(error.blockers().size(), 1U);
    EXPECT_EQ(error.blockers()[0].read, 5);
  }
}

TEST_F(SessionTest, TryAcquireGivesNothingWhenThereIsNoRoomNow) {
  daemon_.on_acquire = [](AcquireScript& script) {
    EXPECT_TRUE(script.request.has_start_timeout_ns());
    EXPECT_EQ(script.request.start_timeout_ns(), 0);
    if (script.request.stage() == "small") {
      script.Grant(1);
      return grpc::Status::OK;
    }
    script.Wait("needs 10, has 5");
    return ctl::Failure(grpc::StatusCode::RESOURCE_EXHAUSTED, "no room", "ADMISSION_TIMEOUT");
  };
  Session session(Options());
  AcquireOptions at_once;
  at_once.timeout = -std::chrono::seconds(1);
  at_once.on_wait = [](const Waiting&) { ADD_FAILURE() << "it does not wait"; };
  try {
    (void)session.Acquire("large", kGiB, at_once);
    ADD_FAILURE() << "there was no room";
  } catch (const NoRoom& refused) {
    ASSERT_EQ(refused.blockers().size(), 1U);
    EXPECT_EQ(refused.blockers()[0].text, "needs 10, has 5");
  }
  EXPECT_TRUE(session.TryAcquire("small", 1).has_value());
  EXPECT_FALSE(session.TryAcquire("large", kGiB).has_value());
}

TEST_F(SessionTest, WhatCanNeverFitIsNeverFits) {
  daemon_.on_acquire = [](AcquireScript&) {
    return ctl::Failure(grpc::StatusCode::INVALID_ARGUMENT, "needs 100 GiB of 48", "NEVER_FITS");
  };
  Session session(Options());
  EXPECT_THROW((void)session.Acquire("huge", 100 * kGiB), NeverFits);
  EXPECT_THROW((void)session.TryAcquire("huge", 100 * kGiB), NeverFits);
}

// ---- requests that are given up ----

TEST_F(SessionTest, ACancelledAcquireIsTakenBackByItsOwnName) {
  daemon_.on_acquire = [](AcquireScript& script) {
    script.Wait("needs 10, has 5");
    EXPECT_TRUE(script.AwaitCancelled());
    return grpc::Status::CANCELLED;
  };
  Session session(Options());
  std::stop_source stop;
  AcquireOptions options;
  options.stop = stop.get_token();
  std::jthread other;
  options.on_wait = [&](const Waiting&) { other = std::jthread([&stop] { stop.request_stop(); }); };
  EXPECT_THROW((void)session.Acquire("decode", kGiB, options), Cancelled);
  ASSERT_EQ(daemon_.releases().size(), 1U);
  EXPECT_EQ(daemon_.releases()[0].lease_id(), 0);
  EXPECT_EQ(daemon_.releases()[0].request_id(), daemon_.acquires()[0].request_id());
}

TEST_F(SessionTest, OneThatIsCancelledBeforeTheDaemonSpokeIsTakenBackOnlyOnceTheDaemonKnowsIt) {
  std::stop_source stop;
  std::atomic<bool> answered = false;
  daemon_.on_acquire = [&](AcquireScript& script) {
    stop.request_stop();
    // Nothing may come before the first answer: it would find nothing to take back.
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_FALSE(daemon_.Has("release by id"));
    answered = true;
    script.Grant(55);
    return grpc::Status::OK;
  };
  Session session(Options());
  AcquireOptions options;
  options.stop = stop.get_token();
  EXPECT_THROW((void)session.Acquire("decode", kGiB, options), Cancelled);
  EXPECT_TRUE(answered);
  EXPECT_TRUE(daemon_.Has("release by id")) << "it was granted, and is not given back";
}

TEST_F(SessionTest, ATokenThatWasUsedBeforeAsksNobody) {
  Session session(Options());
  std::stop_source stop;
  stop.request_stop();
  AcquireOptions options;
  options.stop = stop.get_token();
  EXPECT_THROW((void)session.Acquire("decode", kGiB, options), Cancelled);
  EXPECT_THAT(daemon_.Calls(), ElementsAre("register"));
}

TEST_F(SessionTest, AnExceptionOutOfOnWaitTakesTheRequestBackAndComesOut) {
  daemon_.on_acquire = [](AcquireScript& script) {
    script.Wait("needs 10, has 5");
    EXPECT_TRUE(script.AwaitCancelled());
    return grpc::Status::CANCELLED;
  };
  Session session(Options());
  AcquireOptions options;
  options.on_wait = [](const Waiting&) { throw std::out_of_range("of patience"); };
  EXPECT_THROW((void)session.Acquire("decode", kGiB, options), std::out_of_range);
  EXPECT_TRUE(daemon_.Has("release by id"));
}

// ---- what the daemon says ----

TEST_F(SessionTest, ARequestToStopIsToldAndCanBePolledAndEndsTheLeases) {
  daemon_.on_acquire = [](AcquireScript&) {
    return ctl::Failure(grpc::StatusCode::FAILED_PRECONDITION, "client 7 is being stopped",
                        "JOB_ENDED");
  };
  std::atomic<int> told = 0;
  SessionOptions options = Options();
  options.on_stop = [&](const StopRequest& stop) {
    EXPECT_EQ(stop.reason, "SWAP_BUDGET");
    EXPECT_EQ(stop.grace, seconds(5));
    ++told;
  };
  std::atomic<bool> last = false;
  options.on_warning = [&](const BudgetWarning&) { last = true; };
  Session session(options);
  EXPECT_FALSE(session.stop_requested().has_value());
  EXPECT_THROW((void)session.Acquire("decode", kGiB), Stopped) << "as the daemon says";
  daemon_.Say(StopWord());
  ASSERT_TRUE(Eventually([&] { return session.stop_token().stop_requested(); }));
  daemon_.Say(StopWord());
  v1::RegisterResponse word;
  word.mutable_warned();
  daemon_.Say(word);
  ASSERT_TRUE(Eventually([&] { return last.load(); }));
  ASSERT_TRUE(session.stop_requested().has_value());
  EXPECT_THAT(session.stop_requested()->text, HasSubstr("over the budget"));
  EXPECT_EQ(told, 1);
  EXPECT_THROW((void)session.Acquire("decode", kGiB), Stopped);
  EXPECT_EQ(daemon_.acquires().size(), 1U) << "the daemon is not asked again";
}

TEST_F(SessionTest, EverythingElseIsToldOnOneThreadOfTheLibrary) {
  std::mutex mutex;
  std::vector<std::string> heard;
  std::vector<std::thread::id> threads;
  const auto hear = [&](const std::string& word) {
    const std::lock_guard lock(mutex);
    heard.push_back(word);
    threads.push_back(std::this_thread::get_id());
  };
  SessionOptions options = Options();
  options.on_warning = [&](const BudgetWarning& warning) {
    hear("warned of " + std::to_string(warning.charge_bytes));
  };
  options.on_pressure = [&](Pressure pressure, const HostSample& host) {
    EXPECT_EQ(pressure, Pressure::kCritical);
    EXPECT_EQ(host.level_percent, 12.5);
    EXPECT_FALSE(host.swap_used_bytes.has_value());
    hear("pressure");
  };
  options.on_suspended = [&](const Suspension& suspension) {
    hear(suspension.resumed ? "resumed" : "suspended: " + suspension.reason);
  };
  const Session session(options);
  v1::RegisterResponse word;
  word.mutable_warned()->set_charge_bytes(7);
  daemon_.Say(word);
  word.mutable_pressure_changed()->set_pressure(v1::PRESSURE_CRITICAL);
  word.mutable_pressure_changed()->mutable_host()->set_level_percent(12.5);
  daemon_.Say(word);
  word.mutable_suspended()->set_reason(v1::REASON_SUSPENDED);
  daemon_.Say(word);
  word.mutable_resumed();
  daemon_.Say(word);
  ASSERT_TRUE(Eventually([&] {
    const std::lock_guard lock(mutex);
    return heard.size() == 4;
  }));
  EXPECT_THAT(heard, ElementsAre("warned of 7", "pressure", "suspended: SUSPENDED", "resumed"));
  EXPECT_NE(threads[0], std::this_thread::get_id());
  EXPECT_THAT(threads, ::testing::Each(threads[0]));
}

TEST_F(SessionTest, ACallbackMayNotWaitForALease) {
  std::atomic<bool> refused = false;
  Session* running = nullptr;
  SessionOptions options = Options();
  options.on_warning = [&](const BudgetWarning&) {
    try {
      (void)running->Acquire("decode", kGiB);
    } catch (const Error& error) {
      refused = error.reason() == "WRONG_THREAD";
    }
  };
  Session session(options);
  running = &session;
  v1::RegisterResponse word;
  word.mutable_warned();
  daemon_.Say(word);
  EXPECT_TRUE(Eventually([&] { return refused.load(); }));
}

TEST_F(SessionTest, ARegistrationThatTheDaemonEndsIsOver) {
  Session session(Options());
  daemon_.EndRegistration();
  EXPECT_TRUE(Told(SessionEvent::Kind::kEnded));
  EXPECT_TRUE(session.stop_requested().has_value());
  EXPECT_THROW((void)session.Acquire("decode", kGiB), Stopped);
  EXPECT_EQ(session.client_id(), 0);
}

TEST_F(SessionTest, GaugesMarksAndStagesAreReported) {
  Session session(Options());
  EXPECT_TRUE(session.Report({{"mps_driver_bytes", 5.0}, {"steps", 2.0}}));
  EXPECT_TRUE(session.Mark("warm"));
  EXPECT_TRUE(session.Stage("decode"));
  const std::vector<v1::ReportRequest> reports = daemon_.reports();
  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports[0].client_id(), 7);
  EXPECT_EQ(reports[0].gauges(0).name(), "mps_driver_bytes");
  EXPECT_EQ(reports[0].gauges(1).value(), 2.0);
  EXPECT_EQ(reports[1].marks(0).kind(), "mark");
  EXPECT_EQ(reports[1].marks(0).note(), "warm");
  EXPECT_EQ(reports[2].marks(0).kind(), "stage");
  EXPECT_EQ(reports[2].marks(0).stage(), "decode");
  daemon_.report_answer = ctl::Failure(grpc::StatusCode::INVALID_ARGUMENT,
                                       "gauges: \"a b\" is no name", "INVALID_FIELD");
  EXPECT_THROW(session.Report({{"a b", 1}}), Error);
}

// ---- the next daemon ----

TEST_F(SessionTest, AfterARestartItIsRegisteredAgainAndItsLeasesAreTakenUp) {
  Session session(Options());
  Lease held = session.Acquire("transformer", 13 * kGiB);
  { const Lease released = session.Acquire("encoder", kGiB); }
  session.Report({{"steps", 2.0}});
  const std::string request_id(daemon_.acquires()[0].request_id());
  daemon_.Stop();
  EXPECT_TRUE(Told(SessionEvent::Kind::kLost));
  EXPECT_EQ(session.client_id(), 0);
  EXPECT_TRUE(held) << "the lease is the program's all the time";
  EXPECT_FALSE(session.Mark("nobody hears it"));
  daemon_.Start();
  ASSERT_TRUE(Told(SessionEvent::Kind::kRestored));
  EXPECT_EQ(session.client_id(), 8);
  ASSERT_EQ(daemon_.acquires().size(), 3U);
  const v1::AcquireRequest again = daemon_.acquires()[2];
  EXPECT_TRUE(again.already_loaded());
  EXPECT_EQ(again.client_id(), 8);
  EXPECT_EQ(again.stage(), "transformer");
  EXPECT_EQ(again.memory_bytes(), 13 * kGiB);
  EXPECT_EQ(again.request_id(), request_id);
  ASSERT_TRUE(Eventually([this] { return daemon_.reports().size() == 2; }));
  EXPECT_EQ(daemon_.reports()[1].gauges(0).name(), "steps");
  held.Release();
  EXPECT_EQ(daemon_.releases().back().lease_id(), 102);
  EXPECT_EQ(daemon_.releases().back().client_id(), 8);
}

TEST_F(SessionTest, WhoWasSuspendedAsTheDaemonWentIsToldThatItGoesOn) {
  std::mutex mutex;
  std::vector<bool> resumed;
  SessionOptions options = Options();
  options.on_suspended = [&](const Suspension& suspension) {
    const std::lock_guard lock(mutex);
    resumed.push_back(suspension.resumed);
  };
  const Session session(options);
  const auto told = [&](std::size_t times) {
    const std::lock_guard lock(mutex);
    return resumed.size() == times;
  };
  v1::RegisterResponse word;
  word.mutable_suspended()->set_reason(v1::REASON_SUSPENDED);
  daemon_.Say(word);
  ASSERT_TRUE(Eventually([&] { return told(1); }));
  daemon_.Stop();
  EXPECT_TRUE(Eventually([&] { return told(2); }));
  daemon_.Start();
  ASSERT_TRUE(Told(SessionEvent::Kind::kRestored));
  daemon_.Stop();
  ASSERT_TRUE(Eventually([&] { return session.client_id() == 0; }));
  daemon_.Start();
  ASSERT_TRUE(Eventually([&] { return session.client_id() != 0; }));
  const std::lock_guard lock(mutex);
  EXPECT_THAT(resumed, ElementsAre(false, true)) << "once";
}

TEST_F(SessionTest, ALeaseThatIsReleasedWhileThereIsNoDaemonIsNotTakenUp) {
  Session session(Options());
  Lease lease = session.Acquire("transformer", kGiB);
  daemon_.Stop();
  ASSERT_TRUE(Told(SessionEvent::Kind::kLost));
  lease.Release();
  daemon_.Start();
  ASSERT_TRUE(Told(SessionEvent::Kind::kRestored));
  EXPECT_FALSE(daemon_.Has("take up transformer"));
  EXPECT_THAT(daemon_.releases(), IsEmpty());
}

TEST_F(SessionTest, ALeaseThatIsReleasedWhileItIsTakenUpIsGivenBackToTheNextDaemon) {
  Session session(Options());
  Lease lease = session.Acquire("transformer", kGiB);
  daemon_.Stop();
  ASSERT_TRUE(Told(SessionEvent::Kind::kLost));
  daemon_.on_acquire = [&](AcquireScript& script) {
    lease.Release();
    script.Grant(222);
    return grpc::Status::OK;
  };
  daemon_.Start();
  ASSERT_TRUE(Told(SessionEvent::Kind::kRestored));
  EXPECT_TRUE(Eventually([this] { return daemon_.Has("release 222"); }));
}

TEST_F(SessionTest, AnAcquireThatWaitsWithADaemonThatGoesAwayIsAskedOfTheNext) {
  daemon_.on_acquire = [](AcquireScript& script) {
    script.Wait("needs 10, has 5");
    EXPECT_TRUE(script.AwaitCancelled());
    return grpc::Status::CANCELLED;
  };
  Session session(Options());
  std::optional<Lease> lease;
  std::jthread waits([&] { lease = session.Acquire("decode", kGiB); });
  ASSERT_TRUE(Eventually([this] { return daemon_.Has("acquire decode"); }));
  daemon_.Stop();
  ASSERT_TRUE(Told(SessionEvent::Kind::kLost));
  daemon_.on_acquire = nullptr;
  daemon_.Start();
  waits.join();
  ASSERT_TRUE(lease.has_value());
  EXPECT_TRUE(lease->managed());
  EXPECT_FALSE(daemon_.acquires().back().already_loaded()) << "nothing was loaded yet";
}

TEST_F(SessionTest, ATimeoutAlsoEndsTheWaitForTheNextDaemon) {
  Session session(Options());
  daemon_.Stop();
  ASSERT_TRUE(Told(SessionEvent::Kind::kLost));
  AcquireOptions options;
  options.timeout = milliseconds(50);
  EXPECT_THROW((void)session.Acquire("decode", kGiB, options), NoRoom);
  EXPECT_FALSE(session.TryAcquire("decode", kGiB).has_value());
}

TEST_F(SessionTest, OneThatEndsWhileItLooksForADaemonEndsAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  {
    const Session session(Options());
    daemon_.Stop();
    ASSERT_TRUE(Told(SessionEvent::Kind::kLost));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
}

// ---- no daemon ----

TEST_F(SessionTest, ADaemonThatNeverAnswersARegistrationIsNone) {
  daemon_.register_hangs = true;
  const auto begin = std::chrono::steady_clock::now();
  SessionOptions options = Options();
  options.require = false;
  {
    Session session(options);
    ASSERT_TRUE(Told(SessionEvent::Kind::kNoDaemon));
    EXPECT_FALSE(session.Acquire("decode", kGiB).managed());
    EXPECT_EQ(session.client_id(), 0);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(28)) << "15 s, and its end at once";
}

TEST_F(SessionTest, WithoutADaemonOneThatRequiresItThrows) {
  daemon_.Stop();
  try {
    const Session session(Options());
    FAIL() << "registered";
  } catch (const NoDaemon& error) {
    EXPECT_EQ(error.reason(), "NO_DAEMON");
    EXPECT_THAT(error.what(), HasSubstr(daemon_.socket()));
  }
}

TEST_F(SessionTest, WithoutADaemonOneThatDoesNotRequireItRunsOnAndSaysSoOnce) {
  daemon_.Stop();
  SessionOptions options = Options();
  options.require = false;
  Session session(options);
  ASSERT_TRUE(Told(SessionEvent::Kind::kNoDaemon));
  Lease lease = session.Acquire("transformer", 13 * kGiB);
  EXPECT_TRUE(lease);
  EXPECT_FALSE(lease.managed());
  EXPECT_FALSE(session.Report({{"steps", 1.0}}));
  EXPECT_EQ(EventsSoFar(), 1U);
  // A daemon that comes later is told what is loaded.
  daemon_.Start();
  ASSERT_TRUE(Told(SessionEvent::Kind::kRestored));
  EXPECT_TRUE(daemon_.Has("take up transformer"));
  EXPECT_TRUE(session.Acquire("decode", kGiB).managed());
}

// ---- fork ----

TEST_F(SessionTest, AChildHasNoPartInItAndTheParentsGoesOn) {
  auto session = std::make_unique<Session>(Options());
  auto lease = std::make_unique<Lease>(session->Acquire("transformer", kGiB));
  const pid_t child = fork();
  if (child == 0) {
    int code = 1;
    try {
      (void)session->Acquire("decode", kGiB);
    } catch (const Error& error) {
      code = error.reason() == "FORKED" ? 0 : 2;
    }
    const auto forked = [&code](int else_code, const auto& call) {
      try {
        call();
      } catch (const Error& error) {
        if (error.reason() == "FORKED") return;
      }
      code = else_code;
    };
    forked(5, [&] { (void)session->client_id(); });
    forked(6, [&] { (void)session->joined(); });
    forked(7, [&] { (void)session->stop_requested(); });
    forked(8, [&] { (void)session->stop_token(); });
    forked(9, [&] { (void)session->TryAcquire("decode", kGiB); });
    forked(10, [&] { (void)session->Stage("decode"); });
    try {
      const Session own(Options());
      code = 3;
    } catch (const Error& error) {
      if (error.reason() != "FORKED") code = 4;
    }
    lease.reset();
    session.reset();
    _exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(daemon_.registered(), 1);
  EXPECT_THAT(daemon_.releases(), IsEmpty());
  EXPECT_TRUE(session->Mark("still here"));
  lease->Release();
  EXPECT_TRUE(daemon_.Has("release 100"));
}

}  // namespace
}  // namespace stageload::client
