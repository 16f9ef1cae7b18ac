// What scripts read: valid, and with the fields that the API promises.
#include <gmock/gmock.h>
#include <signal.h>

#include "absl/strings/str_split.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using nlohmann::json;

class JsonOutput : public DaemonTest {
 protected:
  void ExpectFields(const json& object, const std::vector<std::string>& fields) {
    ASSERT_TRUE(object.is_object()) << object.dump(2);
    for (const std::string& field : fields) {
      EXPECT_TRUE(object.contains(field)) << field << " is not in " << object.dump(2);
    }
  }
};

const std::vector<std::string> kJobFields = {"id",      "kind",  "name",           "command",
                                             "policy",  "state", "submit_time_ns", "charge_bytes",
                                             "blockers"};

TEST_F(JsonOutput, QueueIsOneDocumentWithAllJobs) {
  StartDaemon();
  EXPECT_EQ(CtlJson({"queue"}).at("jobs"), json::array());
  Submit({"--wait-free", "100", "--name", "a \"name\" ü", "--", "sh", "-c", "echo 'x y'"});
  const json jobs = CtlJson({"queue"}).at("jobs");
  ASSERT_EQ(jobs.size(), 1u);
  ExpectFields(jobs[0], kJobFields);
  EXPECT_EQ(jobs[0].at("id"), 1);
  EXPECT_EQ(jobs[0].at("name"), "a \"name\" ü");
  EXPECT_EQ(jobs[0].at("state"), "PENDING");
  EXPECT_EQ(jobs[0].at("policy").at("wait_free_percent"), 100.0);
}

TEST_F(JsonOutput, ShowHasEveryFieldOfARunningAndOfAnEndedJob) {
  StartDaemon();
  const std::int64_t id =
      Submit(Arguments{"--wait-free", "0", "--memory", "1M", "--"} + UntilExists(PathOf("go"), 3));
  ASSERT_TRUE(Reaches(id, "RUNNING"));
  ASSERT_TRUE(Eventually([&] { return Show(id).contains("footprint_bytes"); }));
  const json running = Show(id);
  ExpectFields(running, kJobFields);
  ExpectFields(running, {"start_time_ns", "pid", "working_directory", "log_directory"});
  EXPECT_EQ(running.at("policy").at("memory_bytes"), 1 << 20);
  EXPECT_EQ(running.at("policy").at("swap_budget_bytes"), std::int64_t{8} << 30);
  EXPECT_FALSE(running.contains("exit_code"));
  Touch(PathOf("go"));
  ASSERT_TRUE(Reaches(id, "FAILED"));
  const json ended = Show(id);
  EXPECT_EQ(ended.at("exit_code"), 3);
  EXPECT_GE(ended.at("end_time_ns").get<std::int64_t>(),
            ended.at("start_time_ns").get<std::int64_t>());
}

TEST_F(JsonOutput, StatusHasTheMachineAndTheQueue) {
  StartDaemon();
  const json status = CtlJson({"status"});
  // The frame is the answer, or stands in it as it does in GetSnapshotResponse.
  const json& frame = status.contains("frame") ? status.at("frame") : status;
  ExpectFields(frame, {"sequence", "time_ns", "interval_ns", "host", "clients", "pending", "active",
                       "reserved_bytes"});
  ExpectFields(frame.at("host"),
               {"level_percent", "total_bytes", "available_bytes", "swap_used_bytes"});
  const double level = frame.at("host").at("level_percent");
  EXPECT_GT(level, 0);
  EXPECT_LE(level, 100);
}

TEST_F(JsonOutput, WatchIsOneDocumentALineWithGrowingSequenceNumbers) {
  StartDaemon();
  ChildProcess watch = StartCtl({"watch", "--json"});
  ASSERT_TRUE(Eventually([&] {
    const std::string out = watch.Out();
    return std::count(out.begin(), out.end(), '\n') >= 3;
  })) << watch.Err();
  watch.Signal(SIGINT);
  const std::string out = watch.Wait().out;
  std::int64_t last = -1;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(out, '\n', absl::SkipEmpty()))) {
    const json answer = json::parse(line, nullptr, false);
    ASSERT_FALSE(answer.is_discarded()) << line;
    const json& frame = answer.contains("frame") ? answer.at("frame") : answer;
    EXPECT_GT(frame.at("sequence").get<std::int64_t>(), last);
    last = frame.at("sequence");
  }
}

TEST_F(JsonOutput, AnErrorLeavesStdoutEmpty) {
  StartDaemon();
  const Result result = Ctl({"show", "--json", "4711"});
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err, "");
}

}  // namespace
}  // namespace stageload::e2e
