// Registrations that break off, by a death on either side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stageload/session.h>

#include <array>
#include <barrier>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/e2e/library_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class SessionsTest : public LibraryTest {
 protected:
  void SetUp() override {
    LibraryTest::SetUp();
    WriteConfig("memory_pool = \"150M\"\n");
  }
  // Whether there was such an event in the frames.
  bool Told(const std::string& kind, const std::string& words) {
    for (const Frame& frame : Frames()) {
      for (const Event& event : frame.events) {
        if (event.kind == kind && event.text.find(words) != std::string::npos) return true;
      }
    }
    return false;
  }
};

// ---- 28 ----

TEST_F(SessionsTest, S28_AClientThatIsKilledWhileItHoldsALeaseIsGoneWithinASecondAndTheNextHasIt) {
  StartDaemon();
  StartWatch();
  ChildProcess holder = StartHolder("holder", 100);
  ASSERT_TRUE(holder.Prints("granted"));
  ChildProcess next = StartHolder("next", 100);
  ASSERT_TRUE(next.Prints("waiting: MEMORY"));
  ASSERT_TRUE(Eventually([&] { return Holds("holder") && Waits("next"); }));

  const absl::Time killed = absl::Now();
  holder.Signal(SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !IsClient("holder") && Holds("next"); }));
  const absl::Duration took = absl::Now() - killed;
  std::cout << "a killed holder's lease was another's after " << took << "\n";
  EXPECT_LT(took, absl::Seconds(1));
  EXPECT_TRUE(next.Prints("granted"));
  EXPECT_TRUE(Eventually([&] { return Told("lease_released", "as its client ended"); }));
  EndHolder("next");
  EXPECT_EQ(next.Wait().exit_code, 0);
}

TEST_F(SessionsTest, S28_AClientThatIsKilledWhileItWaitsIsGoneWithinASecondAndWithItItsPlace) {
  StartDaemon();
  StartWatch();
  ChildProcess holder = StartHolder("holder", 100);
  ASSERT_TRUE(holder.Prints("granted"));
  ChildProcess first = StartHolder("first", 120);
  ASSERT_TRUE(first.Prints("waiting: MEMORY"));
  ASSERT_TRUE(Eventually([&] { return Waits("first"); }));

  const absl::Time killed = absl::Now();
  first.Signal(SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !Waits("first") && !IsClient("first"); }));
  const absl::Duration took = absl::Now() - killed;
  std::cout << "a killed waiter's place was gone after " << took << "\n";
  EXPECT_LT(took, absl::Seconds(1));
  EXPECT_TRUE(Holds("holder"));
  // Nobody is given what it waited for.
  EndHolder("holder");
  EXPECT_EQ(holder.Wait().exit_code, 0);
  ChildProcess second = StartHolder("second", 120);
  EXPECT_TRUE(second.Prints("granted"));
  EndHolder("second");
  EXPECT_EQ(second.Wait().exit_code, 0);
}

// ---- what is said of them ----

