// A daemon whose every answer the test writes, on a real socket in a folder of its own.
//
// Threading: handlers run on gRPC's threads; set them before a program is started.
#ifndef STAGELOAD_TESTS_CLIENT_CTL_FAKE_DAEMON_H_
#define STAGELOAD_TESTS_CLIENT_CTL_FAKE_DAEMON_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "stageload/v1/admin_service.grpc.pb.h"
#include "stageload/v1/admission_service.grpc.pb.h"
#include "stageload/v1/job_service.grpc.pb.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::ctl {

// The daemon's side of one guard, new or of an earlier daemon.
class GuardScript {
 public:
  GuardScript(const v1::GuardRequest& asked, grpc::ServerContext& context,
              std::function<void(v1::Job)> write)
      : request(asked), context_(context), write_(std::move(write)) {}

  void Send(v1::JobState state, v1::Reason reason = v1::REASON_UNSPECIFIED,
            const std::string& text = "", const std::string& blocker = "");
  // Until the client gives the call up; false after 20 s.
  bool AwaitCancelled() const;

  const v1::GuardRequest& request;

 private:
  grpc::ServerContext& context_;
  std::function<void(v1::Job)> write_;
};

// The daemon's side of one recording.
class WatchScript {
 public:
  WatchScript(const v1::WatchProcessRequest& asked, grpc::ServerContext& context,
              grpc::ServerWriter<v1::WatchProcessResponse>& writer)
      : request(asked), context_(context), writer_(writer) {}

  void Send(const v1::WatchProcessResponse& answer) { writer_.Write(answer); }
  // Until the client gives the call up; false after 20 s.
  bool AwaitCancelled() const;

  const v1::WatchProcessRequest& request;

 private:
  grpc::ServerContext& context_;
  grpc::ServerWriter<v1::WatchProcessResponse>& writer_;
};

class FakeDaemon {
 public:
  using OnGuard = std::function<grpc::Status(GuardScript&)>;

  FakeDaemon();
  ~FakeDaemon();

  const std::string& home() const { return home_; }
  void Stop();   // as if it were killed
  void Start();  // the next one, at the same place, with the same answers unless they are set anew

  OnGuard on_guard;
  // Its request has the job's pid only. Without one the job is not known.
  OnGuard on_resume;
  grpc::Status report_answer;  // an error is one that did not hear of the exit
  std::function<grpc::Status(const v1::SubmitJobRequest&, v1::SubmitJobResponse&)> on_submit;
  std::function<grpc::Status(const v1::RetryJobRequest&, v1::RetryJobResponse&)> on_retry;
  std::function<grpc::Status(WatchScript&)> on_watch;
  std::function<grpc::Status(const v1::ReportRequest&, v1::ReportResponse&)> on_marks;
  std::vector<v1::Job> jobs;  // what GetJob, ListJobs and WaitJob answer with
  std::vector<v1::ReadLogsResponse> log;
  int api_level = 1;

  int resumes = 0;  // how often a job of an earlier daemon was asked for
  // The exit that the guard reported; nothing after 20 s.
  std::optional<v1::ReportExitRequest> AwaitReport();

 private:
  class Admin;
  class Admission;
  class JobCalls;
  class Telemetry;

  std::string home_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<v1::ReportExitRequest> report_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
};

// A failure as the daemon sends it.
grpc::Status Failure(grpc::StatusCode code, const std::string& message, const std::string& reason,
                     const std::string& field = "");

}  // namespace stageload::ctl

#endif  // STAGELOAD_TESTS_CLIENT_CTL_FAKE_DAEMON_H_
