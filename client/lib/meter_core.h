// What stands behind a MemoryMeter: the file, and the thread that has the daemon's samples written
// into it.
//
// Threading: Write by any thread, Start and Close by whoever owns it.
#ifndef STAGELOAD_CLIENT_LIB_METER_CORE_H_
#define STAGELOAD_CLIENT_LIB_METER_CORE_H_

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/trace_writer.h"
#include "client/lib/connection.h"
#include "client/lib/interrupt.h"
#include "client/lib/parent.h"
#include "stageload/meter.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::client {

class MeterCore {
 public:
  MeterCore(std::string path, MeterOptions options);
  MeterCore(const MeterCore&) = delete;
  MeterCore& operator=(const MeterCore&) = delete;

  bool InChild() const { return parent_.InChild(); }
  void Start();  // throws
  void Close();
  // The event at this moment; throws.
  void Write(TraceEvent event);

 private:
  void BeginFile();
  void Run();
  absl::Status ReadSamples();
  void Add(const v1::WatchProcessResponse& response);
  // Why there were no samples until then, if there was anything.
  void NoteGap(double until);
  void Begun();
  bool FindNext();  // false when it was closed

  const std::string path_;
  const MeterOptions options_;
  const Parent parent_;
  const bool may_start_;  // a daemon
  ConnectOptions connect_;
  Interrupt interrupt_;
  absl::Duration begin_;  // awake

  std::mutex mutex_;
  std::optional<TraceWriter> writer_;
  bool begun_ = false;  // the daemon has answered
  std::condition_variable began_;

  // Of the thread, and of the owner before and after it.
  std::optional<Connection> connection_;
  double last_t_ = 0;    // of the newest sample
  std::string missing_;  // why there are no samples since then
  std::thread thread_;
};

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_METER_CORE_H_
