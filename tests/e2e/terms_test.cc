// Everything about jobs that is more than running them: other terms, the held queue, arrays,
// filters, profiles, what a job waited for, and who hears of its end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class Terms : public DaemonTest {
 protected:
  // One job that runs until "go" is there, in a pool that has no room for another.
  std::int64_t Occupied() {
    WriteConfig("settle = \"0s\"\nmemory_pool = \"1G\"\n");
    StartDaemon();
    const std::int64_t first =
        Submit(Arguments{"--memory", "1G", "--"} + UntilExists(PathOf("go")));
    EXPECT_TRUE(Reaches(first, "RUNNING"));
    return first;
  }
  std::vector<std::int64_t> IdsOf(const Arguments& arguments) {
    std::vector<std::int64_t> ids;
    const nlohmann::json document = CtlJson(arguments + Arguments{"--json"});
    for (const auto& job : document["jobs"]) ids.push_back(job["id"].get<std::int64_t>());
    return ids;
  }
};

// ---- update ----

TEST_F(Terms, AHigherPriorityGoesFirstAndALowerDeclarationStartsAtOnce) {
  const std::int64_t first = Occupied();
  const std::int64_t second = Submit({"--memory", "1G", "--", "true"});
  const std::int64_t third = Submit({"--memory", "1G", "--", "true"});
  ASSERT_EQ(Ctl({"update", Id(third), "--priority", "7"}).exit_code, 0);
  EXPECT_THAT(IdsOf({"queue"}), ElementsAre(third, second, first));
  EXPECT_EQ(Show(third)["policy"]["priority"], 7);
  // Memory that nobody else declares.
  ASSERT_EQ(Ctl({"update", Id(second), "--memory", "none"}).exit_code, 0);
  EXPECT_FALSE(Show(second)["policy"].contains("memory_bytes"));
  Touch(PathOf("go"));
  EXPECT_TRUE(Reaches(third, "COMPLETED"));
  EXPECT_TRUE(Reaches(second, "COMPLETED"));
}

TEST_F(Terms, NewTermsOutliveTheDaemon) {
  Occupied();
  const std::int64_t job = Submit({"--memory", "1G", "--", "true"});
  ASSERT_EQ(Ctl({"update", Id(job), "--priority", "-3", "--time", "2h"}).exit_code, 0);
  KillDaemon();
  StartDaemon();
  const nlohmann::json policy = Show(job)["policy"];
  EXPECT_EQ(policy["priority"], -3);
  EXPECT_EQ(policy["time_limit_ns"], 7'200'000'000'000);
}

