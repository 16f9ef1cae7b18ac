// What stands behind a Session and its Leases: the registration with the daemon of now, the thread
// that reads from it and finds the next one, and the leases that are held.
//
// Threading: any thread; `thread_` makes all callbacks, with no lock held. Everything behind mutex_
// is short: no call to the daemon is made under it.
#ifndef STAGELOAD_CLIENT_LIB_SESSION_CORE_H_
#define STAGELOAD_CLIENT_LIB_SESSION_CORE_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/connection.h"
#include "client/lib/interrupt.h"
#include "client/lib/late_releases.h"
#include "client/lib/lease_call.h"
#include "client/lib/parent.h"
#include "client/lib/registration.h"
#include "stageload/session.h"
#include "stageload/v1/admission_service.grpc.pb.h"

namespace stageload::client {

class SessionCore : public std::enable_shared_from_this<SessionCore> {
 public:
  explicit SessionCore(SessionOptions options);
  SessionCore(const SessionCore&) = delete;
  SessionCore& operator=(const SessionCore&) = delete;
  ~SessionCore() = default;

  bool InChild() const { return parent_.InChild(); }
  // Registers and starts the thread; throws as Session's constructor does.
  void Start();
  // Ends the registration and the thread. Leases may live on.
  void Close();

  Lease Acquire(const std::string& stage, std::int64_t memory_bytes, const AcquireOptions& options);
  void Release(std::uint64_t key);
  bool Report(const std::vector<Gauge>& gauges);
  bool Tell(v1::Mark mark);

  std::optional<StopRequest> stop_requested() const;
  std::stop_token stop_token() const;
  std::int64_t client_id() const;
  bool joined() const;

 private:
  enum class Phase {
    kConnected,
    kLooking,  // the daemon went away a moment ago
    kAbsent,   // there is none
    kEnded,    // the daemon ended the registration for good
    kClosed,
  };
  struct Held {
    std::string stage;
    std::int64_t memory_bytes = 0;
    std::string request_id;
    std::int64_t worker = 0;    // the thread that asked
    std::int64_t lease_id = 0;  // 0: no daemon of now knows it
  };

  void CheckCaller() const;  // throws
  // The client's side of its life.
  void Run();
  absl::StatusOr<std::unique_ptr<Registration>> Register(const Connection& connection,
                                                         std::int64_t daemon);
  bool RegisterAgain();
  void Publish(std::unique_ptr<Registration> registration,
               const std::map<std::uint64_t, std::int64_t>& taken_up);
  // Declares what is held to the daemon; a status only when that has gone, too. Those that it does
  // not take are told in `refused`.
  absl::Status TakeUp(const Registration& registration,
                      std::map<std::uint64_t, std::int64_t>& taken_up, std::string& refused);
  absl::Status ReadEvents();
  void OnEvent(const v1::RegisterResponse& response);
  void RequestStop(StopRequest stop);
  void TellSuspended(Suspension suspension);
  void Leave(Phase phase, SessionEvent::Kind kind, const std::string& text);
  void TellEvent(SessionEvent::Kind kind, const std::string& text) const;

  // Waits for a registration after the `known`-th daemon. Nothing when there is no daemon and none
  // is required. Throws when there will be none.
  std::optional<DaemonLink> AwaitLink(std::int64_t known, absl::Duration deadline,
                                      const AcquireOptions& options);
  std::optional<DaemonLink> LinkNow() const;
  // False when that daemon is no longer the one of now.
  bool Keep(const DaemonLink& link, const Held& held, Lease& lease);
  Lease Unmanaged(Held held);
  Lease NewLease(const Held& held);
  absl::Status SendReport(const DaemonLink& link, v1::ReportRequest request) const;

  const SessionOptions options_;
  v1::RegisterRequest request_;  // of Start() and then of the thread alone
  const Parent parent_;
  const bool may_start_;  // a daemon
  ConnectOptions connect_;
  Interrupt interrupt_;
  LateReleases late_releases_{interrupt_};
  std::stop_source stop_source_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Phase phase_ = Phase::kAbsent;
  std::int64_t daemons_ = 0;  // how many it was registered with
  std::unique_ptr<Registration> registration_;
  std::uint64_t next_key_ = 1;
  std::map<std::uint64_t, Held> leases_;
  std::map<std::string, double> gauges_;
  std::optional<StopRequest> stop_;
  bool suspended_ = false;  // as it was told last; thread_'s own

  std::thread thread_;
};

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_SESSION_CORE_H_
