// Reads the stream of AdmissionService.Guard.
#include "client/ctl/guard_call.h"

#include <utility>

#include "client/ctl/errors.h"
#include "stageload/v1/admission_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

// The daemon needs one commit for it; a command's exit is not held up for longer.
constexpr absl::Duration kReportTimeout = absl::Seconds(5);

// Reads a stream of responses with a job to its end.
template <typename Response>
void ReadAll(grpc::ClientReader<Response>& reader, const GuardCall::OnJob& on_job,
             const GuardCall::OnEnd& on_end) {
  Response response;
  while (reader.Read(&response)) on_job(std::move(*response.mutable_job()));
  on_end(FromGrpc(reader.Finish()));
}

}  // namespace

GuardCall::GuardCall(const Connection& connection, const v1::GuardRequest& request, OnJob on_job,
                     OnEnd on_end) {
  thread_ = std::thread([this, channel = connection.channel, request, tell_job = std::move(on_job),
                         tell_end = std::move(on_end)] {
    const auto stub = v1::AdmissionService::NewStub(channel);
    ReadAll(*stub->Guard(&context_, request), tell_job, tell_end);
  });
}

GuardCall::GuardCall(const Connection& connection, const v1::ResumeGuardRequest& request,
                     OnJob on_job, OnEnd on_end) {
  thread_ = std::thread([this, channel = connection.channel, request, tell_job = std::move(on_job),
                         tell_end = std::move(on_end)] {
    const auto stub = v1::AdmissionService::NewStub(channel);
    ReadAll(*stub->ResumeGuard(&context_, request), tell_job, tell_end);
  });
}

GuardCall::~GuardCall() {
  Cancel();
  thread_.join();
}

absl::StatusOr<v1::Job> ReportExit(const Connection& connection,
                                   const v1::ReportExitRequest& request) {
  grpc::ClientContext context;
  SetTimeout(context, kReportTimeout);
  v1::ReportExitResponse response;
  const grpc::Status status =
      v1::AdmissionService::NewStub(connection.channel)->ReportExit(&context, request, &response);
  if (!status.ok()) return FromGrpc(status);
  return std::move(*response.mutable_job());
}

}  // namespace stageload::ctl
