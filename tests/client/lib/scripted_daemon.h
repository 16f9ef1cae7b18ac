// A daemon whose answers to the library the test writes, on a real socket in a folder of its own.
//
// Threading: handlers run on gRPC's threads; what they are told by may be called from any thread.
#ifndef STAGELOAD_TESTS_CLIENT_LIB_SCRIPTED_DAEMON_H_
#define STAGELOAD_TESTS_CLIENT_LIB_SCRIPTED_DAEMON_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "stageload/v1/admission_service.grpc.pb.h"
#include "tests/fixture.h"

namespace stageload::client {

// The daemon's side of one request for a lease.
class AcquireScript {
 public:
  AcquireScript(const v1::AcquireRequest& asked, grpc::ServerContext& context,
                grpc::ServerWriter<v1::AcquireResponse>& writer)
      : request(asked), context_(context), writer_(writer) {}

  void Wait(const std::string& text);
  void Grant(std::int64_t lease_id, bool forced = false);
  // Until the client gives the call up; false after half a minute.
  bool AwaitCancelled() const;

  const v1::AcquireRequest& request;

 private:
  grpc::ServerContext& context_;
  grpc::ServerWriter<v1::AcquireResponse>& writer_;
};

class ScriptedDaemon {
 public:
  using OnAcquire = std::function<grpc::Status(AcquireScript&)>;

  ScriptedDaemon();
  ~ScriptedDaemon();

  std::string socket() const { return folder_.path() + "/daemon.sock"; }
  void Start();
  void Stop();  // its calls break off

  // Set before it is asked.
  OnAcquire on_acquire;          // grants lease 100, 101... when empty
  grpc::Status register_answer;  // an error refuses
  bool register_hangs = false;   // until the client gives the call up
  grpc::Status report_answer;
  std::function<grpc::Status(const v1::WatchTelemetryRequest&, grpc::ServerContext&,
                             grpc::ServerWriter<v1::WatchTelemetryResponse>&)>
      on_watch;
  std::function<grpc::Status(const v1::WatchProcessRequest&, grpc::ServerContext&,
                             grpc::ServerWriter<v1::WatchProcessResponse>&)>
      on_watch_process;

  // On the stream of the registration.
  void Say(const v1::RegisterResponse& event);
  void EndRegistration();  // with OK

  // What was asked so far, in order: "register", "acquire STAGE", "take up STAGE", "release 100",
  // "release by id", "report".
  std::vector<std::string> Calls() const;
  bool Has(const std::string& call) const;
  int registered() const;  // streams that live
  std::vector<v1::RegisterRequest> registrations() const;
  std::vector<v1::AcquireRequest> acquires() const;
  std::vector<v1::ReleaseRequest> releases() const;
  std::vector<v1::ReportRequest> reports() const;

 private:
  class Admin;
  class Admission;
  class Telemetry;

  void Note(const std::string& call);

  TemporaryFolder folder_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> calls_;
  std::vector<v1::RegisterRequest> registrations_;
  std::vector<v1::AcquireRequest> acquires_;
  std::vector<v1::ReleaseRequest> releases_;
  std::vector<v1::ReportRequest> reports_;
  std::deque<v1::RegisterResponse> to_say_;
  bool end_registration_ = false;
  int registered_ = 0;
  std::int64_t next_client_ = 7;
  std::int64_t next_lease_ = 100;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace stageload::client

#endif  // STAGELOAD_TESTS_CLIENT_LIB_SCRIPTED_DAEMON_H_
