// The guard's call to the daemon: its answers come as events, on a thread of their own.
//
// Threading: Start, Cancel, ReportExit from one thread; the callbacks come from the reading thread.
#ifndef STAGELOAD_CLIENT_CTL_GUARD_CALL_H_
#define STAGELOAD_CLIENT_CTL_GUARD_CALL_H_

#include <grpcpp/client_context.h>

#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ctl/connection.h"
#include "stageload/v1/admission_service.pb.h"

namespace stageload::ctl {

class GuardCall {
 public:
  using OnJob = std::function<void(v1::Job)>;
  using OnEnd = std::function<void(absl::Status)>;

  // `on_job` for each state, then `on_end` once.
  GuardCall(const Connection& connection, const v1::GuardRequest& request, OnJob on_job,
            OnEnd on_end);
  // The same of a job that an earlier daemon took.
  GuardCall(const Connection& connection, const v1::ResumeGuardRequest& request, OnJob on_job,
            OnEnd on_end);
  GuardCall(const GuardCall&) = delete;
  GuardCall& operator=(const GuardCall&) = delete;
  ~GuardCall();

  // Ends the call; before the command runs this takes the request back.
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::thread thread_;
};

// Tells how the command ended; the job as it is then.
absl::StatusOr<v1::Job> ReportExit(const Connection& connection,
                                   const v1::ReportExitRequest& request);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_GUARD_CALL_H_
