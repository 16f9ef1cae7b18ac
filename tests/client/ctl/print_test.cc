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

TEST(Table, LeavesSpareColumnsOutWhereTheyDoNotFit) {
  Table table({{.title = "ID", .right = true},
               {.title = "MEMORY", .spare = 1},
               {.title = "FOOTPRINT", .spare = 2},
               {.title = "REASON"}});
  table.Add({std::string("7"), std::string("1 GiB"), std::string("2 GiB"),
             std::string("needs 13.3 GiB, 9.1 GiB free")});
  EXPECT_EQ(table.Text(40, false),
            "ID  MEMORY  FOOTPRINT  REASON\n"
            " 7  1 GiB   2 GiB      needs 13.3 GiB, …\n");
  EXPECT_EQ(table.Text(30, false),
            "ID  MEMORY  REASON\n"
            " 7  1 GiB   needs 13.3 GiB, 9…\n");
  EXPECT_EQ(table.Text(20, false),
            "ID  REASON\n"
            " 7  needs 13.3 GiB,…\n");
}

TEST(Table, WrapsALastColumnThatIsNotToBeCut) {
  Table table({{.title = "ID", .right = true},
               {.title = "NAME", .limit = 24},
               {.title = "WAITS FOR", .wrap = true}});
  table.Add({std::string("7"), std::string("a"), std::string("needs 13.3 GiB, 9.1 GiB free now")});
  table.Add({std::string(), std::string(), std::string("held")});
  EXPECT_EQ(table.Text(0, false),
            "ID  NAME  WAITS FOR\n"
            " 7  a     needs 13.3 GiB, 9.1 GiB free now\n"
            "          held\n");
  EXPECT_EQ(table.Text(34, false),
            "ID  NAME  WAITS FOR\n"
            " 7  a     needs 13.3 GiB, 9.1 GiB\n"
            "          free now\n"
            "          held\n");
  EXPECT_EQ(table.Text(26, false),
            "ID  NAME\n"
            " 7  a\n"
            "    needs 13.3 GiB,\n"
            "    9.1 GiB free now\n"
            "    held\n")
      << "below, where there is hardly room beside the others";
}

TEST(Table, LeavesASpareLastColumnOutToo) {
  Table table({{.title = "NAME"}, {.title = "MEMORY", .spare = 1}, {.title = "MORE", .spare = 2}});
  table.Add({std::string("train"), std::string("12 GiB"), std::string("x")});
  EXPECT_EQ(table.Text(15, false),
            "NAME   MEMORY\n"
            "train  12 GiB\n");
}

TEST(Text, IsBrokenBetweenWordsAndNotBeforeAUnit) {
  using testing::ElementsAre;
  EXPECT_THAT(WordLines("level 63 %, 30.2 GiB of 48 GiB free", 0), testing::SizeIs(1));
  EXPECT_THAT(WordLines("level 63 %, 30.2 GiB of 48 GiB free", 9),
              ElementsAre("level", "63 %,", "30.2 GiB", "of 48 GiB", "free"));
  EXPECT_THAT(WordLines("in /a/long/path it", 6), ElementsAre("in", "/a/long/path", "it"));
  EXPECT_THAT(WordLines("模型 训练 x", 5), ElementsAre("模型", "训练", "x"));
  EXPECT_THAT(WordLines("", 5), ElementsAre(""));
  EXPECT_EQ(Hanging("one two three", 9, 4), "one\n    two\n    three");
}

TEST(Table, KeepsItsColumnsUnderEachOtherBehindWideCharacters) {
  Table table({{.title = "NAME", .limit = 12}, {.title = "LAST"}});
  for (const char* name : {"模型训练", "🚀 up", "größe", "plain"}) {
    table.Add({std::string(name), std::string("x")});
  }
  EXPECT_EQ(table.Text(0, false),
            "NAME      LAST\n"
            "模型训练  x\n"
            "🚀 up     x\n"
            "größe     x\n"
            "plain     x\n");
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
  EXPECT_EQ(Printable("a\u202Eb\u2066c\u2028d"), "a?b?c?d") << "it turns or breaks the line";
}

TEST(Text, IsValidUtf8WhateverItWas) {
  EXPECT_EQ(Printable("gr\xF6\xDF"
                      "e"),
            "gr??e");
  EXPECT_EQ(Printable("\xC0\x80|\xED\xA0\x80|\xF5\x80\x80\x80|\xE2\x80"), "??|???|????|??");
}

TEST(Text, LeavesOutWhatTerminalsDisagreeAbout) {
  EXPECT_EQ(Printable("👩‍🚀❤️👍🏽"), "👩🚀❤👍");
  EXPECT_EQ(Printable("\u0301a\u0301\u0302\u0303\u0304b"), "a\u0301\u0302b")
      << "no mark on what stands before, nor a pile of them";
}

TEST(Text, IsAsWideAsATerminalShowsIt) {
  EXPECT_EQ(Columns("模型"), 4U);
  EXPECT_EQ(Columns("🚀"), 2U);
  EXPECT_EQ(Columns("e\u0301"), 1U);
  EXPECT_EQ(Cut("模型服务", 8), "模型服务");
  EXPECT_EQ(Cut("模型服务", 7), "模型服…");
  EXPECT_EQ(Cut("模型服务", 6), "模型…") << "half of a character cannot be shown";
  EXPECT_EQ(Cut("e\u0301e\u0301e\u0301", 2), "e\u0301…");
}

TEST(Text, HasAFormInAscii) { EXPECT_EQ(Ascii("größe 模型 e\u0301…"), "gr??e ?? e~"); }

TEST(Table, LeavesNoBlanksAtTheEndOfALine) {
  Table table({{.title = "NAME"}, {.title = "MIDDLE"}, {.title = "LAST"}});
  table.Add({std::string("a"), std::string(), std::string()});
  table.Add({std::string("b"), std::string(), std::string("x")});
  EXPECT_EQ(table.Text(0, false),
            "NAME  MIDDLE  LAST\n"
            "a\n"
            "b             x\n");
}

TEST(Table, AlignsWideCharacters) {
  Table table({{.title = "NAME"}, {.title = "LAST"}});
  table.Add({std::string("模型"), std::string("x")});
  table.Add({std::string("train"), std::string("y")});
  EXPECT_EQ(table.Text(0, false),
            "NAME   LAST\n"
            "模型   x\n"
            "train  y\n");
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

TEST(JobTable, SaysWhatARunningClientWaitsFor) {
  v1::Frame frame;
  v1::WaitingRequest& request = *frame.add_waiting();
  request.set_job_id(8);
  request.set_lease_id(3);
  request.set_stage("vae");
  request.set_memory_bytes(6LL << 30);
  v1::Blocker& blocker = *request.add_blockers();
  blocker.set_kind(v1::BLOCKER_KIND_MEMORY);
  blocker.set_text("needs 6 GiB, 4 GiB free");
  v1::Job job = Job(8, v1::JOB_STATE_RUNNING, 0);
  EXPECT_THAT(JobTable({job}, frame).Text(0, false),
              HasSubstr("lease vae, 6 GiB: MEMORY: needs 6 GiB, 4 GiB free"));
  EXPECT_THAT(JobTable({Job(9, v1::JOB_STATE_RUNNING, 0)}, frame).Text(0, false),
              Not(HasSubstr("lease")));
  job.set_reason_text("suspended by a user");
  EXPECT_THAT(JobTable({job}, frame).Text(0, false), HasSubstr("suspended by a user"));
}

}  // namespace
}  // namespace stageload::ctl