TEST_F(Terms, ARunningJobGetsAnotherTimeLimitButNoOtherMemory) {
  const std::int64_t running = Occupied();
  const Result refused = Ctl({"update", Id(running), "--memory", "512M"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("--memory: job 1 is RUNNING; only a job that waits"));
  ASSERT_EQ(Ctl({"update", Id(running), "--time", "1s"}).exit_code, 0);
  EXPECT_TRUE(Reaches(running, "TIMEOUT"));
}

TEST_F(Terms, WhatIsNotSaidOrWrongIsAUsageError) {
  StartDaemon();
  EXPECT_THAT(Ctl({"update", "1"}).err, HasSubstr("say what to change"));
  EXPECT_EQ(Ctl({"update", "1"}).exit_code, 2);
  EXPECT_EQ(Ctl({"update", "--priority", "5"}).exit_code, 2);
  EXPECT_THAT(Ctl({"update", "1", "--priority", "many"}).err, HasSubstr("--priority"));
  EXPECT_THAT(Ctl({"update", "9", "--priority", "1"}).err, HasSubstr("there is no job 9"));
}

// ---- The held queue ----

TEST_F(Terms, AHeldQueueStartsNothingOverARestartSaysWhyAndGoesOnWhenReleased) {
  WriteConfig("settle = \"0s\"\n");
  StartDaemon();
  ASSERT_EQ(Ctl({"hold", "--queue", "--reason", "backup"}).exit_code, 0);
  const std::int64_t job = Submit({"--memory", "1M", "--", "true"});
  KillDaemon();
  StartDaemon();
  EXPECT_EQ(StateOf(job), "PENDING");
  const auto blocker = BlockerOf(job, "QUEUE_HELD");
  ASSERT_TRUE(blocker);
  EXPECT_THAT((*blocker)["text"].get<std::string>(), HasSubstr("backup"));
  const Result queue = Ctl({"queue"});
  EXPECT_THAT(queue.err, HasSubstr("the queue is held: backup; `stageloadctl release --queue`"));
  EXPECT_EQ(CtlJson({"queue", "--json"})["queue_held"], "backup");
  EXPECT_EQ(Ctl({"guard", "--wait-free", "0", "--", "true"}).exit_code, 0) << "guards go on";
  ASSERT_EQ(Ctl({"release", "--queue"}).exit_code, 0);
  EXPECT_TRUE(Reaches(job, "COMPLETED"));
  EXPECT_FALSE(CtlJson({"queue", "--json"}).contains("queue_held"));
}

TEST_F(Terms, HoldNeedsJobsOrTheQueue) {
  StartDaemon();
  const Result neither = Ctl({"hold"});
  EXPECT_EQ(neither.exit_code, 2);
  EXPECT_THAT(neither.err, HasSubstr("--queue"));
  EXPECT_EQ(Ctl({"hold", "--queue", "1"}).exit_code, 2);
}

TEST_F(Terms, AJobMayBeSubmittedHeld) {
  StartDaemon();
  const std::int64_t job = Submit({"--hold", "--memory", "1M", "--", "true"});
  EXPECT_TRUE(BlockerOf(job, "HELD"));
  ASSERT_EQ(Ctl({"release", Id(job)}).exit_code, 0);
  EXPECT_TRUE(Reaches(job, "COMPLETED"));
}

// ---- Arrays ----

TEST_F(Terms, EachOfAnArrayFindsItsOwnIndexAndTheyHaveOneEnvironment) {
  WriteConfig("settle = \"0s\"\n");
  StartDaemon();
  const Result array = Ctl({"submit", "--array", "5", "--name", "sweep", "--memory", "1M", "--wait",
                            "--", "sh", "-c",
                            "echo \"$STAGELOAD_ARRAY_INDEX of $STAGELOAD_ARRAY_SIZE\" >> seen; "
                            "exit $STAGELOAD_ARRAY_INDEX"});
  EXPECT_EQ(array.exit_code, 4) << "the highest; " << array.err;
  EXPECT_THAT(Lines(array.out), ElementsAre("1", "2", "3", "4", "5"));
  const std::vector<std::string> seen = Lines(ReadFile(PathOf("seen")));
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()),
            (std::set<std::string>{"0 of 5", "1 of 5", "2 of 5", "3 of 5", "4 of 5"}));
  EXPECT_EQ(Show(1)["name"], "sweep[0]");
  EXPECT_EQ(Show(5)["name"], "sweep[4]");
  EXPECT_EQ(Show(5)["profile"], "sweep");
}

TEST_F(Terms, AnArrayIsAWholeNumberAndIsNotFollowed) {
  StartDaemon();
  for (const std::string count : {"0", "-1", "x", "10001", ""}) {
    const Result result = Ctl({"submit", "--array", count, "--", "true"});
    EXPECT_EQ(result.exit_code, 2) << count;
    EXPECT_THAT(result.err, HasSubstr("--array")) << count;
  }
  EXPECT_EQ(Ctl({"submit", "--array", "2", "--follow", "--", "true"}).exit_code, 2);
}

// ---- The queue as a list ----

TEST_F(Terms, TheQueueIsFilteredByStateGroupNameAndAge) {
  Occupied();
  const std::int64_t render =
      Submit({"--group", "gpu", "--name", "Render-A", "--memory", "1G", "--", "true"});
  const std::int64_t train = Submit({"--name", "train", "--memory", "1G", "--", "true"});
  ASSERT_EQ(Ctl({"cancel", Id(train)}).exit_code, 0);
  EXPECT_THAT(IdsOf({"queue", "--group", "gpu"}), ElementsAre(render));
  EXPECT_THAT(IdsOf({"queue", "--name", "render"}), ElementsAre(render));
  EXPECT_THAT(IdsOf({"queue", "--state", "cancelled,running"}), ElementsAre(1, train));
  EXPECT_THAT(IdsOf({"queue", "--all"}), ElementsAre(render, 1, train));
  EXPECT_THAT(IdsOf({"queue", "--all", "--limit", "2"}), ElementsAre(render, 1));
  EXPECT_THAT(IdsOf({"queue", "--since", "1h"}), ElementsAre(render, 1));
  EXPECT_THAT(IdsOf({"queue", "--since", "0s"}), ElementsAre());
  EXPECT_THAT(Ctl({"queue", "--state", "done"}).err, HasSubstr("COMPLETED"));
  EXPECT_EQ(Ctl({"queue", "--since", "tomorrow"}).exit_code, 2);
  EXPECT_EQ(Ctl({"queue", "--limit", "0"}).exit_code, 2);
}

