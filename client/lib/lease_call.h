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
#include "client/lib/connection.h"
#include "client/lib/interrupt.h"
#include "client/lib/late_releases.h"
#include "client/lib/patience.h"
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

  // `late`: by how much the daemon may be late, with its first answer or with saying that there was
  // no room in time.
  LeaseCall(const DaemonLink& link, v1::AcquireRequest request, Interrupt& interrupt,
            LateReleases& late_releases, absl::Duration late = kLateWithin);
  LeaseCall(const LeaseCall&) = delete;
  LeaseCall& operator=(const LeaseCall&) = delete;

  // Blocks until it is granted or refused, or `stop` was used (kLeaseCancelled). DeadlineExceeded
  // when the daemon does not answer. When it is not granted, no lease is left with the daemon; one
  // that does not answer takes it back as soon as it does. What on_wait throws comes out, likewise.
  absl::StatusOr<v1::Granted> Run(const OnWait& on_wait, std::stop_token stop);

 private:
  absl::StatusOr<v1::Granted> Read(const OnWait& on_wait);
  void Cancel();
  bool Answered();  // false when it was cancelled
  void TakeBack(bool answers);

  const DaemonLink link_;
  LateReleases& late_releases_;
  const absl::Duration late_;
  v1::AcquireRequest request_;
  grpc::ClientContext context_;
  Interrupt::Call call_;

  bool heard_ = false;  // anything, by the thread that reads

  std::mutex mutex_;
  bool answered_ = false;
  bool cancelled_ = false;
  std::optional<Patience> patience_;  // with a daemon that has not answered when it was cancelled
};

// Of `request_id` when there is no `lease_id`. A daemon that does not answer for kLateWithin is
// left to `late_releases`.
void ReleaseLease(const DaemonLink& link, std::int64_t lease_id, const std::string& request_id,
                  LateReleases& late_releases);

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_LEASE_CALL_H_
