// The files of a job's folder come back as they were written, or are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include "daemon/jobs/durable_file.h"
#include "daemon/jobs/job_lock.h"
#include "daemon/jobs/result_file.h"
#include "daemon/jobs/spec_file.h"
#include "tests/daemon/jobs/fixture.h"

namespace stageload::jobs {
namespace {

using ::testing::HasSubstr;

core::JobSpec OddSpec() {
  core::JobSpec spec;
  spec.argv = {"printf", "", "\xff\n'"};
  spec.working_directory = "/a b\n";
  spec.environment = {"A=1", "B=", "C=\xe9"};
  spec.umask = 0077;
  spec.soft_limits = {{7, 99}, {3, std::numeric_limits<std::uint64_t>::max()}};
  return spec;
}

TEST(SpecFile, EveryFieldComesBack) {
  const core::JobSpec spec = OddSpec();
  const absl::StatusOr<core::JobSpec> read = DecodeSpec(EncodeSpec(spec));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->argv, spec.argv);
  EXPECT_EQ(read->working_directory, spec.working_directory);
  EXPECT_EQ(read->environment, spec.environment);
  EXPECT_EQ(read->umask, spec.umask);
  EXPECT_EQ(read->soft_limits, spec.soft_limits);
}

TEST(SpecFile, OneThatIsCutAnywhereOrTooLongIsRefused) {
  const std::string bytes = EncodeSpec(OddSpec());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeSpec(bytes.substr(0, size)).status().code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(DecodeSpec(bytes + "x").status().code(), absl::StatusCode::kDataLoss);
}

TEST(SpecFile, ACountBeyondTheFileIsRefusedWithoutAsMuchMemory) {
  std::string bytes = EncodeSpec(OddSpec());
  bytes.replace(17, 8, std::string(8, '\xff'));
  EXPECT_EQ(DecodeSpec(bytes).status().code(), absl::StatusCode::kDataLoss);
}

TEST(ResultFile, EveryFieldComesBack) {
  Result result;
  result.outcome.exit_code = 127;
  result.outcome.start_errno = 2;
  result.start_time = absl::FromUnixNanos(1'700'000'000'123'456'789);
  result.end_time = absl::FromUnixNanos(1'700'000'001'000'000'001);
  result.max_rss = GiB(40);
  result.user_time = absl::Microseconds(1234567);
  result.system_time = absl::Microseconds(7);
  result.log_dropped = Bytes(99);
  const absl::StatusOr<Result> read = DecodeResult(EncodeResult(result));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->outcome.exit_code, 127);
  EXPECT_EQ(read->outcome.start_errno, 2);
  EXPECT_FALSE(read->outcome.signal.has_value());
  EXPECT_EQ(read->start_time, result.start_time);
  EXPECT_EQ(read->end_time, result.end_time);
  EXPECT_EQ(read->max_rss, result.max_rss);
  EXPECT_EQ(read->user_time, result.user_time);
  EXPECT_EQ(read->system_time, result.system_time);
  EXPECT_EQ(read->log_dropped, result.log_dropped);
}

