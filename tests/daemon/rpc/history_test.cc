#include "daemon/rpc/history.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stageload::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

void ExpectInvalid(const v1::ListHistoryRequest& request, const std::string& field) {
  const absl::Status status = ToEventQuery(request).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << field << ": " << status;
  EXPECT_EQ(ReasonOf(status), kInvalidField) << status;
  EXPECT_EQ(FieldOf(status), field) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith(field + ": "));
}

std::vector<store::EventRow> Rows(int count, std::size_t text_size = 1) {
  std::vector<store::EventRow> rows;
  for (int i = 0; i < count; ++i) {
    rows.push_back({absl::FromUnixNanos(1000 - i), core::JobId{7}, "warned",
                    std::string(text_size, 'x'), 50 - i});
  }
  return rows;
}

TEST(ToEventQueryTest, WhatIsNotAskedForIsNotFiltered) {
  const auto query = ToEventQuery({});
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->limit, 100);
  EXPECT_FALSE(query->before || query->since || query->until || query->job);
  EXPECT_THAT(query->kinds, IsEmpty());
}

TEST(ToEventQueryTest, EveryFieldIsTaken) {
  v1::ListHistoryRequest request;
  request.set_page_size(1000);
  request.set_page_token("-5.9");
  request.set_since_ns(0);
  request.set_until_ns(std::numeric_limits<std::int64_t>::max());
  request.set_job_id(3);
  request.add_kinds("ended");
  request.add_kinds("gap");
  const auto query = ToEventQuery(request);
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->limit, 1000);
  EXPECT_EQ(query->before->time, absl::FromUnixNanos(-5));
  EXPECT_EQ(query->before->id, 9);
  EXPECT_EQ(query->since, absl::UnixEpoch()) << "0 is a time";
  EXPECT_EQ(query->until, absl::FromUnixNanos(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(query->job, core::JobId{3});
  EXPECT_THAT(query->kinds, ElementsAre("ended", "gap"));
}

TEST(ToEventQueryTest, WhatCannotBeIsRefusedByName) {
  v1::ListHistoryRequest request;
  for (const int size : {-1, 1001}) {
    request.set_page_size(size);
    ExpectInvalid(request, "page_size");
  }
  request = {};
  for (const char* token : {"x", "5", "5.", "5.x", "5.0", "5.1.2", "99999999999999999999.1"}) {
    request.set_page_token(token);
    ExpectInvalid(request, "page_token");
  }
  request = {};
  request.set_job_id(-1);
  ExpectInvalid(request, "job_id");
  request = {};
  for (int i = 0; i <= 100; ++i) request.add_kinds("ended");
  ExpectInvalid(request, "kinds");
}

TEST(FillHistoryTest, TheLastPageHasNoNextAndOthersNameIt) {
  v1::ListHistoryResponse whole;
  FillHistory(Rows(3), 3, whole);
  EXPECT_EQ(whole.events_size(), 3);
  EXPECT_THAT(std::string(whole.next_page_token()), IsEmpty());
  EXPECT_EQ(std::string(whole.events(0).kind()), "warned");
  EXPECT_EQ(whole.events(0).job_id(), 7);
  EXPECT_EQ(whole.events(0).time_ns(), 1000);

  v1::ListHistoryResponse page;
  FillHistory(Rows(3), 2, page);
  EXPECT_EQ(page.events_size(), 2);
  v1::ListHistoryRequest next;
  next.set_page_token(page.next_page_token());
  const auto query = ToEventQuery(next);
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->before->time, absl::FromUnixNanos(999));
  EXPECT_EQ(query->before->id, 49);
}

TEST(FillHistoryTest, APageOfLongTextsEndsBeforeAClientWouldRefuseIt) {
  v1::ListHistoryResponse page;
  FillHistory(Rows(1000, 10'000), 1000, page);
  EXPECT_LT(page.ByteSizeLong(), std::size_t{4} << 20);
  EXPECT_GT(page.events_size(), 100);
  EXPECT_EQ(std::string(page.next_page_token()),
            absl::StrCat(1000 - (page.events_size() - 1), ".", 50 - (page.events_size() - 1)));
}

}  // namespace
}  // namespace stageload::rpc
