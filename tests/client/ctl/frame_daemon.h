// A daemon that has frames and events for whoever watches, as the test sets them, and that is asked
// to act on jobs.
//
// Threading: any.
#ifndef STAGELOAD_TESTS_CLIENT_CTL_FRAME_DAEMON_H_
#define STAGELOAD_TESTS_CLIENT_CTL_FRAME_DAEMON_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "stageload/v1/admin_service.grpc.pb.h"
#include "stageload/v1/job_service.grpc.pb.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::ctl {

class FrameDaemon {
 public:
  // Without one every action fails.
  using OnAction = std::function<grpc::Status(const std::string& verb, std::int64_t id, v1::Job&)>;

  FrameDaemon();
  FrameDaemon(const FrameDaemon&) = delete;
  FrameDaemon& operator=(const FrameDaemon&) = delete;
  ~FrameDaemon();

  const std::string& home() const { return home_; }
  void Stop();   // as if it were killed
  void Start();  // the next one

  void SetVersion(const v1::GetVersionResponse& version);
  // Sent twenty times a second, with the time of then.
  void SetFrame(const v1::Frame& frame);
  void SetPast(const std::vector<v1::Frame>& past);
  void SetHistory(const std::vector<v1::Event>& newest_first);
  void SetAction(OnAction on_action);
  std::vector<v1::ListHistoryRequest> HistoryAsked() const;
  std::vector<v1::WatchTelemetryRequest> WatchesAsked() const;

 private:
  class Admin;
  class Telemetry;
  class Jobs;

  v1::Frame Now();

  std::string home_;
  mutable std::mutex mutex_;
  v1::GetVersionResponse version_;
  v1::Frame frame_;
  std::int64_t sequence_ = 0;
  std::vector<v1::Frame> past_;
  std::vector<v1::Event> history_;
  OnAction on_action_;
  std::vector<v1::ListHistoryRequest> history_asked_;
  std::vector<v1::WatchTelemetryRequest> watches_asked_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_TESTS_CLIENT_CTL_FRAME_DAEMON_H_