TEST(ResultFile, OneThatSaysNeitherHowItEndedOrBothIsRefused) {
  EXPECT_EQ(DecodeResult("").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeResult("stageload-result=1\n").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeResult("stageload-result=1\nexit_code=0\nsignal=9\n").status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeResult("stageload-result=2\nexit_code=0\n").status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(ResultFile, LinesOfALaterVersionArePassedOver) {
  const absl::StatusOr<Result> read = DecodeResult("stageload-result=1\nsignal=9\nnew_figure=5\n");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->outcome.signal, 9);
}

TEST(ResultFile, IsWrittenIntoTheSpaceThatWasReservedForIt) {
  const TemporaryFolder temporary;
  const absl::StatusOr<Descriptor> folder = OpenFolder(temporary.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_TRUE(ReserveResult(folder->get()).ok());
  EXPECT_TRUE(absl::IsNotFound(ReadWhole(folder->get(), kResultFile).status()));
  struct stat reserved {};
  ASSERT_EQ(stat((temporary.path() + "/result.new").c_str(), &reserved), 0);
  // The longest figures, so that no result needs more than there is.
  Result result;
  result.outcome.signal = std::numeric_limits<int>::min();
  result.outcome.start_errno = std::numeric_limits<int>::min();
  result.start_time = result.end_time =
      absl::FromUnixNanos(std::numeric_limits<std::int64_t>::max());
  result.user_time = result.system_time = -absl::InfiniteDuration();
  result.max_rss = result.log_dropped = Bytes(std::numeric_limits<std::int64_t>::min());
  ASSERT_TRUE(WriteResult(folder->get(), result).ok());
  struct stat written {};
  ASSERT_EQ(stat((temporary.path() + "/result").c_str(), &written), 0);
  EXPECT_EQ(written.st_ino, reserved.st_ino);
  EXPECT_EQ(written.st_size, reserved.st_size);
  const absl::StatusOr<Result> read = DecodeResult(*ReadWhole(folder->get(), kResultFile));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->outcome, result.outcome);
  EXPECT_EQ(read->max_rss, result.max_rss);
}

TEST(DurableFile, ReplacesAFileAndLeavesNothingBeside) {
  const TemporaryFolder folder;
  const absl::StatusOr<Descriptor> descriptor = OpenFolder(folder.path());
  ASSERT_TRUE(WriteDurably(descriptor->get(), "file", "one").ok());
  ASSERT_TRUE(WriteDurably(descriptor->get(), "file", "two").ok());
  EXPECT_EQ(*ReadWhole(descriptor->get(), "file"), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(DurableFile, OneThatCannotBeReplacedIsAnErrorAndStaysAsItWas) {
  const TemporaryFolder folder;
  const absl::StatusOr<Descriptor> descriptor = OpenFolder(folder.path());
  std::filesystem::create_directory(folder.path() + "/file");
  const absl::Status status = WriteDurably(descriptor->get(), "file", "one");
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("file"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

class JobLockTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  Descriptor descriptor_ = *OpenFolder(folder_.path());
};

TEST_F(JobLockTest, TellsWhoHasItAndWhoHadIt) {
  EXPECT_FALSE(ReadLock(descriptor_.get())->written);
  {
    const absl::StatusOr<JobLock> lock = JobLock::Take(descriptor_.get());
    ASSERT_TRUE(lock.ok()) << lock.status();
    const absl::StatusOr<LockState> state = ReadLock(descriptor_.get());
    EXPECT_TRUE(state->held);
    EXPECT_TRUE(state->written);
    EXPECT_EQ(state->shim, IdentityOf(::getpid()));
  }
  const absl::StatusOr<LockState> state = ReadLock(descriptor_.get());
  EXPECT_FALSE(state->held);
  EXPECT_TRUE(state->written);
  EXPECT_EQ(state->shim, IdentityOf(::getpid()));
  EXPECT_EQ(JobLock::Take(descriptor_.get()).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(JobLockTest, OneThatWasWithdrawnCanBeTakenAgain) {
  {
    absl::StatusOr<JobLock> lock = JobLock::Take(descriptor_.get());
    ASSERT_TRUE(lock->Withdraw().ok());
  }
  EXPECT_FALSE(ReadLock(descriptor_.get())->written);
  EXPECT_TRUE(JobLock::Take(descriptor_.get()).ok());
}

TEST_F(JobLockTest, AGlanceOfAReaderDoesNotKeepTheShimFromIt) {
  const int reader =
      ::open((folder_.path() + "/job.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(reader, LOCK_SH), 0);
  const pid_t shim = ::fork();
  if (shim == 0) {
    ::close(reader);
    ::_exit(JobLock::Take(descriptor_.get()).ok() ? 0 : 1);
  }
  // It sleeps until it can try again.
  EXPECT_TRUE(Eventually([&] {
    const std::string stat = Contents("/proc/" + std::to_string(shim) + "/stat");
    return stat.substr(stat.rfind(')') + 2, 1) == "S";
  }));
  EXPECT_EQ(std::filesystem::file_size(folder_.path() + "/job.lock"), 0u);
  ::close(reader);
  int status = 0;
  ASSERT_EQ(::waitpid(shim, &status, 0), shim);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(JobLockTest, ALockFileThatCannotBeReadCountsAsTaken) {
  WriteFile(folder_.path() + "/job.lock", std::string(10, '\0'));
  const absl::StatusOr<LockState> state = ReadLock(descriptor_.get());
  EXPECT_TRUE(state->written);
  EXPECT_FALSE(state->shim.has_value());
  EXPECT_EQ(JobLock::Take(descriptor_.get()).status().code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace stageload::jobs
