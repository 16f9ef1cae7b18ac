// The calls that ask one daemon for a lease and give it back.
//
// Threading: each call blocks its thread.
#ifndef STAGELOAD_CLIENT_LIB_LEASE_CALL_H_
#define STAGELOAD_CLIENT_LIB_LEASE_CALL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/lib/interrupt.h"
#include "stageload/v1/admission_service.pb.h"

namespace stageload::client {

// The reason of a request that `stop` took back.
inline constexpr std::string_view kLeaseCancelled = "CANCELLED";

// A session's registration with one daemon, as its other calls need it.
struct DaemonLink {
  std::int64_t daemon = 0;  // counts the daemons that the session was registered with
  std::shared_ptr<grpc::Channel> channel;
  std::int64_t client_id = 0;
  bool joined = false;  // a client that was there already
};

// One request for a lease, from one daemon.
class LeaseCall {
 public:
  using OnWait = std::function<void(const v1::Waiting&)>;

  LeaseCall(const DaemonLink& link, v1::AcquireRequest request, Interrupt& interrupt);
  LeaseCall(const LeaseCall&) = delete;
  LeaseCall& operator=(const LeaseCall&) = delete;

  // Blocks until it is granted or refused, or `stop` was used (kLeaseCancelled). When it is not
  // granted, no lease is left with the daemon, unless that has gone or does not answer. What
  // on_wait throws comes out, likewise.
  absl::StatusOr<v1::Granted> Run(const OnWait& on_wait, std::stop_token stop);

 private:
  absl::StatusOr<v1::Granted> Read(const OnWait& on_wait);
  void Cancel();
  bool Answered();  // false when it was cancelled
  void TakeBack();

  const DaemonLink& link_;
  v1::AcquireRequest request_;
  grpc::ClientContext context_;
  Interrupt::Call call_;

  std::mutex mutex_;
  bool answered_ = false;
  bool cancelled_ = false;
};

// Of `request_id` when there is no `lease_id`. That it is not held any more is no error.
absl::Status ReleaseLease(const DaemonLink& link, std::int64_t lease_id,
                          const std::string& request_id);

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_LEASE_CALL_H_