TEST_F(SessionsTest, ExplainShowAndQueueKnowOfTheLeasesOfWhatRuns) {
  StartDaemon();
  ChildProcess holder = StartHolder("holder", 100);
  ASSERT_TRUE(holder.Prints("registered 1"));
  ASSERT_TRUE(holder.Prints("granted"));
  // A job's own program.
  const std::int64_t job =
      Submit({"--wait-free", "0", "--name", "inside", "--", STAGELOAD_E2E_SESSION, paths().socket,
              "inside", "hold", "late", "100", PathOf("end inside")});
  const auto leases = [&](std::int64_t id, const char* which) {
    return CtlJson({"show", Id(id)}).value(which, nlohmann::json::array());
  };
  ASSERT_TRUE(Eventually([&] { return leases(job, "waiting_leases").size() == 1; }));
  ChildProcess last = StartHolder("last", 100);
  ASSERT_TRUE(last.Prints("registered 3"));
  ASSERT_TRUE(Eventually([&] { return leases(3, "waiting_leases").size() == 1; }));

  EXPECT_EQ(leases(1, "leases").at(0).at("stage"), "stage of holder");
  EXPECT_EQ(leases(1, "waiting_leases").size(), 0U);
  EXPECT_THAT(Ctl({"explain", "1"}).out,
              HasSubstr("It holds a lease: stage of holder 100 MiB, for "));
  EXPECT_THAT(Ctl({"show", "1"}).out,
              ContainsRegex("\nholds +lease stage of holder 100 MiB, since 20"));

  EXPECT_THAT(Ctl({"explain", Id(job)}).out,
              AllOf(HasSubstr("It waits for a lease of 100 MiB (late), for "),
                    HasSubstr("The lease needs 100 MiB, 50 MiB left in the pool of 150 MiB"),
                    HasSubstr("`stageloadctl explain 1` says what that one does, which holds 100 "
                              "MiB in leases.")));
  EXPECT_THAT(Ctl({"show", Id(job)}).out,
              ContainsRegex("\nwaits for +lease late, 100 MiB, since 20.*\n +MEMORY: needs 100"));
  EXPECT_THAT(Ctl({"queue"}).out, HasSubstr("lease late, 100 MiB: MEMORY: needs 100 MiB"));
  EXPECT_EQ(leases(job, "waiting_leases").at(0).at("blockers").at(0).at("kind"), "MEMORY");
  EXPECT_EQ(CtlJson({"queue", "--name", "inside"}).at("jobs").at(0).at("waiting_leases").size(),
            1U);
  EXPECT_THAT(Ctl({"explain", "3"}).out,
              AllOf(HasSubstr("a lease of client 2 goes first"),
                    HasSubstr("`stageloadctl explain 2` says what that one waits for.")));

  EndHolder("holder");
  EXPECT_TRUE(Eventually([&] { return leases(job, "leases").size() == 1; }));
  EXPECT_THAT(Ctl({"queue", "--name", "inside"}).out, Not(HasSubstr("lease")));
  EndHolder("inside");
  EXPECT_TRUE(Reaches(job, "COMPLETED"));
  EndHolder("last");
  EXPECT_EQ(last.Wait().exit_code, 0);
}

// ---- the daemon's death ----

TEST_F(SessionsTest, ALeaseOutlivesADaemonThatIsKilled) {
  StartDaemon();
  StartWatch();
  ChildProcess holder = StartHolder("holder", 100);
  ASSERT_TRUE(holder.Prints("granted"));
  ChildProcess waits = StartHolder("waits", 100);
  ASSERT_TRUE(waits.Prints("waiting: MEMORY"));
  KillDaemon();
  ASSERT_TRUE(holder.Prints("lost"));
  ASSERT_TRUE(waits.Prints("lost"));
  StartDaemon();
  ASSERT_TRUE(holder.Prints("restored"));
  EXPECT_THAT(holder.Out(), ::testing::Not(HasSubstr("did not take")));

  // The next daemon counts it, so who waited still waits. The watch has gone on, too.
  ASSERT_TRUE(Eventually([&] { return Holds("holder") && Waits("waits"); }));
  const auto sample = ClientOf("holder");
  ASSERT_TRUE(sample.has_value());
  EXPECT_EQ(sample->leases[0].stage, "stage of holder");
  EXPECT_EQ(sample->leases[0].memory_bytes, 100 * 1024 * 1024);
  EXPECT_THAT(waits.Out(), ::testing::Not(HasSubstr("granted")));
  EndHolder("holder");
  EXPECT_EQ(holder.Wait().exit_code, 0);
  EXPECT_TRUE(waits.Prints("granted"));
  EndHolder("waits");
  EXPECT_EQ(waits.Wait().exit_code, 0);
}

TEST_F(SessionsTest, WhatAClientHoldsThatIsBeingStoppedKeepsOthersOutAlsoUnderTheNextDaemon) {
  StartDaemon();
  StartWatch();
  ChildProcess holder = StartHolder("holder", 100);
  ASSERT_TRUE(holder.Prints("granted"));
  const std::int64_t id = CtlJson({"queue"}).at("jobs")[0].at("id");
  EXPECT_EQ(Ctl({"cancel", Id(id)}).exit_code, 0);
  ASSERT_TRUE(holder.Prints("stop: CANCELLED"));
  KillDaemon();
  ASSERT_TRUE(holder.Prints("lost"));
  StartDaemon();
  ASSERT_TRUE(holder.Prints("restored"));
  EXPECT_THAT(holder.Out(), ::testing::Not(HasSubstr("did not take")));
  ASSERT_TRUE(Eventually([&] {
    const auto client = ClientOf("holder");
    return client && client->state == "STOPPING" && Holds("holder");
  }));

  ChildProcess next = StartHolder("next", 100);
  ASSERT_TRUE(next.Prints("waiting: MEMORY"));
  ASSERT_TRUE(Eventually([&] { return Waits("next"); }));
  EXPECT_THAT(next.Out(), ::testing::Not(HasSubstr("granted")));
  EndHolder("holder");
  EXPECT_EQ(holder.Wait().exit_code, 0);
  EXPECT_TRUE(next.Prints("granted"));
  EndHolder("next");
  EXPECT_EQ(next.Wait().exit_code, 0);
}

