#include "client/lib/lease_call.h"

#include <system_error>
#include <utility>

#include "base/error_reason.h"
#include "client/lib/connection.h"
#include "client/lib/status.h"
#include "stageload/v1/admission_service.grpc.pb.h"

namespace stageload::client {
namespace {

v1::ReleaseRequest ToRelease(const DaemonLink& link, std::int64_t lease_id,
                             const std::string& request_id) {
  v1::ReleaseRequest request;
  request.set_client_id(link.client_id);
  request.set_lease_id(lease_id);
  if (lease_id == 0) request.set_request_id(request_id);
  return request;
}

}  // namespace

LeaseCall::LeaseCall(const DaemonLink& link, v1::AcquireRequest request, Interrupt& interrupt,
                     LateReleases& late_releases, absl::Duration late)
    : link_(link),
      late_releases_(late_releases),
      late_(late),
      request_(std::move(request)),
      call_(interrupt, context_) {
  request_.set_client_id(link_.client_id);
  if (request_.has_start_timeout_ns()) {
    SetTimeout(context_, absl::Nanoseconds(request_.start_timeout_ns()) + late_);
  }
}

absl::StatusOr<v1::Granted> LeaseCall::Run(const OnWait& on_wait, std::stop_token stop) {
  try {
    absl::StatusOr<v1::Granted> granted = [&] {
      const std::stop_callback cancels(std::move(stop), [this] { Cancel(); });
      return Read(on_wait);
    }();
    if (!Answered()) {
      granted = WithReason(absl::CancelledError("the request for a lease was cancelled"),
                           kLeaseCancelled);
    }
    // It may have been granted all the same, as the call was given up.
    if (absl::IsDeadlineExceeded(granted.status())) TakeBack(false);
    if (absl::IsCancelled(granted.status())) TakeBack(heard_);
    return granted;
  } catch (...) {
    TakeBack(true);
    throw;
  }
}

absl::StatusOr<v1::Granted> LeaseCall::Read(const OnWait& on_wait) {
  const auto stub = v1::AdmissionService::NewStub(link_.channel);
  const auto reader = stub->Acquire(&context_, request_);
  std::optional<v1::Granted> granted;
  v1::AcquireResponse response;
  try {
    while (reader->Read(&response)) {
      heard_ = true;
      const bool wanted = Answered();
      if (response.has_granted()) granted = response.granted();
      if (response.has_waiting() && wanted && on_wait) on_wait(response.waiting());
    }
  } catch (...) {
    context_.TryCancel();
    while (reader->Read(&response)) {
    }
    (void)reader->Finish();
    throw;
  }
  const absl::Status status = FromGrpc(reader->Finish());
  // Once it is granted, how the stream ends does not matter.
  if (granted) return *granted;
  if (!status.ok()) return status;
  return absl::InternalError("the daemon ended a request for a lease without an answer");
}

// A call that is cancelled before the daemon has heard of it could come to it after the Release
// that is to take it back. So its first answer is waited for, which comes at once; when it does
// not, both come to the daemon over one connection, in this order, and it takes no grant for told
// whose stream is cancelled.
void LeaseCall::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (answered_) return context_.TryCancel();
  try {
    patience_.emplace(context_, late_);
  } catch (const std::system_error&) {  // there is no thread to be had
    context_.TryCancel();
  }
}

bool LeaseCall::Answered() {
  const std::lock_guard lock(mutex_);
  answered_ = true;
  if (patience_) patience_->Answered();
  if (cancelled_) context_.TryCancel();
  return !cancelled_;
}

void LeaseCall::TakeBack(bool answers) {
  const std::string request_id(request_.request_id());
  if (answers) return ReleaseLease(link_, 0, request_id, late_releases_);
  late_releases_.Add(link_.channel, ToRelease(link_, 0, request_id));
}

void ReleaseLease(const DaemonLink& link, std::int64_t lease_id, const std::string& request_id,
                  LateReleases& late_releases) {
  grpc::ClientContext context;
  SetTimeout(context, kLateWithin);
  const v1::ReleaseRequest request = ToRelease(link, lease_id, request_id);
  v1::ReleaseResponse response;
  // Else it is told, or it was not held any more, or the daemon has gone.
  const grpc::Status status =
      v1::AdmissionService::NewStub(link.channel)->Release(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    late_releases.Add(link.channel, request);
  }
}

}  // namespace stageload::client
