// Reads the stream of AdmissionService.Guard.
#include "client/ctl/guard_call.h"

#include <utility>

#include "client/ctl/errors.h"
#include "stageload/v1/admission_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

// The daemon needs one commit for it; a command's exit is not held up for longer.
constexpr absl::Duration kReportTimeout = absl::Seconds(5);

}  // namespace

GuardCall::GuardCall(const Connection& connection, const v1::GuardRequest& request,
                     std::function<void(v1::Job)> on_job,
                     std::function<void(absl::Status)> on_end) {
  thread_ = std::thread([this, channel = connection.channel, request, tell_job = std::move(on_job),
                         tell_end = std::move(on_end)] {
    const auto stub = v1::AdmissionService::NewStub(channel);
    const auto reader = stub->Guard(&context_, request);
    v1::GuardResponse response;
    while (reader->Read(&response)) tell_job(std::move(*response.mutable_job()));
    tell_end(FromGrpc(reader->Finish()));
  });
}

GuardCall::~GuardCall() {
  Cancel();
  thread_.join();
}

absl::Status ReportExit(const Connection& connection, const v1::ReportExitRequest& request) {
  grpc::ClientContext context;
  SetTimeout(context, kReportTimeout);
  v1::ReportExitResponse response;
  return FromGrpc(
      v1::AdmissionService::NewStub(connection.channel)->ReportExit(&context, request, &response));
}

}  // namespace stageload::ctl
