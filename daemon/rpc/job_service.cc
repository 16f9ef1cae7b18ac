#include "daemon/rpc/job_service.h"

#include <utility>

#include "daemon/rpc/convert.h"
#include "daemon/rpc/job_streams.h"
#include "daemon/rpc/job_watch.h"
#include "daemon/rpc/log_stream.h"
#include "daemon/rpc/unary.h"

namespace stageload::rpc {
namespace {

// A stream that only says why there is none.
template <typename Response>
grpc::ServerWriteReactor<Response>* FailStream(const absl::Status& status) {
  const auto stream = LatestStream<Response>::Create();
  stream->End(status);
  return stream.get();
}

// Asks one thing of one job and answers with it.
template <typename Response>
grpc::ServerUnaryReactor* Control(engine::Engine* engine, engine::Engine::Request what,
                                  grpc::CallbackServerContext* context, std::int64_t id,
                                  Response* response) {
  const absl::StatusOr<core::JobId> job = ToJobId(id);
  if (!job.ok()) return Fail(context, job.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  engine->Control(*job, what, AnswerJob(reactor, response));
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* JobService::SubmitJob(grpc::CallbackServerContext* context,
                                                const v1::SubmitJobRequest* request,
                                                v1::SubmitJobResponse* response) {
  absl::StatusOr<engine::SubmitRequest> submit = ToSubmit(*request);
  if (!submit.ok()) return Fail(context, submit.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  parts_.engine->Submit(*std::move(submit), AnswerJob(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context,
                                             const v1::GetJobRequest* request,
                                             v1::GetJobResponse* response) {
  const absl::StatusOr<core::JobId> id = ToJobId(request->id());
  if (!id.ok()) return Fail(context, id.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  parts_.engine->Get(*id, AnswerJob(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context,
                                               const v1::ListJobsRequest* request,
                                               v1::ListJobsResponse* response) {
  absl::StatusOr<store::ListQuery> query = ToListQuery(*request);
  if (!query.ok()) return Fail(context, query.status());
  const bool in_queue_order = request->order() == v1::JOB_ORDER_QUEUE;
  const absl::StatusOr<engine::QueuePlace> after =
      in_queue_order ? ToQueuePlace(*request) : engine::QueuePlace{};
  if (!after.ok()) return Fail(context, after.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  auto answer = [reactor, response](absl::StatusOr<engine::JobPage> page) {
    if (page.ok()) *response = ToProto(*page);
    reactor->Finish(ToGrpc(page.status()));
  };
  if (in_queue_order) {
    parts_.engine->ListQueue(*std::move(query), *after, std::move(answer));
  } else {
    parts_.engine->List(*std::move(query), std::move(answer));
  }
  return reactor;
}

grpc::ServerWriteReactor<v1::WaitJobResponse>* JobService::WaitJob(
    grpc::CallbackServerContext*, const v1::WaitJobRequest* request) {
  const absl::StatusOr<core::JobId> id = ToJobId(request->id());
  if (!id.ok()) return FailStream<v1::WaitJobResponse>(id.status());
  const auto stream = LatestStream<v1::WaitJobResponse>::Create();
  FollowJob(parts_.engine, *id, stream, nullptr);
  return stream.get();
}

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const v1::CancelJobRequest* request,
                                                v1::CancelJobResponse* response) {
  return Control(parts_.engine, engine::Engine::Request::kCancel, context, request->id(), response);
}

grpc::ServerUnaryReactor* JobService::HoldJob(grpc::CallbackServerContext* context,
                                              const v1::HoldJobRequest* request,
                                              v1::HoldJobResponse* response) {
  return Control(parts_.engine, engine::Engine::Request::kHold, context, request->id(), response);
}

grpc::ServerUnaryReactor* JobService::ReleaseJob(grpc::CallbackServerContext* context,
                                                 const v1::ReleaseJobRequest* request,
                                                 v1::ReleaseJobResponse* response) {
  return Control(parts_.engine, engine::Engine::Request::kRelease, context, request->id(),
                 response);
}

grpc::ServerUnaryReactor* JobService::SuspendJob(grpc::CallbackServerContext* context,
                                                 const v1::SuspendJobRequest* request,
                                                 v1::SuspendJobResponse* response) {
  return Control(parts_.engine, engine::Engine::Request::kSuspend, context, request->id(),
                 response);
}

grpc::ServerUnaryReactor* JobService::ResumeJob(grpc::CallbackServerContext* context,
                                                const v1::ResumeJobRequest* request,
                                                v1::ResumeJobResponse* response) {
  return Control(parts_.engine, engine::Engine::Request::kResume, context, request->id(), response);
}

grpc::ServerUnaryReactor* JobService::RetryJob(grpc::CallbackServerContext* context,
                                               const v1::RetryJobRequest* request,
                                               v1::RetryJobResponse* response) {
  absl::StatusOr<engine::RetryRequest> retry = ToRetry(*request);
  if (!retry.ok()) return Fail(context, retry.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  parts_.engine->Retry(*std::move(retry), AnswerJob(reactor, response));
  return reactor;
}

grpc::ServerWriteReactor<v1::WatchJobsResponse>* JobService::WatchJobs(
    grpc::CallbackServerContext*, const v1::WatchJobsRequest* request) {
  return rpc::WatchJobs(parts_.engine, *request);
}

grpc::ServerUnaryReactor* JobService::UpdateJob(grpc::CallbackServerContext* context,
                                                const v1::UpdateJobRequest* request,
                                                v1::UpdateJobResponse* response) {
  const absl::StatusOr<core::JobId> id = ToJobId(request->id());
  if (!id.ok()) return Fail(context, id.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  parts_.engine->Update(
      *id,
      [request = *request](const core::Policy& policy) { return ChangedPolicy(request, policy); },
      AnswerJob(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* JobService::HoldQueue(grpc::CallbackServerContext* context,
                                                const v1::HoldQueueRequest* request,
                                                v1::HoldQueueResponse*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  parts_.engine->HoldQueue(request->reason(), [reactor](const absl::Status& status) {
    reactor->Finish(ToGrpc(status));
  });
  return reactor;
}

grpc::ServerUnaryReactor* JobService::ReleaseQueue(grpc::CallbackServerContext* context,
                                                   const v1::ReleaseQueueRequest*,
                                                   v1::ReleaseQueueResponse*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  parts_.engine->ReleaseQueue(
      [reactor](const absl::Status& status) { reactor->Finish(ToGrpc(status)); });
  return reactor;
}

grpc::ServerUnaryReactor* JobService::ListProfiles(grpc::CallbackServerContext* context,
                                                   const v1::ListProfilesRequest* request,
                                                   v1::ListProfilesResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  parts_.engine->ListProfiles(
      request->name(),
      [reactor, response](const absl::StatusOr<std::vector<engine::ProfileView>>& profiles) {
        if (profiles.ok()) {
          for (const auto& profile : *profiles) *response->add_profiles() = ToProto(profile);
        }
        reactor->Finish(ToGrpc(profiles.status()));
      });
  return reactor;
}

grpc::ServerUnaryReactor* JobService::DeleteProfile(grpc::CallbackServerContext* context,
                                                    const v1::DeleteProfileRequest* request,
                                                    v1::DeleteProfileResponse*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  parts_.engine->DeleteProfile(
      request->name(), [reactor](const absl::Status& status) { reactor->Finish(ToGrpc(status)); });
  return reactor;
}

grpc::ServerUnaryReactor* JobService::DeleteJob(grpc::CallbackServerContext* context,
                                                const v1::DeleteJobRequest* request,
                                                v1::DeleteJobResponse*) {
  const absl::StatusOr<core::JobId> id = ToJobId(request->id());
  if (!id.ok()) return Fail(context, id.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  parts_.engine->Delete(*id, [reactor](const absl::StatusOr<engine::JobView>& job) {
    reactor->Finish(ToGrpc(job.status()));
  });
  return reactor;
}

grpc::ServerWriteReactor<v1::ReadLogsResponse>* JobService::ReadLogs(
    grpc::CallbackServerContext*, const v1::ReadLogsRequest* request) {
  const absl::StatusOr<core::JobId> id = ToJobId(request->id());
  if (!id.ok()) return FailStream<v1::ReadLogsResponse>(id.status());
  const absl::StatusOr<LogQuery> query = ToLogQuery(*request);
  if (!query.ok()) return FailStream<v1::ReadLogsResponse>(query.status());
  return StreamLog(parts_.engine, streams_, *id, *query);
}

}  // namespace stageload::rpc
