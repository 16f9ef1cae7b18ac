// Between the API's messages and the core's plain structs. What comes in is checked here, field by
// field, before anything else sees it.
//
// Threading: pure functions.
#ifndef STAGELOAD_DAEMON_RPC_CONVERT_H_
#define STAGELOAD_DAEMON_RPC_CONVERT_H_

#include <string>

#include "absl/status/statusor.h"
#include "daemon/engine/engine.h"
#include "stageload/v1/admission_service.pb.h"
#include "stageload/v1/job_service.pb.h"

namespace stageload::rpc {

// Errors are InvalidArgument with the field's path, the value and what would be right. What a
// request leaves out is as in `defaults`, but for the fields that it wants to be absent.
absl::StatusOr<core::Policy> ToPolicy(const v1::Policy& policy, core::Policy defaults = {});
// `policy` with what is set in the request, and without what is to be cleared.
absl::StatusOr<core::Policy> ChangedPolicy(const v1::UpdateJobRequest& request,
                                           core::Policy policy);
absl::StatusOr<engine::SubmitRequest> ToSubmit(const v1::SubmitJobRequest& request,
                                               const core::Defaults& defaults = {});
absl::StatusOr<engine::GuardRequest> ToGuard(const v1::GuardRequest& request,
                                             const core::Defaults& defaults = {});
absl::StatusOr<core::Outcome> ToOutcome(const v1::ReportExitRequest& request);
absl::StatusOr<store::ListQuery> ToListQuery(const v1::ListJobsRequest& request);
// Of a request for a list in the order of the queue: where its page begins.
absl::StatusOr<engine::QueuePlace> ToQueuePlace(const v1::ListJobsRequest& request);
absl::StatusOr<engine::RetryRequest> ToRetry(const v1::RetryJobRequest& request);
absl::StatusOr<std::vector<core::JobId>> ToJobIds(
    const char* field, const google::protobuf::RepeatedField<std::int64_t>& ids);
absl::StatusOr<core::JobId> ToJobId(std::int64_t id);

v1::Job ToProto(const engine::JobView& job);
v1::ListJobsResponse ToProto(const engine::JobPage& page);
v1::Profile ToProto(const engine::ProfileView& profile);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_CONVERT_H_
