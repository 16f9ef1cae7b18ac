// A call of TelemetryService.WatchProcess: its answers come on a thread of their own.
//
// Threading: made and destroyed by one thread; the callbacks come from the reading thread.
#ifndef STAGELOAD_CLIENT_CTL_WATCH_CALL_H_
#define STAGELOAD_CLIENT_CTL_WATCH_CALL_H_

#include <grpcpp/client_context.h>

#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "client/ctl/connection.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::ctl {

class WatchCall {
 public:
  using OnAnswer = std::function<void(v1::WatchProcessResponse)>;
  using OnEnd = std::function<void(absl::Status)>;

  // `on_answer` for each, then `on_end` once.
  WatchCall(const Connection& connection, const v1::WatchProcessRequest& request,
            OnAnswer on_answer, OnEnd on_end);
  WatchCall(const WatchCall&) = delete;
  WatchCall& operator=(const WatchCall&) = delete;
  ~WatchCall();  // ends the call

 private:
  grpc::ClientContext context_;
  std::thread thread_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_WATCH_CALL_H_
