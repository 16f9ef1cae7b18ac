// Exit codes, and errors as they come from the daemon.
#include "client/ctl/outcome.h"

#include <gmock/gmock.h>
#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

#include <csignal>

#include "base/error_reason.h"
#include "client/ctl/errors.h"
#include "client/ctl/waiting_line.h"
#include "stageload/v1/error.pb.h"

namespace stageload::ctl {
namespace {

using testing::HasSubstr;

v1::Job Ended(v1::JobState state) {
  v1::Job job;
  job.set_id(7);
  job.set_state(state);
  return job;
}

grpc::Status WithInfo(grpc::StatusCode code, const std::string& reason, const std::string& field) {
  v1::ErrorInfo info;
  info.set_reason(reason);
  (*info.mutable_metadata())["field"] = field;
  v1::ErrorStatus status;
  status.add_details()->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  v1::ErrorDetail& detail = *status.add_details();
  detail.set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  detail.set_value(info.SerializeAsString());
  return grpc::Status(code, "said so", status.SerializeAsString());
}

TEST(ExitCode, IsTheCommandsOwnOrItsSignals) {
  EXPECT_EQ(ExitCodeOf(Ended(v1::JOB_STATE_COMPLETED)), 0);
  v1::Job failed = Ended(v1::JOB_STATE_FAILED);
  failed.set_exit_code(7);
  EXPECT_EQ(ExitCodeOf(failed), 7);
  failed.clear_exit_code();
  failed.set_signal(SIGKILL);
  EXPECT_EQ(ExitCodeOf(failed), 137);
}

TEST(ExitCode, TellsOurStopsFromTheCommandsOwnFailures) {
  EXPECT_EQ(ExitCodeOf(Ended(v1::JOB_STATE_OUT_OF_MEMORY)), 3);
  EXPECT_EQ(ExitCodeOf(Ended(v1::JOB_STATE_NO_ROOM)), 4);
  // The parent may exit with 0 although a child of it was stopped.
  v1::Job zero = Ended(v1::JOB_STATE_OUT_OF_MEMORY);
  zero.set_exit_code(0);
  EXPECT_EQ(ExitCodeOf(zero), 3);
}

// ---- What it waits for, on one line ----

v1::Job Waits(v1::BlockerKind kind, double read, double needed, const std::string& text) {
  v1::Job job;
  job.set_id(1234);
  job.set_state(v1::JOB_STATE_PENDING);
  v1::Blocker& blocker = *job.add_blockers();
  blocker.set_kind(kind);
  blocker.set_read(read);
  blocker.set_needed(needed);
  blocker.set_text(text);
  return job;
}

TEST(WaitingLine, HasTheFiguresAlsoWhereItIsNarrow) {
  constexpr double kGiB = 1 << 30;
  const v1::Job limit = Waits(
      v1::BLOCKER_KIND_SWAP_LIMIT, 22 * kGiB, 20 * kGiB,
      "6 GiB of swap used + 8 GiB unspent budget of jobs 1 and 2 + 8 GiB budget = 22 GiB, limit is "
      "20 GiB");
  EXPECT_EQ(WaitingLine(limit, 0),
            "stageload: job 1234 waits: SWAP_LIMIT: " + std::string(limit.blockers(0).text()));
  EXPECT_EQ(WaitingLine(limit, 79), "job 1234 waits: SWAP_LIMIT: 22 GiB, limit is 20 GiB");
  v1::Job both = Waits(v1::BLOCKER_KIND_SETTLING, 3, 15,
                       "job 12 declared no memory and started only 3s ago, needs 15s");
  both.mutable_blockers(0)->set_ends_in_ns(12'000'000'000);
  *both.add_blockers() =
      Waits(v1::BLOCKER_KIND_LEVEL, 35.6, 40, "35.6 % available, needs 40 %").blockers(0);
  EXPECT_EQ(WaitingLine(both, 79),
            "job 1234 waits: SETTLING: ends in 12s; LEVEL: 35.6 %, needs 40 %");
  const v1::Job memory = Waits(v1::BLOCKER_KIND_MEMORY, 9.1 * kGiB, 12 * kGiB,
                               "needs 12 GiB, 9.1 GiB free after 16.3 GiB reserved by job 1");
  EXPECT_EQ(WaitingLine(memory, 39), "job 1234: MEMORY: 9.1 GiB, needs 12 GiB");
  EXPECT_EQ(WaitingLine(memory, 20), "job 1234: MEMORY: 9…");
  const v1::Job short_one = Waits(v1::BLOCKER_KIND_LEVEL, 35.6, 40, "35.6 % available, needs 40 %");
  EXPECT_EQ(WaitingLine(short_one, 79),
            "stageload: job 1234 waits: LEVEL: 35.6 % available, needs 40 %");
}

TEST(ExitCode, OfATimeLimitIsOneHoweverTheCommandTookIt) {
  v1::Job job = Ended(v1::JOB_STATE_TIMEOUT);
  job.set_reason(v1::REASON_TIMEOUT);
  job.set_signal(SIGTERM);
  EXPECT_EQ(ExitCodeOf(job), 1);
  job.clear_signal();
  job.set_exit_code(0);
  EXPECT_EQ(ExitCodeOf(job), 1);
}

TEST(ExitCode, IsNeverZeroForAJobThatIsNotKnownToHaveCompleted) {
  for (int state = 0; state <= v1::JobState_MAX; ++state) {
    if (state == v1::JOB_STATE_COMPLETED) continue;
    v1::Job job = Ended(static_cast<v1::JobState>(state));
    EXPECT_NE(ExitCodeOf(job), 0) << state;
    job.set_exit_code(0);
    EXPECT_NE(ExitCodeOf(job), 0) << state;
  }
  EXPECT_NE(ExitCodeOf(Ended(static_cast<v1::JobState>(99))), 0);
}

TEST(EndLine, GivesTheReasonWithItsFigures) {
  v1::Job job = Ended(v1::JOB_STATE_OUT_OF_MEMORY);
  job.set_reason(v1::REASON_SWAP_BUDGET);
  job.set_reason_text("charge 9 GiB, budget 8 GiB");
  EXPECT_EQ(EndLine(job), "job 7 stopped: SWAP_BUDGET: charge 9 GiB, budget 8 GiB");
  EXPECT_EQ(EndLine(Ended(v1::JOB_STATE_COMPLETED)), "");
  EXPECT_EQ(EndLine(Ended(v1::JOB_STATE_FAILED)), "");
  v1::Job late = Ended(v1::JOB_STATE_TIMEOUT);
  late.set_reason(v1::REASON_TIMEOUT);
  late.set_reason_text("it ran for its time limit of 1h");
  EXPECT_EQ(EndLine(late), "job 7 stopped: TIMEOUT: it ran for its time limit of 1h");
  v1::Job cancelled = Ended(v1::JOB_STATE_CANCELLED);
  cancelled.set_reason(v1::REASON_CANCELLED);
  cancelled.set_reason_text("while it waited");
  EXPECT_EQ(EndLine(cancelled), "job 7 cancelled: while it waited");
  EXPECT_EQ(EndLine(Ended(v1::JOB_STATE_UNKNOWN)), "job 7 ended as UNKNOWN");
}

TEST(Errors, KeepTheDaemonsMessageReasonAndField) {
  const absl::Status status =
      FromGrpc(WithInfo(grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", "policy.memory"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), "said so");
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELD");
  EXPECT_EQ(FieldOf(status), "policy.memory");
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(Errors, GiveTheExitCodesOfTheDesign) {
  EXPECT_EQ(ExitCodeOf(FromGrpc(WithInfo(grpc::StatusCode::INVALID_ARGUMENT, "NEVER_FITS", ""))),
            2);
  EXPECT_EQ(ExitCodeOf(FromGrpc(WithInfo(grpc::StatusCode::NOT_FOUND, "JOB_NOT_FOUND", "id"))), 1);
  EXPECT_EQ(
      ExitCodeOf(FromGrpc(WithInfo(grpc::StatusCode::RESOURCE_EXHAUSTED, "ADMISSION_TIMEOUT", ""))),
      4);
  EXPECT_EQ(ExitCodeOf(FromGrpc(WithInfo(grpc::StatusCode::RESOURCE_EXHAUSTED, "QUEUE_FULL", ""))),
            1);
  EXPECT_EQ(ExitCodeOf(FromGrpc(WithInfo(grpc::StatusCode::UNAVAILABLE, "SHUTTING_DOWN", ""))), 69);
  EXPECT_EQ(ExitCodeOf(FromGrpc(WithInfo(grpc::StatusCode::UNAVAILABLE, "STORE_FAILED", ""))), 1);
}

TEST(Errors, WithoutAReasonComeFromTheLibrary) {
  const absl::Status gone =
      FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed", "no protobuf \xff"));
  EXPECT_EQ(ExitCodeOf(gone), 69);
  EXPECT_THAT(std::string(gone.message()), HasSubstr("daemon went away"));
  EXPECT_EQ(ExitCodeOf(FromGrpc(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, ""))), 1);
}

}  // namespace
}  // namespace stageload::ctl