TEST_F(SessionsTest, ASessionThatIsCancelledIsAskedToStopAndKnownByItsId) {
  StartDaemon();
  ChildProcess holder = StartHolder("holder", 100);
  ASSERT_TRUE(holder.Prints("granted"));
  const nlohmann::json queue = CtlJson({"queue"});
  ASSERT_EQ(queue.at("jobs").size(), 1U) << queue;
  const std::int64_t id = queue.at("jobs")[0].at("id");
  EXPECT_THAT(holder.Out(), HasSubstr(absl::StrCat("registered ", id)));
  EXPECT_EQ(Ctl({"cancel", Id(id)}).exit_code, 0);
  EXPECT_TRUE(holder.Prints("stop: CANCELLED"));
  EndHolder("holder");
  EXPECT_EQ(holder.Wait().exit_code, 0) << "it was not to be signalled";
}

// Both halves of it: what the library says when it comes back, and what the daemon makes of that.
TEST_F(SessionsTest, AfterARestartAProgramHasTheTermsOfItsFirstSession) {
  StartDaemon();
  SessionOptions outer;
  outer.socket = paths().socket;
  outer.autostart = false;
  outer.name = "outer";
  outer.memory_bytes = 7 * 1024 * 1024;
  SessionOptions inner = outer;
  inner.name = "inner";
  inner.memory_bytes = 1024 * 1024;
  const Session first(outer);
  std::vector<std::unique_ptr<Session>> joined;
  for (int i = 0; i < 4; ++i) joined.push_back(std::make_unique<Session>(inner));
  for (int restarts = 0; restarts < 4; ++restarts) {
    KillDaemon();
    StartDaemon();
    ASSERT_TRUE(Eventually([&] {
      std::set<std::int64_t> clients{first.client_id()};
      for (const auto& session : joined) clients.insert(session->client_id());
      std::set<std::int64_t> queued;
      const nlohmann::json queue = CtlJson({"queue"});
      for (const nlohmann::json& job : queue.at("jobs")) {
        queued.insert(job.at("id").get<std::int64_t>());
      }
      return clients == queued && queued.size() == 1;  // none is of the daemon before
    }));
    const nlohmann::json job = CtlJson({"queue"}).at("jobs")[0];
    EXPECT_EQ(job.at("name"), "outer");
    EXPECT_EQ(job.at("policy").at("memory_bytes"), 7 * 1024 * 1024) << job;
  }
}

TEST_F(SessionsTest, ThoseThatAProcessMakesAtOnceAreOneClient) {
  StartDaemon();
  SessionOptions options;
  options.socket = paths().socket;
  options.autostart = false;
  options.memory_bytes = 1024 * 1024;
  for (int rounds = 0; rounds < 10; ++rounds) {
    constexpr int kAtOnce = 4;
    std::barrier together(kAtOnce);
    std::array<std::optional<Session>, kAtOnce> sessions;
    std::vector<std::jthread> threads;
    for (std::optional<Session>& session : sessions) {
      threads.emplace_back([&] {
        together.arrive_and_wait();
        session.emplace(options);
      });
    }
    threads.clear();
    std::set<std::int64_t> clients;
    int joined = 0;
    for (const std::optional<Session>& session : sessions) {
      clients.insert(session->client_id());
      joined += session->joined() ? 1 : 0;
    }
    EXPECT_EQ(clients.size(), 1U);
    EXPECT_EQ(joined, kAtOnce - 1);
  }
}

}  // namespace
}  // namespace stageload::e2e
