// What stands behind a Watch: its thread, and the stream of one daemon after the other.
//
// Threading: Start and Close by whoever owns it; `thread_` makes all callbacks.
#ifndef STAGELOAD_CLIENT_LIB_WATCH_CORE_H_
#define STAGELOAD_CLIENT_LIB_WATCH_CORE_H_

#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "client/lib/connection.h"
#include "client/lib/interrupt.h"
#include "client/lib/parent.h"
#include "stageload/v1/telemetry_service.pb.h"
#include "stageload/watch.h"

namespace stageload::client {

class WatchCore {
 public:
  WatchCore(WatchOptions options, std::function<void(const Frame&)> on_frame);
  WatchCore(const WatchCore&) = delete;
  WatchCore& operator=(const WatchCore&) = delete;

  bool InChild() const { return parent_.InChild(); }
  void Start();  // throws
  void Close();

 private:
  void Run();
  // The frames of one daemon; how its stream ended.
  absl::Status ReadFrames();
  bool FindNext();  // false when it was closed

  const WatchOptions options_;
  const std::function<void(const Frame&)> on_frame_;
  const Parent parent_;
  v1::WatchTelemetryRequest request_;
  Connection connection_;
  Interrupt interrupt_;
  std::thread thread_;
};

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_WATCH_CORE_H_
