// guard --trace: the recording of what runs under a guard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/trace.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

class GuardTrace : public DaemonTest {
 protected:
  std::string path() const { return PathOf("run.jsonl"); }
  bool Exists() const { return access(path().c_str(), F_OK) == 0; }
  Trace Read() const {
    absl::StatusOr<Trace> trace = ReadTrace(path());
    if (trace.ok()) return *std::move(trace);
    ADD_FAILURE() << trace.status();
    return {};
  }
  std::size_t CountSamples() const {
    const absl::StatusOr<Trace> trace = ReadTrace(path());
    return trace.ok() ? trace->samples.size() : 0;
  }
  Arguments Guarding(const Arguments& command) const {
    return Arguments{"guard", "--wait-free", "0", "--grace", "1s", "--trace", path(), "--"} +
           command;
  }
};

TEST_F(GuardTrace, AFileThatMayGrowNoFurtherIsSaidAndTheCommandGoesOn) {
  StartDaemon();
  ChildProcess guard(
      {.argv = {"/bin/sh", "-c",
                absl::StrCat("ulimit -f 1; exec ", kCtlProgram, " guard --wait-free 0 --trace ",
                             path(), " -- sh -c 'sleep 3; exit 7'")},
       .environment = Environment(),
       .directory = folder(),
       .input = "",
       .output = PathOf("guard")});
  const Result result = guard.Wait();
  EXPECT_EQ(result.exit_code, 7) << result;
  EXPECT_THAT(result.err, HasSubstr("File too large"));
}

TEST_F(GuardTrace, HasTheRunFromBeforeItsFirstInstructionToItsEndWithItsMarks) {
  StartDaemon();
  const Result result =
      Ctl({"guard", "--wait-free", "0", "--swap-budget", "3G", "--trace", path(), "--", "sh", "-c",
           absl::StrCat(kCtlProgram, " mark --stage load && ", kLoadProgram,
                        " --hold 128M --for 1500ms >/dev/null; exit 7")});
  EXPECT_EQ(result.exit_code, 7) << result;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("samples in"));

  const Trace trace = Read();
  EXPECT_TRUE(trace.ended);
  EXPECT_EQ(trace.samples.front().t, 0);
  EXPECT_EQ(trace.samples.front().footprint, Bytes());
  EXPECT_THAT(trace.events, Contains(Field(&TraceEvent::stage, "load")));
  EXPECT_THAT(trace.events, Contains(Field(&TraceEvent::note, "the command exited with 7")));
  const json summary = CtlJson({"summary", path(), "--json"});
  EXPECT_THAT(summary.at("peak_footprint").get<std::int64_t>(),
              AllOf(Ge(MiB(128).count()), Le(MiB(176).count())));
  EXPECT_EQ(summary.at("meta").at("swap_budget").get<std::int64_t>(), GiB(3).count());
  EXPECT_EQ(summary.at("meta").at("command").at(0), "sh");
}

TEST_F(GuardTrace, EndsWithACommandThatIsStoppedAndSaysByWhat) {
  StartDaemon();
  ChildProcess guard = StartCtl(Guarding({"sleep", "600"}));
  ASSERT_TRUE(Eventually([&] { return CountSamples() > 0; })) << guard.Err();
  ASSERT_EQ(Ctl({"cancel", "1"}).exit_code, 0);
  EXPECT_EQ(guard.Wait().exit_code, 1);
  const Trace trace = Read();
  EXPECT_TRUE(trace.ended);
  EXPECT_THAT(trace.events, Contains(Field(&TraceEvent::note, HasSubstr("ended by signal 15"))));
  EXPECT_THAT(trace.events, Contains(Field(&TraceEvent::note, "CANCELLED: cancelled while it ran")))
      << ReadFile(path());
}

TEST_F(GuardTrace, AFileWithSomethingInItIsLeftAloneAndTheCommandNotRun) {
  StartDaemon();
  WriteFile(path(), "last night's\n");
  const Result result = Ctl(Guarding({"touch", PathOf("ran")}));
  EXPECT_EQ(result.exit_code, 1) << result;
  EXPECT_THAT(result.err, AllOf(HasSubstr("--trace"), HasSubstr(path()), HasSubstr("exists")));
  EXPECT_EQ(ReadFile(path()), "last night's\n");
  EXPECT_NE(access(PathOf("ran").c_str(), F_OK), 0);
}

TEST_F(GuardTrace, WhatNeverStartedLeavesNoFile) {
  StartDaemon();
  const Result result = Ctl(
      {"guard", "--wait-free", "100", "--start-timeout", "1s", "--trace", path(), "--", "true"});
  EXPECT_EQ(result.exit_code, 4) << result;
  EXPECT_FALSE(Exists());
}

TEST_F(GuardTrace, GoesOnWithTheNextDaemonAndNotesTheGap) {
  StartDaemon();
  ChildProcess guard = StartCtl(Guarding(
      {"sh", "-c", absl::StrCat("while [ ! -e ", PathOf("go"), " ]; do sleep 0.1; done")}));
  ASSERT_TRUE(Eventually([&] { return CountSamples() > 1; })) << guard.Err();
  KillDaemon();
  const std::size_t before = CountSamples();
  EXPECT_TRUE(Eventually([&] { return CountSamples() > before + 2; })) << guard.Err();
  Touch(PathOf("go"));
  EXPECT_EQ(guard.Wait().exit_code, 0);
  EXPECT_THAT(Read().events, Contains(Field(&TraceEvent::note, HasSubstr("no samples for"))));
}

}  // namespace
}  // namespace stageload::e2e
