// Hints of memory pressure on Linux: the trigger that is asked for, and what is said where there is
// none.
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <utility>

#include "daemon/host/host.h"
#include "gtest/gtest.h"
#include "tests/daemon/host/proc_tree.h"

namespace stageload::host {
namespace {

using ::testing::HasSubstr;
using std::string_literals::operator""s;

// Who waits for the descriptor, in the exit watcher's place.
struct Waiting {
  Host::WaitForUrgent AsFunction() {
    return [this](int number, std::function<void()> call) {
      descriptor = number;
      on_urgent = std::move(call);
      return answer;
    };
  }

  absl::Status answer = absl::OkStatus();
  int descriptor = -1;
  std::function<void()> on_urgent;
};

std::string ContentsOf(int descriptor) {
  char text[64];
  const ssize_t size = ::pread(descriptor, text, sizeof text, 0);
  return {text, size > 0 ? static_cast<std::size_t>(size) : 0};
}

TEST(TheLinuxPressure, IsAskedForAsATriggerAndHintsWhenItIsUrgent) {
  const ProcTree tree({{"proc/pressure/memory", ""}});
  auto host = tree.Open();
  Waiting waiting;
  int hints = 0;
  ASSERT_TRUE(host->OnPressure([&hints] { ++hints; }, waiting.AsFunction()).ok());
  // The kernel wants the zero, too.
  EXPECT_EQ(ContentsOf(waiting.descriptor), "some 150000 1000000\0"s);
  waiting.on_urgent();
  waiting.on_urgent();
  EXPECT_EQ(hints, 2);
  host.reset();
  struct stat about {};
  EXPECT_EQ(::fstat(waiting.descriptor, &about), -1) << "the descriptor is kept";
}

TEST(TheLinuxPressure, ThatTheKernelDoesNotHaveIsAnErrorThatNamesTheFile) {
  const ProcTree tree({{"proc/meminfo", "MemTotal: 1024 kB\nMemAvailable: 512 kB\n"}});
  const auto host = tree.Open();
  Waiting waiting;
  const absl::Status status = host->OnPressure([] {}, waiting.AsFunction());
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("open " + tree.proc() + "/pressure/memory for writing"));
  EXPECT_EQ(waiting.descriptor, -1);
  EXPECT_TRUE(host->Sample().ok());
}

// A stand-in that takes no writing, as /proc/pressure/memory takes none of a trigger without
// CAP_SYS_RESOURCE before Linux 6.5.
TEST(TheLinuxPressure, ThatTakesNoTriggerIsAnErrorThatNamesIt) {
  const ProcTree tree({{"proc/other", ""}});
  std::filesystem::create_directories(tree.proc() + "/pressure");
  std::filesystem::create_symlink("/dev/full", tree.proc() + "/pressure/memory");
  Waiting waiting;
  const absl::Status status = tree.Open()->OnPressure([] {}, waiting.AsFunction());
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("write \"some 300000 2000000\" to"));
  EXPECT_EQ(waiting.descriptor, -1);
}

TEST(TheLinuxPressure, ThatNobodyCanWaitForIsThatError) {
  const ProcTree tree({{"proc/pressure/memory", ""}});
  Waiting waiting;
  waiting.answer = absl::ResourceExhaustedError("no room");
  EXPECT_EQ(tree.Open()->OnPressure([] {}, waiting.AsFunction()).message(), "no room");
}

TEST(TheLinuxPressure, OfThisKernelIsQuietUntilItIsUrgent) {
  const auto host = NewLinuxHost({});
  Waiting waiting;
  const absl::Status status = host->OnPressure([] {}, waiting.AsFunction());
  if (!status.ok()) GTEST_SKIP() << "this kernel gives no trigger: " << status;
  pollfd urgent{waiting.descriptor, POLLPRI, 0};
  const int ready = ::poll(&urgent, 1, 0);
  ASSERT_GE(ready, 0);
  // A busy machine may have pressure; an error is what a trigger that was not taken has.
  EXPECT_EQ(urgent.revents & ~POLLPRI, 0);
}

}  // namespace
}  // namespace stageload::host
