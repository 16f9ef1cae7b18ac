// One call of a service, and going on with the next daemon when the one that was asked went away.
//
// Threading: each call blocks its thread.
#ifndef STAGELOAD_CLIENT_CTL_CALL_H_
#define STAGELOAD_CLIENT_CTL_CALL_H_

#include <grpcpp/grpcpp.h>

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/error_reason.h"
#include "client/ctl/connection.h"
#include "client/ctl/errors.h"
#include "stageload/v1/job_service.grpc.pb.h"

namespace stageload::ctl {

template <typename Request, typename Response>
using JobMethod = grpc::Status (v1::JobService::Stub::*)(grpc::ClientContext*, const Request&,
                                                         Response*);

// CallJobs(connection, &v1::JobService::Stub::GetJob, request): within kCallTimeout.
template <typename Request, typename Response>
absl::StatusOr<Response> CallJobs(const Connection& connection, JobMethod<Request, Response> method,
                                  const Request& request) {
  grpc::ClientContext context;
  SetTimeout(context);
  Response response;
  const auto stub = v1::JobService::NewStub(connection.channel);
  const grpc::Status status = (stub.get()->*method)(&context, request, &response);
  if (!status.ok()) return FromGrpc(status);
  return response;
}

// The same of a call whose answer is a job.
template <typename Request, typename Response>
absl::StatusOr<v1::Job> CallForJob(const Connection& connection,
                                   JobMethod<Request, Response> method, const Request& request) {
  absl::StatusOr<Response> response = CallJobs(connection, method, request);
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_job());
}

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& answer) {
  return answer.status();
}

// What `ask(connection)` answers. When the daemon went away in the middle, the next one is asked,
// at most `tries` of them; when there is none, the answer of the last stands.
template <typename Ask>
auto AskUntilAnswered(const Connection& connection, Ask ask,
                      int tries = std::numeric_limits<int>::max()) {
  Connection current = connection;
  for (;;) {
    auto answer = ask(std::as_const(current));
    const absl::Status& status = StatusOf(answer);
    // One that says it is leaving is not to be followed by another.
    if (!DaemonIsGone(status) || ReasonOf(status) == kShuttingDown || --tries == 0) return answer;
    absl::StatusOr<Connection> next = Reconnect(current);
    if (!next.ok()) return answer;
    current = *std::move(next);
  }
}

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_CALL_H_
