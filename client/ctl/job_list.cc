#include "client/ctl/job_list.h"

#include <utility>

#include "client/ctl/call.h"

namespace stageload::ctl {
namespace {

constexpr int kPage = 1000;

}  // namespace

absl::StatusOr<std::vector<v1::Job>> ListJobs(const Connection& connection,
                                              const std::vector<v1::JobState>& states) {
  v1::ListJobsRequest request;
  request.set_page_size(kPage);
  for (const v1::JobState state : states) request.add_states(state);
  std::vector<v1::Job> jobs;
  do {
    absl::StatusOr<v1::ListJobsResponse> page = CallJobs<v1::ListJobsRequest, v1::ListJobsResponse>(
        connection, &v1::JobService::Stub::ListJobs, request);
    if (!page.ok()) return page.status();
    for (v1::Job& job : *page->mutable_jobs()) jobs.push_back(std::move(job));
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return jobs;
}

}  // namespace stageload::ctl