TEST_F(Terms, WatchingTheQueueShowsWhatIsThereAndEachChangeAlsoOfTheNextDaemon) {
  Occupied();
  ChildProcess watch = StartCtl({"queue", "--watch", "--no-autostart"});
  EXPECT_TRUE(watch.Prints("1  RUNNING"));
  Submit({"--memory", "1G", "--name", "second", "--", "true"});
  EXPECT_TRUE(watch.Prints("2  PENDING  second"));
  KillDaemon();
  StartDaemon();
  Touch(PathOf("go"));
  EXPECT_TRUE(watch.Prints("2  COMPLETED  second"));
  const std::string out = watch.Out();
  const std::size_t started = out.find("2  RUNNING");
  if (started != std::string::npos) {
    EXPECT_EQ(out.find("2  RUNNING", started + 1), std::string::npos) << "told twice:\n" << out;
  }
  ASSERT_EQ(Ctl({"clear", "2"}).exit_code, 0);
  EXPECT_TRUE(watch.Prints("2  forgotten"));
  watch.Signal(SIGINT);
  EXPECT_EQ(watch.Wait().exit_code, 130);
}

TEST_F(Terms, AWatchedQueueIsJsonLinesWhenAsked) {
  Occupied();
  ChildProcess watch = StartCtl({"queue", "--watch", "--json"});
  ASSERT_TRUE(watch.Prints("RUNNING"));
  watch.Signal(SIGINT);
  const Result result = watch.Wait();
  const nlohmann::json line = nlohmann::json::parse(Lines(result.out).at(0));
  EXPECT_EQ(line["job"]["id"], 1);
  EXPECT_EQ(line["deleted"], false);
}

// ---- What it waited for ----

