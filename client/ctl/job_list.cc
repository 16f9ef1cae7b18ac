#include "client/ctl/job_list.h"

#include <utility>

#include "client/ctl/errors.h"
#include "stageload/v1/job_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

constexpr int kPage = 1000;

}  // namespace

absl::StatusOr<std::vector<v1::Job>> ListJobs(const Connection& connection,
                                              const std::vector<v1::JobState>& states) {
  const auto stub = v1::JobService::NewStub(connection.channel);
  v1::ListJobsRequest request;
  request.set_page_size(kPage);
  for (const v1::JobState state : states) request.add_states(state);
  std::vector<v1::Job> jobs;
  do {
    grpc::ClientContext context;
    SetTimeout(context);
    v1::ListJobsResponse response;
    const grpc::Status status = stub->ListJobs(&context, request, &response);
    if (!status.ok()) return FromGrpc(status);
    for (v1::Job& job : *response.mutable_jobs()) jobs.push_back(std::move(job));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return jobs;
}

}  // namespace stageload::ctl
