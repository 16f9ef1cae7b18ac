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

namespace stageload::rpc {
namespace {

// Takes the engine's answer: the stream follows the job, which is withdrawn when the caller goes.
template <typename Response>
engine::Engine::OnJob FollowGuard(engine::Engine* engine, StreamCall<Response> call) {
  return
      [engine, stream = LatestStream<Response>::Create(call)](absl::StatusOr<engine::JobView> job) {
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

void AdmissionService::Guard(const v1::GuardRequest& request, StreamCall<v1::GuardResponse> call) {
  absl::StatusOr<engine::GuardRequest> guard = ToGuard(request, parts_.defaults());
  absl::Status status = guard.status();
  if (status.ok()) status = CheckMayName(parts_, peer_, guard->pid, "guard");
  if (!status.ok()) return call.Fail(status);
  parts_.engine->Guard(*std::move(guard), FollowGuard(parts_.engine, call));
}

void AdmissionService::ResumeGuard(const v1::ResumeGuardRequest& request,
                                   StreamCall<v1::ResumeGuardResponse> call) {
  const absl::StatusOr<core::JobId> id = ToJobId(request.id());
  absl::Status status = id.status();
  // One that has ended belongs to nobody any more; the engine knows whether it was this job's.
  if (status.ok() && parts_.find_process(request.pid()).ok()) {
    status = CheckMayName(parts_, peer_, request.pid(), "guard");
  }
  if (!status.ok()) return call.Fail(status);
  parts_.engine->ResumeGuard(*id, request.pid(), FollowGuard(parts_.engine, call));
}

void AdmissionService::ReportExit(const v1::ReportExitRequest& request,
                                  UnaryCall<v1::ReportExitResponse> call) {
  const absl::StatusOr<core::JobId> id = ToJobId(request.id());
  if (!id.ok()) return call.Fail(id.status());
  const absl::StatusOr<core::Outcome> outcome = ToOutcome(request);
  if (!outcome.ok()) return call.Fail(outcome.status());
  parts_.engine->ReportExit(*id, *outcome, AnswerJob(call));
}

void AdmissionService::Register(const v1::RegisterRequest& request,
                                StreamCall<v1::RegisterResponse> call) {
  absl::StatusOr<engine::RegisterRequest> registration = ToRegister(request, caller_, parts_.defaults());
  if (registration.ok()) {
    absl::Status may = CheckMayName(parts_, peer_, registration->pid, "register");
    if (!may.ok()) registration = std::move(may);
  }
  StartSession(call, parts_.engine, std::move(registration));
}

void AdmissionService::Acquire(const v1::AcquireRequest& request,
                               StreamCall<v1::AcquireResponse> call) {
  StartAcquire(call, parts_.engine, ToAcquire(request, caller_));
}

void AdmissionService::Release(const v1::ReleaseRequest& request,
                               UnaryCall<v1::ReleaseResponse> call) {
  absl::StatusOr<engine::ReleaseRequest> release = ToRelease(request, caller_);
  if (!release.ok()) return call.Fail(release.status());
  parts_.engine->Release(*std::move(release), AnswerDone(call));
}

void AdmissionService::Report(const v1::ReportRequest& request,
                              UnaryCall<v1::ReportResponse> call) {
  absl::StatusOr<engine::ReportRequest> report = ToReport(request, caller_);
  if (!report.ok()) return call.Fail(report.status());
  parts_.engine->Report(*std::move(report),
                        [call](const absl::StatusOr<engine::Reported>& reported) {
                          if (!reported.ok()) return call.Fail(reported.status());
                          v1::ReportResponse response;
                          if (reported->client) {
                            response.set_client_id(core::Value(*reported->client));
                          }
                          response.set_recordings(reported->recordings);
                          call.Answer(response);
                        });
}

}  // namespace stageload::rpc
