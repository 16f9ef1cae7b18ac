// The promise itself, on real swap: what grows past its swap budget is stopped, and soon.
#include <gmock/gmock.h>

#include <iostream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text.h"
#include "tests/e2e/daemon_fixture.h"
#include "tests/e2e/swap_area.h"

namespace stageload::e2e {
namespace {

using ::testing::HasSubstr;

class RealSwap : public DaemonTest {};

TEST_F(RealSwap, AGuardedCommandIsStoppedWithin2SecondsOfCrossingItsBudget) {
  const absl::StatusOr<SwapArea> area = SwapArea::Create(GiB(1), MiB(200));
  if (!area.ok()) GTEST_SKIP() << "no swap can be made here: " << area.status().message();
  StartDaemon();  // outside of the cgroup
  const Bytes before = SwapUsed().value_or(Bytes(0));

  ChildProcess guard(
      {.argv = {"/bin/sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", area->processes_file(),
                kCtlProgram, "guard", "--wait-free", "0", "--swap-budget", "64M", "--",
                kLoadProgram, "--hold", "600M", "--for", "60s"},
       .environment = Environment(),
       .directory = folder(),
       .input = "",
       .output = PathOf("output/guard")});
  std::optional<absl::Time> crossed;
  Bytes most;
  const bool ended = Eventually([&] {
    const Bytes grown = SwapUsed().value_or(Bytes(0)) - before;
    most = std::max(most, grown);
    if (!crossed && grown > MiB(64)) crossed = absl::Now();
    return !guard.Running();
  });
  const absl::Time end = absl::Now();
  ASSERT_TRUE(ended) << guard.Err();
  const Result result = guard.Wait();
  ASSERT_TRUE(crossed) << "swap grew by only " << FormatBytes(most) << "\n" << result;

  EXPECT_EQ(result.exit_code, 3) << result;
  EXPECT_LE(end - *crossed, absl::Seconds(2));
  EXPECT_THAT(result.err, HasSubstr("SWAP_BUDGET"));
  EXPECT_THAT(result.err, HasSubstr("64 MiB"));
  EXPECT_EQ(StateOf(1), "OUT_OF_MEMORY");
  EXPECT_TRUE(Eventually([&] { return ProcessesOf(folder()).size() == 1; }))
      << "a process is left beside the daemon";
  std::cout << "Ran on real swap: stopped " << absl::FormatDuration(end - *crossed)
            << " after crossing 64 MiB; swap had grown by " << FormatBytes(most) << " at most.\n"
            << "The guard said: " << result.err;
}

TEST_F(RealSwap, AGuardWhoseDaemonWasKilledExitsWith3WhenTheNextOneStopsItForItsBudget) {
  const absl::StatusOr<SwapArea> area = SwapArea::Create(GiB(1), MiB(200));
  if (!area.ok()) GTEST_SKIP() << "no swap can be made here: " << area.status().message();
  StartDaemon();  // outside of the cgroup
  ChildProcess guard({.argv = {"/bin/sh", "-c", "echo $$ > \"$0\" && exec \"$@\"",
                               area->processes_file(), kCtlProgram, "guard", "--wait-free", "0",
                               "--swap-budget", "64M", "--", "/bin/sh", "-c",
                               absl::StrCat("echo started; while [ ! -e ", PathOf("go"),
                                            " ]; do sleep 0.02; done; exec ", kLoadProgram,
                                            " --hold 600M --for 60s")},
                      .environment = Environment({"STAGELOAD_NO_AUTOSTART=1"}),
                      .directory = folder(),
                      .input = "",
                      .output = PathOf("output/guard")});
  ASSERT_TRUE(guard.Prints("started\n")) << guard.Err();
  KillDaemon();
  StartDaemon();
  Touch(PathOf("go"));
  const Result result = guard.Wait();
  EXPECT_EQ(result.exit_code, 3) << result;
  EXPECT_THAT(result.err, HasSubstr("SWAP_BUDGET"));
  EXPECT_THAT(result.err, HasSubstr("64 MiB"));
  EXPECT_EQ(StateOf(1), "OUT_OF_MEMORY");
}

}  // namespace
}  // namespace stageload::e2e
