#include "daemon/rpc/admission_service.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/job_streams.h"
#include "daemon/rpc/unary.h"

namespace stageload::rpc {
namespace {

constexpr int kMaxDepth = 64;  // of a process tree; a table in motion could show a loop

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

}  // namespace

absl::Status AdmissionService::CheckMayName(std::int32_t pid) const {
  const absl::StatusOr<host::Process> named = parts_.find_process(pid);
  if (!named.ok()) {
    return WithReason(
        absl::InvalidArgumentError(absl::StrCat("pid: there is no process ", pid, " to guard")),
        kInvalidField, "pid");
  }
  if (named->uid == peer_.uid) return absl::OkStatus();
  absl::StatusOr<host::Process> process = named;
  for (int depth = 0; process.ok() && depth < kMaxDepth; ++depth) {
    if (process->identity.pid == peer_.pid) return absl::OkStatus();
    process = parts_.find_process(process->parent);
  }
  return WithReason(absl::PermissionDeniedError(
                        absl::StrCat("pid: process ", pid, " belongs to user ", named->uid,
                                     " and does not descend from the caller ", peer_.pid)),
                    kPeerRefused, "pid");
}

grpc::ServerWriteReactor<v1::GuardResponse>* AdmissionService::Guard(
    grpc::CallbackServerContext*, const v1::GuardRequest* request) {
  const auto stream = LatestStream<v1::GuardResponse>::Create();
  absl::StatusOr<engine::GuardRequest> guard = ToGuard(*request);
  absl::Status status = guard.status();
  if (status.ok()) status = CheckMayName(guard->pid);
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
    status = CheckMayName(request->pid());
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

}  // namespace stageload::rpc