TEST_F(Terms, ShowTellsWhatAJobWaitedForAndForHowLong) {
  Occupied();
  const std::int64_t job = Submit({"--memory", "1G", "--", "true"});
  absl::SleepFor(absl::Seconds(2));
  Touch(PathOf("go"));
  ASSERT_TRUE(Reaches(job, "COMPLETED"));
  const nlohmann::json waited = Show(job)["waited"];
  ASSERT_FALSE(waited.empty());
  EXPECT_EQ(waited[0]["kind"], "MEMORY");
  EXPECT_GE(waited[0]["time_ns"].get<std::int64_t>(), 1'500'000'000);
  EXPECT_THAT(waited[0]["text"].get<std::string>(), HasSubstr("1 GiB"));
  const std::string text = Ctl({"show", Id(job)}).out;
  EXPECT_THAT(text, HasSubstr("waited for"));
  EXPECT_THAT(text, HasSubstr("MEMORY: "));
}

// ---- Profiles ----

TEST_F(Terms, ProfilesAreListedShownAndForgotten) {
  WriteConfig("settle = \"0s\"\n");
  StartDaemon();
  EXPECT_EQ(CtlJson({"profile", "--json"})["profiles"].size(), 0u);
  const std::int64_t job =
      Submit({"--profile", "qwen", "--", kLoadProgram, "--hold", "64M", "--for", "2s"});
  ASSERT_TRUE(Reaches(job, "COMPLETED"));
  const nlohmann::json profiles = CtlJson({"profile", "--json"})["profiles"];
  ASSERT_EQ(profiles.size(), 1u);
  EXPECT_EQ(profiles[0]["name"], "qwen");
  EXPECT_EQ(profiles[0]["runs"][0]["job_id"], job);
  EXPECT_GE(profiles[0]["estimate_bytes"].get<std::int64_t>(), 64 << 20);
  EXPECT_THAT(Ctl({"profile"}).out, HasSubstr("qwen"));
  EXPECT_THAT(Ctl({"profile", "qwen"}).out, HasSubstr("--memory auto declares"));
  EXPECT_THAT(Ctl({"profile", "other"}).err, HasSubstr("there is no profile other"));
  EXPECT_EQ(Ctl({"profile", "--forget"}).exit_code, 2);
  ASSERT_EQ(Ctl({"profile", "qwen", "--forget"}).exit_code, 0);
  KillDaemon();
  StartDaemon();
  EXPECT_EQ(CtlJson({"profile", "--json"})["profiles"].size(), 0u);
  EXPECT_EQ(Ctl({"profile", "qwen", "--forget"}).exit_code, 1);
}

// ---- Who hears of the end ----

TEST_F(Terms, TheConfigsCommandIsRunAtEachEndWithTheFactsInItsEnvironment) {
  const std::string told = PathOf("told");
  WriteConfig(
      "settle = \"0s\"\non_end = 'echo \"$STAGELOAD_JOB_ID $STAGELOAD_JOB_NAME "
      "$STAGELOAD_JOB_STATE $STAGELOAD_JOB_EXIT_CODE\" >> " +
      told + "'\n");
  StartDaemon();
  Submit({"--name", "good", "--memory", "1M", "--", "true"});
  Submit({"--name", "bad", "--memory", "1M", "--", "sh", "-c", "exit 9"});
  ASSERT_TRUE(Reaches(2, "FAILED"));
  ASSERT_TRUE(Eventually([&] { return Lines(ReadFile(told)).size() == 2; }));
  EXPECT_THAT(ReadFile(told), HasSubstr("1 good COMPLETED 0\n"));
  EXPECT_THAT(ReadFile(told), HasSubstr("2 bad FAILED 9\n"));
}

TEST_F(Terms, AnEndWhileTheDaemonWasDownIsToldByTheNext) {
  const std::string told = PathOf("told");
  WriteConfig("on_end = 'echo \"$STAGELOAD_JOB_STATE $STAGELOAD_JOB_EXIT_CODE\" >> " + told +
              "'\n");
  StartDaemon();
  const std::int64_t job = Submit(Arguments{"--"} + UntilExists(PathOf("go"), 7));
  ASSERT_TRUE(Reaches(job, "RUNNING"));
  KillDaemon();
  Touch(PathOf("go"));
  ASSERT_TRUE(
      Eventually([&] { return !ReadFile(paths().jobs + "/" + Id(job) + "/result").empty(); }));
  StartDaemon();
  EXPECT_TRUE(Eventually([&] { return ReadFile(told) == "FAILED 7\n"; })) << ReadFile(told);
}

TEST_F(Terms, AHookThatFailsIsToldInTheLogAndDelaysNobody) {
  WriteConfig("settle = \"0s\"\non_end = 'echo no such disk >&2; sleep 1; exit 3'\n");
  StartDaemon();
  for (int i = 0; i < 5; ++i) Submit({"--memory", "1M", "--", "true"});
  ASSERT_TRUE(Reaches(5, "COMPLETED"));
  EXPECT_TRUE(Eventually([&] {
    return ReadFile(paths().logs + "/stageloadd.log")
               .find("job=1 on_end: exit code 3: no such disk") != std::string::npos;
  }));
}

TEST_F(Terms, ANotificationIsShownForAJobThatAskedForOne) {
  // What the desktop would have.
  const std::string bin = PathOf("bin");
  mkdir(bin.c_str(), 0700);
  WriteFile(bin + "/notify-send", "#!/bin/sh\nprintf '%s|' \"$@\" >> " + PathOf("shown") + "\n");
  chmod((bin + "/notify-send").c_str(), 0700);
  WriteConfig("settle = \"0s\"\n");
  StartDaemon({}, {"PATH=" + bin + ":/usr/bin:/bin"});
  Submit({"--memory", "1M", "--", "true"});
  Submit({"--notify", "--name", "a 'quoted' $name", "--memory", "1M", "--", "false"});
  ASSERT_TRUE(Reaches(2, "FAILED"));
  ASSERT_TRUE(Eventually([&] { return !ReadFile(PathOf("shown")).empty(); }));
  EXPECT_THAT(ReadFile(PathOf("shown")),
              StartsWith("--app-name=stageload|--|a 'quoted' $name: failed|job 2 ran "));
  EXPECT_THAT(ReadFile(PathOf("shown")), HasSubstr("exit code 1|"));
  EXPECT_THAT(ReadFile(PathOf("shown")), Not(HasSubstr("job 1")));
}

}  // namespace
}  // namespace stageload::e2e
