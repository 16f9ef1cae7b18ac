// A status carries a word for programs beside its message for people.
#include "base/error_reason.h"

#include "gtest/gtest.h"

namespace stageload {
namespace {

TEST(ErrorReasons, TravelWithTheStatus) {
  const absl::Status status =
      WithReason(absl::InvalidArgumentError("percent 140: 0 to 100"), kInvalidField, "wait_free");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "percent 140: 0 to 100");
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELD");
  EXPECT_EQ(FieldOf(status), "wait_free");
}

TEST(ErrorReasons, NeedNoField) {
  const absl::Status status = WithReason(absl::NotFoundError("job 7"), kJobNotFound);
  EXPECT_EQ(ReasonOf(status), "JOB_NOT_FOUND");
  EXPECT_EQ(FieldOf(status), "");
}

TEST(ErrorReasons, AreEmptyWhereNoneWasAttached) {
  EXPECT_EQ(ReasonOf(absl::NotFoundError("x")), "");
  EXPECT_EQ(FieldOf(absl::NotFoundError("x")), "");
  EXPECT_EQ(ReasonOf(absl::OkStatus()), "");
}

TEST(ErrorReasons, DoNotTurnSuccessIntoFailure) {
  const absl::Status status = WithReason(absl::OkStatus(), kJobNotFound, "id");
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(ReasonOf(status), "");
}

}  // namespace
}  // namespace stageload
