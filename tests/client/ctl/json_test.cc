// What --json prints.
#include "client/ctl/json.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "stageload/v1/job_service.pb.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::ctl {
namespace {

TEST(Json, PrintsSixtyFourBitIntegersAsNumbers) {
  v1::Job job;
  job.set_id(std::int64_t{9'007'199'254'740'993});
  EXPECT_EQ(ToJson(job)["id"].dump(), "9007199254740993");
  v1::ResourceLimit limit;
  limit.set_soft(UINT64_MAX);
  EXPECT_EQ(ToJson(limit)["soft"].dump(), "18446744073709551615");
}

TEST(Json, LeavesOutWhatIsAbsentAndPrintsDefaults) {
  const Json json = ToJson(v1::Job());
  EXPECT_FALSE(json.contains("exit_code"));
  EXPECT_FALSE(json.contains("policy"));
  EXPECT_FALSE(json.contains("reason"));
  EXPECT_EQ(json["charge_bytes"], 0);
  EXPECT_EQ(json["name"], "");
  EXPECT_EQ(json["blockers"], Json::array());
}

TEST(Json, PrintsAnOptionalZero) {
  v1::Job job;
  job.set_exit_code(0);
  EXPECT_EQ(ToJson(job)["exit_code"], 0);
}

TEST(Json, PrintsEnumsAsTheirShortWord) {
  v1::Job job;
  job.set_state(v1::JOB_STATE_OUT_OF_MEMORY);
  job.set_reason(v1::REASON_SWAP_BUDGET);
  job.add_blockers()->set_kind(v1::BLOCKER_KIND_MEMORY);
  const Json json = ToJson(job);
  EXPECT_EQ(json["state"], "OUT_OF_MEMORY");
  EXPECT_EQ(json["reason"], "SWAP_BUDGET");
  EXPECT_EQ(json["blockers"][0]["kind"], "MEMORY");
}

TEST(Json, PrintsAnEnumOfANewerDaemonAsItsNumber) {
  v1::Job job;
  job.set_state(static_cast<v1::JobState>(99));
  EXPECT_EQ(ToJson(job)["state"], 99);
  EXPECT_EQ(Word(job.state()), "99");
}

TEST(Json, PrintsBytesAsTextAndReplacesWhatIsNotUtf8) {
  v1::ReadLogsResponse piece;
  piece.set_data("a\xff\n");
  EXPECT_EQ(Line(ToJson(piece)).find("\"data\":\"a\xEF\xBF\xBD\\n\"") != std::string::npos, true)
      << Line(ToJson(piece));
}

TEST(Json, KeepsTheOrderOfTheProtoInOneLine) {
  v1::WatchTelemetryResponse response;
  response.mutable_frame()->set_sequence(3);
  const std::string line = Line(ToJson(response));
  EXPECT_EQ(line.back(), '\n');
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_LT(line.find("\"sequence\":3"), line.find("\"time_ns\":0"));
  EXPECT_LT(line.find("\"frame\""), line.find("\"dropped\""));
}

}  // namespace
}  // namespace stageload::ctl
