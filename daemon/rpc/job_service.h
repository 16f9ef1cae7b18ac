// JobService of one connection.
//
// Threading: gRPC's threads.
#ifndef STAGELOAD_DAEMON_RPC_JOB_SERVICE_H_
#define STAGELOAD_DAEMON_RPC_JOB_SERVICE_H_

#include "daemon/rpc/open_streams.h"
#include "daemon/rpc/parts.h"
#include "stageload/v1/job_service.grpc.pb.h"

namespace stageload::rpc {

class JobService final : public v1::JobService::CallbackService {
 public:
  JobService(const Parts& parts, OpenStreams& streams) : parts_(parts), streams_(streams) {}

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context,
                                      const v1::SubmitJobRequest* request,
                                      v1::SubmitJobResponse* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest* request,
                                   v1::GetJobResponse* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerWriteReactor<v1::WaitJobResponse>* WaitJob(
      grpc::CallbackServerContext* context, const v1::WaitJobRequest* request) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::CancelJobResponse* response) override;
  grpc::ServerUnaryReactor* HoldJob(grpc::CallbackServerContext* context,
                                    const v1::HoldJobRequest* request,
                                    v1::HoldJobResponse* response) override;
  grpc::ServerUnaryReactor* ReleaseJob(grpc::CallbackServerContext* context,
                                       const v1::ReleaseJobRequest* request,
                                       v1::ReleaseJobResponse* response) override;
  grpc::ServerUnaryReactor* SuspendJob(grpc::CallbackServerContext* context,
                                       const v1::SuspendJobRequest* request,
                                       v1::SuspendJobResponse* response) override;
  grpc::ServerUnaryReactor* ResumeJob(grpc::CallbackServerContext* context,
                                      const v1::ResumeJobRequest* request,
                                      v1::ResumeJobResponse* response) override;
  grpc::ServerUnaryReactor* RetryJob(grpc::CallbackServerContext* context,
                                     const v1::RetryJobRequest* request,
                                     v1::RetryJobResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchJobsResponse>* WatchJobs(
      grpc::CallbackServerContext* context, const v1::WatchJobsRequest* request) override;
  grpc::ServerUnaryReactor* UpdateJob(grpc::CallbackServerContext* context,
                                      const v1::UpdateJobRequest* request,
                                      v1::UpdateJobResponse* response) override;
  grpc::ServerUnaryReactor* HoldQueue(grpc::CallbackServerContext* context,
                                      const v1::HoldQueueRequest* request,
                                      v1::HoldQueueResponse* response) override;
  grpc::ServerUnaryReactor* ReleaseQueue(grpc::CallbackServerContext* context,
                                         const v1::ReleaseQueueRequest* request,
                                         v1::ReleaseQueueResponse* response) override;
  grpc::ServerUnaryReactor* ListProfiles(grpc::CallbackServerContext* context,
                                         const v1::ListProfilesRequest* request,
                                         v1::ListProfilesResponse* response) override;
  grpc::ServerUnaryReactor* DeleteProfile(grpc::CallbackServerContext* context,
                                          const v1::DeleteProfileRequest* request,
                                          v1::DeleteProfileResponse* response) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext* context,
                                      const v1::DeleteJobRequest* request,
                                      v1::DeleteJobResponse* response) override;
  grpc::ServerWriteReactor<v1::ReadLogsResponse>* ReadLogs(
      grpc::CallbackServerContext* context, const v1::ReadLogsRequest* request) override;

 private:
  const Parts& parts_;
  OpenStreams& streams_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_JOB_SERVICE_H_
