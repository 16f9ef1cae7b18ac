#include "daemon/rpc/history.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error_reason.h"
#include "daemon/rpc/convert_frame.h"

namespace stageload::rpc {
namespace {

constexpr int kMaxPage = 1000;
constexpr int kDefaultPage = 100;
constexpr int kMaxKinds = 100;
constexpr std::size_t kMaxPageBytes = std::size_t{2} << 20;  // a client takes 4 MiB by default

absl::Status Invalid(const char* field, const std::string& text) {
  return WithReason(absl::InvalidArgumentError(absl::StrCat(field, ": ", text)), kInvalidField,
                    field);
}

// "time.id"
std::string ToToken(const store::EventRow& row) {
  return absl::StrCat(absl::ToUnixNanos(row.time), ".", row.id);
}

absl::StatusOr<store::EventPlace> ToPlace(const std::string& token) {
  const std::vector<std::string> words = absl::StrSplit(token, '.');
  std::int64_t time = 0;
  std::int64_t id = 0;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &time) || !absl::SimpleAtoi(words[1], &id) ||
      id < 1) {
    return Invalid("page_token", "is not one that ListHistory gave out");
  }
  return store::EventPlace{absl::FromUnixNanos(time), id};
}

}  // namespace

absl::StatusOr<store::EventQuery> ToEventQuery(const v1::ListHistoryRequest& request) {
  if (request.page_size() < 0 || request.page_size() > kMaxPage) {
    return Invalid("page_size", absl::StrCat(request.page_size(), " is not from 0 to ", kMaxPage));
  }
  store::EventQuery query;
  query.limit = request.page_size() == 0 ? kDefaultPage : request.page_size();
  if (!request.page_token().empty()) {
    const absl::StatusOr<store::EventPlace> place = ToPlace(std::string(request.page_token()));
    if (!place.ok()) return place.status();
    query.before = *place;
  }
  if (request.has_since_ns()) query.since = absl::FromUnixNanos(request.since_ns());
  if (request.has_until_ns()) query.until = absl::FromUnixNanos(request.until_ns());
  if (request.job_id() < 0) {
    return Invalid("job_id", absl::StrCat(request.job_id(), " is not a job id; they start at 1"));
  }
  if (request.job_id() > 0) query.job = core::JobId{request.job_id()};
  if (request.kinds_size() > kMaxKinds) {
    return Invalid("kinds", absl::StrCat(request.kinds_size(), " kinds, the limit is ", kMaxKinds));
  }
  query.kinds.assign(request.kinds().begin(), request.kinds().end());
  return query;
}

void FillHistory(const std::vector<store::EventRow>& rows, int limit,
                 v1::ListHistoryResponse& out) {
  std::size_t size = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool full = static_cast<int>(i) == limit || (i > 0 && size >= kMaxPageBytes);
    if (full) return out.set_next_page_token(ToToken(rows[i - 1]));
    v1::Event& event = *out.add_events();
    event = ToProto(telemetry::Event{rows[i].kind, rows[i].job, rows[i].text, rows[i].time});
    size += event.ByteSizeLong();
  }
}

}  // namespace stageload::rpc
