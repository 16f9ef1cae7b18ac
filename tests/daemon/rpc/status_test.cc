// Errors on the wire: whatever the text, gRPC passes all of it on.
#include "daemon/rpc/status.h"

#include <string>

#include "base/error_reason.h"
#include "base/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "stageload/v1/error.pb.h"

namespace stageload::rpc {
namespace {

v1::ErrorStatus DetailsOf(const grpc::Status& status) {
  v1::ErrorStatus details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

// What the message takes in its header, percent-encoded.
std::size_t EncodedSize(const std::string& message) {
  std::size_t size = 0;
  for (const char c : message) size += c >= 0x20 && c < 0x7F && c != '%' ? 1 : 3;
  return size;
}

TEST(ToGrpcTest, OkIsOkWithoutDetails) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_EQ(ToGrpc(absl::OkStatus()).error_details(), "");
}

TEST(ToGrpcTest, CodeMessageReasonAndFieldArrive) {
  const grpc::Status status =
      ToGrpc(WithReason(absl::InvalidArgumentError("id: 0 is not"), kInvalidField, "id"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "id: 0 is not");
  const v1::ErrorStatus details = DetailsOf(status);
  EXPECT_EQ(details.code(), 3);
  EXPECT_EQ(details.message(), "id: 0 is not");
  ASSERT_EQ(details.details_size(), 1);
  EXPECT_EQ(details.details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
  v1::ErrorInfo info;
  ASSERT_TRUE(info.ParseFromString(details.details(0).value()));
  EXPECT_EQ(info.reason(), "INVALID_FIELD");
  EXPECT_EQ(info.domain(), "stageload.dev");
  EXPECT_EQ(info.metadata().at("field"), "id");
}

TEST(ToGrpcTest, OnlyWhatMayBeTriedAgainSaysSo) {
  const grpc::Status unavailable =
      ToGrpc(WithReason(absl::UnavailableError("shutting down"), kShuttingDown));
  const v1::ErrorStatus details = DetailsOf(unavailable);
  ASSERT_EQ(details.details_size(), 2);
  EXPECT_EQ(details.details(1).type_url(), "type.googleapis.com/google.rpc.RetryInfo");
  v1::RetryInfo retry;
  ASSERT_TRUE(retry.ParseFromString(details.details(1).value()));
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(DetailsOf(ToGrpc(absl::NotFoundError("no"))).details_size(), 0);
}

TEST(ToGrpcTest, NoTextTakesMoreThanGrpcPassesOn) {
  std::string umlauts;
  for (int i = 0; i < 10'000; ++i) umlauts += "\xC3\xA4";
  for (const std::string& text :
       {std::string(100'000, 'x'), std::string(100'000, '\xFF'), std::string(100'000, '%'),
        std::string(100'000, '\0'), umlauts, "a" + umlauts, "ab" + umlauts}) {
    const grpc::Status status =
        ToGrpc(WithReason(absl::UnavailableError(text), kStoreFailed, "policy.swap_budget_bytes"));
    EXPECT_LE(EncodedSize(status.error_message()), 2048u);
    EXPECT_GE(EncodedSize(status.error_message()), 2040u) << "no more is cut than must be";
    EXPECT_EQ(ToUtf8(status.error_message()), status.error_message()) << "cut in a character";
    EXPECT_LE(EncodedSize(status.error_message()) + status.error_details().size() * 4 / 3, 7168u);
  }
}

TEST(ToGrpcTest, ATextThatFitsIsNotCut) {
  const std::string text(2048, 'x');
  EXPECT_EQ(ToGrpc(absl::InternalError(text)).error_message(), text);
  EXPECT_EQ(ToGrpc(absl::InternalError("a\xC3\xA4\xFF")).error_message(), "a\xC3\xA4\xEF\xBF\xBD");
}

TEST(ToUtf8Test, WellFormedTextStays) {
  for (const char* text : {"", "plain", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
                           "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(ToUtf8(text), text);
  }
}

TEST(ToUtf8Test, EachByteOfNoCharacterIsReplaced) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(ToUtf8("\x80"), bad);
  EXPECT_EQ(ToUtf8("a\xFFz"), "a" + bad + "z");
  EXPECT_EQ(ToUtf8("\xC3"), bad) << "cut off";
  EXPECT_EQ(ToUtf8("\xC0\xAF"), bad + bad) << "overlong";
  EXPECT_EQ(ToUtf8("\xE0\x80\xAF"), bad + bad + bad) << "overlong";
  EXPECT_EQ(ToUtf8("\xED\xA0\x80"), bad + bad + bad) << "a surrogate";
  EXPECT_EQ(ToUtf8("\xF4\x90\x80\x80"), bad + bad + bad + bad) << "beyond Unicode";
  EXPECT_EQ(ToUtf8("\xE2\x82z"), bad + bad + "z") << "the next character is kept";
}

}  // namespace
}  // namespace stageload::rpc
