// What stageloadctl says of real jobs, and what of it can be done: explain, groups, histories, and
// a daemon that listens elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::int64_t kMiB = 1 << 20;

class Explain : public DaemonTest {
 protected:
  std::string Said(std::int64_t id) {
    const Result result = Ctl({"explain", Id(id)});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  // The first change that is offered, as words for Ctl().
  Arguments FirstOffer(std::int64_t id) {
    const json changes = CtlJson({"explain", Id(id)}).at("changes");
    if (changes.empty()) return {};
    Arguments words = absl::StrSplit(changes.at(0).at("command").get<std::string>(), ' ');
    words.erase(words.begin());
    return words;
  }
  std::string History(std::int64_t id, const std::string& kind) {
    return Ctl({"history", Id(id), "--kind", kind}).out;
  }
};

TEST_F(Explain, WhatIsOfferedToAJobThatWaitsForMemoryLetsItStart) {
  WriteConfig("settle = \"0s\"\nmemory_pool = \"1G\"\n");
  StartDaemon();
  const std::string go = PathOf("go");
  const std::int64_t first =
      Submit(Arguments{"--wait-free", "0", "--memory", "700M", "--"} + UntilExists(go));
  ASSERT_TRUE(Reaches(first, "RUNNING"));
  const std::int64_t second = Submit({"--wait-free", "0", "--memory", "600M", "--", "true"});
  ASSERT_TRUE(Eventually([&] { return BlockerOf(second, "MEMORY").has_value(); }));
  EXPECT_THAT(Said(second),
              AllOf(StartsWith(absl::StrCat("Job ", second, " (true) has waited for ")),
                    HasSubstr("It needs 600 MiB, 324 MiB left in the pool of 1 GiB"),
                    HasSubstr(absl::StrCat("declared by job ", first))));
  const Arguments offer = FirstOffer(second);
  EXPECT_EQ(offer, (Arguments{"update", Id(second), "--memory", "324M"}));
  EXPECT_EQ(Ctl(offer).exit_code, 0);
  EXPECT_TRUE(Reaches(second, "COMPLETED"));
  EXPECT_THAT(Said(second), HasSubstr(" completed after running for "));
  EXPECT_THAT(History(second, "updated"), HasSubstr("memory 600 MiB -> 324 MiB\n"));
  Touch(go);
  EXPECT_TRUE(Reaches(first, "COMPLETED"));
}

TEST_F(Explain, AHeldJobAndItsChildAreLedToTheRelease) {
  StartDaemon();
  const std::int64_t held = Submit({"--wait-free", "0", "--hold", "--", "true"});
  const std::int64_t child = Submit({"--wait-free", "0", "--after", Id(held), "--", "true"});
  EXPECT_THAT(Said(child), HasSubstr(absl::StrCat("may not start before job ", held,
                                                  " (true, PENDING) has completed (--after)")));
  EXPECT_EQ(FirstOffer(child), (Arguments{"explain", Id(held)}));
  const Arguments offer = FirstOffer(held);
  EXPECT_EQ(offer, (Arguments{"release", Id(held)}));
  EXPECT_EQ(Ctl(offer).exit_code, 0);
  EXPECT_TRUE(Reaches(child, "COMPLETED"));
}

TEST_F(Explain, AStopIsSaidWithItsFigures) {
  StartDaemon();
  // No machine has all of its memory available.
  const std::int64_t job = Submit({"--wait-free", "0", "--kill-free", "100", "--", "sleep", "600"});
  ASSERT_TRUE(Reaches(job, "OUT_OF_MEMORY"));
  EXPECT_THAT(Said(job), AllOf(HasSubstr(" was stopped after running for "),
                               HasSubstr("LOW_MEMORY: "), HasSubstr("below 100 % (kill_free)"),
                               HasSubstr(absl::StrCat("`stageloadctl retry ", job, "`"))));
  const std::int64_t failed = Submit({"--wait-free", "0", "--", "sh", "-c", "exit 7"});
  ASSERT_TRUE(Reaches(failed, "FAILED"));
  EXPECT_THAT(Said(failed), HasSubstr("its own exit code is 7."));
  EXPECT_EQ(Ctl({"explain", "99"}).exit_code, 1);
}

// ---- Groups ----

using Groups = Explain;

TEST_F(Groups, AreHeldReleasedWaitedForAndCancelledAsOne) {
  WriteConfig("settle = \"0s\"\n");
  StartDaemon();
  ASSERT_EQ(Ctl({"hold", "--queue"}).exit_code, 0);
  const std::int64_t first = Submit({"--wait-free", "0", "--group", "gpu", "--", "true"});
  const std::int64_t second = Submit({"--wait-free", "0", "--group", "gpu", "--", "true"});
  const std::int64_t other = Submit({"--wait-free", "0", "--", "sleep", "600"});
  const json held = CtlJson({"hold", "--group", "gpu"});
  ASSERT_EQ(held.at("jobs").size(), 2U);
  EXPECT_EQ(held.at("jobs").at(0).at("id"), first);
  EXPECT_TRUE(BlockerOf(second, "HELD"));
  EXPECT_FALSE(BlockerOf(other, "HELD"));
  EXPECT_EQ(CtlJson({"hold", "--group", "gpu"}).at("jobs").size(), 0U) << "they are held";
  EXPECT_EQ(CtlJson({"release", "--group", "gpu"}).at("jobs").size(), 2U);
  ASSERT_EQ(Ctl({"release", "--queue"}).exit_code, 0);
  const json waited = CtlJson({"wait", "--group", "gpu"});
  EXPECT_EQ(StateOf(first), "COMPLETED");
  EXPECT_EQ(StateOf(second), "COMPLETED");
  EXPECT_EQ(CtlJson({"cancel", "--group", "gpu"}).at("jobs").size(), 0U) << "all have ended";
  EXPECT_NE(StateOf(other), "CANCELLED");
  const Result unknown = Ctl({"cancel", "--group", "gpus"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("no job is of a group \"gpus\""));
  EXPECT_EQ(Ctl({"cancel", "--group", "gpu", "1"}).exit_code, 2);
}

TEST_F(Groups, TheWholeQueueIsHeldWithADocument) {
  StartDaemon();
  EXPECT_EQ(CtlJson({"hold", "--queue"}), (json{{"queue_held", true}}));
  EXPECT_EQ(CtlJson({"release", "--queue"}), (json{{"queue_held", false}}));
}

// ---- What is said of what cannot be done ----

using Refusals = Explain;

TEST_F(Refusals, AGuardedCommandHasNoLogAndIsGuardedAgain) {
  StartDaemon();
  ASSERT_EQ(Ctl({"guard", "--wait-free", "0", "--", "true"}).exit_code, 0);
  const Result logs = Ctl({"logs", "-f", "1"});
  EXPECT_EQ(logs.exit_code, 1);
  EXPECT_THAT(logs.err, HasSubstr("job 1 has no log: it is a guarded command"));
  const Result retry = Ctl({"retry", "1"});
  EXPECT_EQ(retry.exit_code, 1);
  EXPECT_THAT(retry.err,
              HasSubstr("job 1 was a guarded command, run by whoever guarded it; guard it "
                        "again"));
}

TEST_F(Refusals, AKindOfEventThatThereIsNotIsNamedWithThoseThatThereAre) {
  StartDaemon();
  const std::int64_t job = Submit({"--wait-free", "0", "--", "true"});
  ASSERT_TRUE(Reaches(job, "COMPLETED"));
  const Result result = Ctl({"history", "--kind", "stoping"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--kind: no event is of a kind \"stoping\"; did you mean "
                                          "stopping?"),
                                HasSubstr("there are admitted, held")));
  // Also beside one that has come.
  EXPECT_EQ(Ctl({"history", "--kind", "ended,stoping"}).exit_code, 2);
  // None of that kind has come, which is no mistake.
  const Result none = Ctl({"history", "--kind", "warned"});
  EXPECT_EQ(none.exit_code, 0) << none.err;
}

// ---- What is known of a profile ----

using Auto = Explain;

TEST_F(Auto, AHeldJobShowsWhatItsProfileWouldHaveItDeclare) {
  WriteConfig("settle = \"0s\"\n");
  StartDaemon();
  const Arguments run = {"--wait-free", "0", "--name", "base", "--memory", "auto"};
  const std::int64_t first =
      Submit(run + Arguments{"--", kLoadProgram, "--hold", "100M", "--for", "1500ms"});
  ASSERT_TRUE(Reaches(first, "COMPLETED"));
  const std::int64_t held = Submit(run + Arguments{"--hold", "--", "true"});
  const json policy = Show(held).at("policy");
  EXPECT_TRUE(policy.at("memory_auto"));
  ASSERT_TRUE(policy.contains("memory_bytes")) << policy.dump();
  EXPECT_GE(policy.at("memory_bytes"), 100 * kMiB);
  EXPECT_THAT(Ctl({"show", Id(held)}).out, HasSubstr(" (auto)\n"));
}

// ---- Another socket ----

using Elsewhere = Explain;

TEST_F(Elsewhere, ADaemonOfThisHomeWithAnotherSocketIsNamedAtOnce) {
  StartDaemon();
  const std::string other = PathOf("elsewhere/stageloadd.sock");
  const absl::Time before = absl::Now();
  for (const Arguments& command :
       {Arguments{"queue"}, Arguments{"daemon", "start"}, Arguments{"--no-autostart", "queue"}}) {
    const Result result = Ctl(command, {.environment = {absl::StrCat("STAGELOAD_SOCKET=", other)}});
    EXPECT_EQ(result.exit_code, 69) << result.out;
    EXPECT_THAT(result.err,
                AllOf(HasSubstr(absl::StrCat("the daemon of this home (pid ", DaemonPid(),
                                             ") listens at ", paths().socket)),
                      HasSubstr(other), HasSubstr("STAGELOAD_SOCKET=")));
  }
  EXPECT_LT(absl::Now() - before, absl::Seconds(8)) << "it waited for a daemon that cannot start";
}

TEST_F(Elsewhere, ADaemonThatWasKilledIsNotInTheWay) {
  StartDaemon();
  KillDaemon();
  const std::string other = PathOf("elsewhere/stageloadd.sock");
  const Result result = Ctl({"queue"}, {.environment = {absl::StrCat("STAGELOAD_SOCKET=", other)}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

}  // namespace
}  // namespace stageload::e2e
