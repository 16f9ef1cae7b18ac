// JobService of one connection.
//
// Threading: gRPC's threads.
#ifndef STAGELOAD_DAEMON_RPC_JOB_SERVICE_H_
#define STAGELOAD_DAEMON_RPC_JOB_SERVICE_H_

#include "daemon/rpc/open_streams.h"
#include "daemon/rpc/parts.h"
#include "daemon/rpc/typed_call.h"
#include "stageload/v1/job_service.grpc.pb.h"

namespace stageload::rpc {

class JobService final {
 public:
  using Api = v1::JobService;

  JobService(const Parts& parts, OpenStreams& streams) : parts_(parts), streams_(streams) {}

  void SubmitJob(const v1::SubmitJobRequest& request, UnaryCall<v1::SubmitJobResponse> call);
  void GetJob(const v1::GetJobRequest& request, UnaryCall<v1::GetJobResponse> call);
  void ListJobs(const v1::ListJobsRequest& request, UnaryCall<v1::ListJobsResponse> call);
  void WaitJob(const v1::WaitJobRequest& request, StreamCall<v1::WaitJobResponse> call);
  void CancelJob(const v1::CancelJobRequest& request, UnaryCall<v1::CancelJobResponse> call);
  void HoldJob(const v1::HoldJobRequest& request, UnaryCall<v1::HoldJobResponse> call);
  void ReleaseJob(const v1::ReleaseJobRequest& request, UnaryCall<v1::ReleaseJobResponse> call);
  void SuspendJob(const v1::SuspendJobRequest& request, UnaryCall<v1::SuspendJobResponse> call);
  void ResumeJob(const v1::ResumeJobRequest& request, UnaryCall<v1::ResumeJobResponse> call);
  void RetryJob(const v1::RetryJobRequest& request, UnaryCall<v1::RetryJobResponse> call);
  void WatchJobs(const v1::WatchJobsRequest& request, StreamCall<v1::WatchJobsResponse> call);
  void UpdateJob(const v1::UpdateJobRequest& request, UnaryCall<v1::UpdateJobResponse> call);
  void HoldQueue(const v1::HoldQueueRequest& request, UnaryCall<v1::HoldQueueResponse> call);
  void ReleaseQueue(const v1::ReleaseQueueRequest& request,
                    UnaryCall<v1::ReleaseQueueResponse> call);
  void ListProfiles(const v1::ListProfilesRequest& request,
                    UnaryCall<v1::ListProfilesResponse> call);
  void DeleteProfile(const v1::DeleteProfileRequest& request,
                     UnaryCall<v1::DeleteProfileResponse> call);
  void DeleteJob(const v1::DeleteJobRequest& request, UnaryCall<v1::DeleteJobResponse> call);
  void ReadLogs(const v1::ReadLogsRequest& request, StreamCall<v1::ReadLogsResponse> call);

 private:
  const Parts& parts_;
  OpenStreams& streams_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_JOB_SERVICE_H_
