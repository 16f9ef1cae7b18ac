#include "daemon/rpc/admission_service.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/convert_session.h"
#include "daemon/rpc/job_streams.h"
#include "daemon/rpc/named_process.h"
#include "daemon/rpc/session_streams.h"
#include "daemon/rpc/unary.h"

namespace stageload::rpc {
namespace {

// Takes the engine's answer: the stream follows the job, which is withdrawn when the caller goes.
template <typename Response>
engine::Engine::OnJob FollowGuard(engine::Engine* engine,
                                  const std::shared_ptr<LatestStream<Response>>& stream) {
  return [engine, stream](absl::StatusOr<engine::JobView> job) {
    if (!job.ok()) return stream->End(job.status());
    const core::JobId id = job->record.id;
    FollowJob(engine, id, stream, [engine, id] { engine->WithdrawGuard(id); });
  };
}

std::uint64_t NextConnection() {
  static std::atomic<std::uint64_t> next{1};
  return next++;
}

}  // namespace

AdmissionService::AdmissionService(const Parts& parts, const Peer& peer)
    : parts_(parts), peer_(peer), caller_{NextConnection(), peer.pid} {}

grpc::ServerWriteReactor<v1::GuardResponse>* AdmissionService::Guard(
    grpc::CallbackServerContext*, const v1::GuardRequest* request) {
  const auto stream = LatestStream<v1::GuardResponse>::Create();
  absl::StatusOr<engine::GuardRequest> guard = ToGuard(*request);
  absl::Status status = guard.status();
  if (status.ok()) status = CheckMayName(parts_, peer_, guard->pid, "guard");
  if (!status.ok()) {
    stream->End(status);
    return stream.get();
  }
  parts_.engine->Guard(*std::move(guard), FollowGuard(parts_.engine, stream));
  return stream.get();
}

grpc::ServerWriteReactor<v1::ResumeGuardResponse>* AdmissionService::ResumeGuard(
    grpc::CallbackServerContext*, const v1::ResumeGuardRequest* request) {
  const auto stream = LatestStream<v1::ResumeGuardResponse>::Create();
  const absl::StatusOr<core::JobId> id = ToJobId(request->id());
  absl::Status status = id.status();
  // One that has ended belongs to nobody any more; the engine knows whether it was this job's.
  if (status.ok() && parts_.find_process(request->pid()).ok()) {
    status = CheckMayName(parts_, peer_, request->pid(), "guard");
  }
  if (!status.ok()) {
    stream->End(status);
    return stream.get();
  }
  parts_.engine->ResumeGuard(*id, request->pid(), FollowGuard(parts_.engine, stream));
  return stream.get();
}

grpc::ServerUnaryReactor* AdmissionService::ReportExit(grpc::CallbackServerContext* context,
                                                       const v1::ReportExitRequest* request,
                                                       v1::ReportExitResponse* response) {
  const absl::StatusOr<core::JobId> id = ToJobId(request->id());
  if (!id.ok()) return Fail(context, id.status());
  const absl::StatusOr<core::Outcome> outcome = ToOutcome(*request);
  if (!outcome.ok()) return Fail(context, outcome.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  parts_.engine->ReportExit(*id, *outcome, AnswerJob(reactor, response));
  return reactor;
}

grpc::ServerWriteReactor<v1::RegisterResponse>* AdmissionService::Register(
    grpc::CallbackServerContext*, const v1::RegisterRequest* request) {
  absl::StatusOr<engine::RegisterRequest> registration = ToRegister(*request, caller_);
  if (registration.ok()) {
    absl::Status may = CheckMayName(parts_, peer_, registration->pid, "register");
    if (!may.ok()) registration = std::move(may);
  }
  return StartSession(parts_.engine, std::move(registration));
}

grpc::ServerWriteReactor<v1::AcquireResponse>* AdmissionService::Acquire(
    grpc::CallbackServerContext*, const v1::AcquireRequest* request) {
  return StartAcquire(parts_.engine, ToAcquire(*request, caller_));
}

grpc::ServerUnaryReactor* AdmissionService::Release(grpc::CallbackServerContext* context,
                                                    const v1::ReleaseRequest* request,
                                                    v1::ReleaseResponse*) {
  absl::StatusOr<engine::ReleaseRequest> release = ToRelease(*request, caller_);
  if (!release.ok()) return Fail(context, release.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  parts_.engine->Release(*std::move(release), [reactor](const absl::Status& status) {
    reactor->Finish(ToGrpc(status));
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdmissionService::Report(grpc::CallbackServerContext* context,
                                                   const v1::ReportRequest* request,
                                                   v1::ReportResponse* response) {
  absl::StatusOr<engine::ReportRequest> report = ToReport(*request, caller_);
  if (!report.ok()) return Fail(context, report.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  parts_.engine->Report(*std::move(report),
                        [reactor, response](const absl::StatusOr<engine::Reported>& reported) {
                          if (reported.ok()) {
                            if (reported->client) {
                              response->set_client_id(core::Value(*reported->client));
                            }
                            response->set_recordings(reported->recordings);
                          }
                          reactor->Finish(ToGrpc(reported.status()));
                        });
  return reactor;
}

}  // namespace stageload::rpc
