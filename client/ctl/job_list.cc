#include "client/ctl/job_list.h"

#include <cstdint>
#include <set>

#include "client/ctl/call.h"

namespace stageload::ctl {
namespace {

// The first page comes quickly, and none keeps the daemon from its other work for long.
constexpr int kPage = 500;

}  // namespace

absl::Status ListJobs(const Connection& connection, v1::ListJobsRequest request,
                      const std::function<bool(const v1::Job&)>& each,
                      std::optional<std::string>* queue_held) {
  request.set_page_size(kPage);
  std::set<std::int64_t> seen;  // one that starts between two pages is in both
  do {
    const absl::StatusOr<v1::ListJobsResponse> page =
        CallJobs<v1::ListJobsRequest, v1::ListJobsResponse>(
            connection, &v1::JobService::Stub::ListJobs, request);
    if (!page.ok()) return page.status();
    if (queue_held != nullptr && page->has_queue_held()) *queue_held = page->queue_held();
    for (const v1::Job& job : page->jobs()) {
      if (seen.insert(job.id()).second && !each(job)) return absl::OkStatus();
    }
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return absl::OkStatus();
}

}  // namespace stageload::ctl
