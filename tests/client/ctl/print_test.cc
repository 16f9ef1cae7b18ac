// Tables and what they may not do to a terminal.
#include "client/ctl/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "client/ctl/job_table.h"

namespace stageload::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Table, AlignsItsColumns) {
  Table table({{.title = "ID", .right = true}, {.title = "NAME"}, {.title = "LAST"}});
  table.Add({std::string("7"), std::string("train"), std::string("x")});
  table.Add({std::string("1234"), std::string("a"), std::string("yy")});
  EXPECT_EQ(table.Text(0, false),
            "  ID  NAME   LAST\n"
            "   7  train  x\n"
            "1234  a      yy\n");
}

TEST(Table, CutsWideNamesAndTheLastColumnToTheTerminal) {
  Table table({{.title = "NAME", .limit = 6}, {.title = "REASON"}});
  table.Add({std::string("a-very-long-name"), std::string("needs 13.3 GiB, 9.1 GiB free")});
  EXPECT_EQ(table.Text(20, false),
            "NAME    REASON\n"
            "a-ver…  needs 13.3 …\n");
  EXPECT_THAT(table.Text(0, false), HasSubstr("9.1 GiB free"));
}

TEST(Table, ColoursOnlyWhenAsked) {
  Table table({{.title = "STATE"}});
  table.Add({{"RUNNING", Colour::kGreen}});
  EXPECT_THAT(table.Text(0, false), Not(HasSubstr("\033")));
  EXPECT_THAT(table.Text(0, true), HasSubstr("\033[32mRUNNING\033[0m"));
}

TEST(Text, CannotDriveTheTerminal) {
  EXPECT_EQ(Printable("a\033[2Jb\n\x7f"), "a?[2Jb??");
  EXPECT_EQ(Printable("\xC2\x9B"
                      "2J"),
            "?2J");
  EXPECT_EQ(Printable("größe…"), "größe…");
}

TEST(Text, IsCutAtCharactersAndNotBytes) {
  EXPECT_EQ(Columns("größe"), 5U);
  EXPECT_EQ(Cut("größe", 5), "größe");
  EXPECT_EQ(Cut("größen", 5), "größ…");
  EXPECT_EQ(Cut("abc", 1), "…");
  EXPECT_EQ(Cut("abc", 0), "");
}

v1::Job Job(std::int64_t id, v1::JobState state, std::int64_t position = 0) {
  v1::Job job;
  job.set_id(id);
  job.set_state(state);
  job.set_queue_position(position);
  return job;
}

TEST(JobTable, SaysWhatAWaitingJobNeeds) {
  v1::Job job = Job(8, v1::JOB_STATE_PENDING, 1);
  job.set_name("train");
  job.mutable_policy()->set_memory_bytes(20LL << 30);
  v1::Blocker& blocker = *job.add_blockers();
  blocker.set_kind(v1::BLOCKER_KIND_MEMORY);
  blocker.set_text("needs 20 GiB, 9.1 GiB free");
  job.add_blockers()->set_kind(v1::BLOCKER_KIND_LEVEL);
  EXPECT_THAT(JobTable({job}).Text(0, false),
              testing::AllOf(HasSubstr("PENDING"), HasSubstr("20 GiB"),
                             HasSubstr("MEMORY: needs 20 GiB, 9.1 GiB free (+1 more)")));
}

}  // namespace
}  // namespace stageload::ctl
