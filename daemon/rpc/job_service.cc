#include "daemon/rpc/job_service.h"

#include <utility>

#include "daemon/rpc/convert.h"
#include "daemon/rpc/job_streams.h"
#include "daemon/rpc/job_watch.h"
#include "daemon/rpc/log_stream.h"

namespace stageload::rpc {
namespace {

// Asks one thing of one job and answers with it.
template <typename Response>
void Control(engine::Engine* engine, engine::Engine::Request what, std::int64_t id,
             UnaryCall<Response> call) {
  const absl::StatusOr<core::JobId> job = ToJobId(id);
  if (!job.ok()) return call.Fail(job.status());
  engine->Control(*job, what, AnswerJob(call));
}

}  // namespace

void JobService::SubmitJob(const v1::SubmitJobRequest& request,
                           UnaryCall<v1::SubmitJobResponse> call) {
  absl::StatusOr<engine::SubmitRequest> submit = ToSubmit(request, parts_.defaults());
  if (!submit.ok()) return call.Fail(submit.status());
  parts_.engine->Submit(*std::move(submit), AnswerJob(call));
}

void JobService::GetJob(const v1::GetJobRequest& request, UnaryCall<v1::GetJobResponse> call) {
  const absl::StatusOr<core::JobId> id = ToJobId(request.id());
  if (!id.ok()) return call.Fail(id.status());
  parts_.engine->Get(*id, AnswerJob(call));
}

void JobService::ListJobs(const v1::ListJobsRequest& request,
                          UnaryCall<v1::ListJobsResponse> call) {
  absl::StatusOr<store::ListQuery> query = ToListQuery(request);
  if (!query.ok()) return call.Fail(query.status());
  const bool in_queue_order = request.order() == v1::JOB_ORDER_QUEUE;
  const absl::StatusOr<engine::QueuePlace> after =
      in_queue_order ? ToQueuePlace(request) : engine::QueuePlace{};
  if (!after.ok()) return call.Fail(after.status());
  auto answer = [call](const absl::StatusOr<engine::JobPage>& page) {
    if (!page.ok()) return call.Fail(page.status());
    call.Answer(ToProto(*page));
  };
  if (in_queue_order) {
    parts_.engine->ListQueue(*std::move(query), *after, std::move(answer));
  } else {
    parts_.engine->List(*std::move(query), std::move(answer));
  }
}

void JobService::WaitJob(const v1::WaitJobRequest& request, StreamCall<v1::WaitJobResponse> call) {
  const absl::StatusOr<core::JobId> id = ToJobId(request.id());
  if (!id.ok()) return call.Fail(id.status());
  FollowJob(parts_.engine, *id, LatestStream<v1::WaitJobResponse>::Create(call), nullptr);
}

void JobService::CancelJob(const v1::CancelJobRequest& request,
                           UnaryCall<v1::CancelJobResponse> call) {
  Control(parts_.engine, engine::Engine::Request::kCancel, request.id(), call);
}

void JobService::HoldJob(const v1::HoldJobRequest& request, UnaryCall<v1::HoldJobResponse> call) {
  Control(parts_.engine, engine::Engine::Request::kHold, request.id(), call);
}

void JobService::ReleaseJob(const v1::ReleaseJobRequest& request,
                            UnaryCall<v1::ReleaseJobResponse> call) {
  Control(parts_.engine, engine::Engine::Request::kRelease, request.id(), call);
}

void JobService::SuspendJob(const v1::SuspendJobRequest& request,
                            UnaryCall<v1::SuspendJobResponse> call) {
  Control(parts_.engine, engine::Engine::Request::kSuspend, request.id(), call);
}

void JobService::ResumeJob(const v1::ResumeJobRequest& request,
                           UnaryCall<v1::ResumeJobResponse> call) {
  Control(parts_.engine, engine::Engine::Request::kResume, request.id(), call);
}

void JobService::RetryJob(const v1::RetryJobRequest& request,
                          UnaryCall<v1::RetryJobResponse> call) {
  absl::StatusOr<engine::RetryRequest> retry = ToRetry(request);
  if (!retry.ok()) return call.Fail(retry.status());
  parts_.engine->Retry(*std::move(retry), AnswerJob(call));
}

void JobService::WatchJobs(const v1::WatchJobsRequest& request,
                           StreamCall<v1::WatchJobsResponse> call) {
  rpc::WatchJobs(call, parts_.engine, request);
}

void JobService::UpdateJob(const v1::UpdateJobRequest& request,
                           UnaryCall<v1::UpdateJobResponse> call) {
  const absl::StatusOr<core::JobId> id = ToJobId(request.id());
  if (!id.ok()) return call.Fail(id.status());
  parts_.engine->Update(
      *id, [request](const core::Policy& policy) { return ChangedPolicy(request, policy); },
      AnswerJob(call));
}

void JobService::HoldQueue(const v1::HoldQueueRequest& request,
                           UnaryCall<v1::HoldQueueResponse> call) {
  parts_.engine->HoldQueue(request.reason(), AnswerDone(call));
}

void JobService::ReleaseQueue(const v1::ReleaseQueueRequest&,
                              UnaryCall<v1::ReleaseQueueResponse> call) {
  parts_.engine->ReleaseQueue(AnswerDone(call));
}

void JobService::ListProfiles(const v1::ListProfilesRequest& request,
                              UnaryCall<v1::ListProfilesResponse> call) {
  parts_.engine->ListProfiles(
      request.name(), [call](const absl::StatusOr<std::vector<engine::ProfileView>>& profiles) {
        if (!profiles.ok()) return call.Fail(profiles.status());
        v1::ListProfilesResponse response;
        for (const auto& profile : *profiles) *response.add_profiles() = ToProto(profile);
        call.Answer(response);
      });
}

void JobService::DeleteProfile(const v1::DeleteProfileRequest& request,
                               UnaryCall<v1::DeleteProfileResponse> call) {
  parts_.engine->DeleteProfile(request.name(), AnswerDone(call));
}

void JobService::DeleteJob(const v1::DeleteJobRequest& request,
                           UnaryCall<v1::DeleteJobResponse> call) {
  const absl::StatusOr<core::JobId> id = ToJobId(request.id());
  if (!id.ok()) return call.Fail(id.status());
  parts_.engine->Delete(
      *id, [call](const absl::StatusOr<engine::JobView>& job) { call.End(job.status()); });
}

void JobService::ReadLogs(const v1::ReadLogsRequest& request,
                          StreamCall<v1::ReadLogsResponse> call) {
  const absl::StatusOr<core::JobId> id = ToJobId(request.id());
  if (!id.ok()) return call.Fail(id.status());
  const absl::StatusOr<LogQuery> query = ToLogQuery(request);
  if (!query.ok()) return call.Fail(query.status());
  StreamLog(call, parts_.engine, streams_, *id, *query);
}

}  // namespace stageload::rpc
