#include "client/lib/late_releases.h"

#include <grpcpp/client_context.h>

#include <system_error>
#include <utility>

#include "client/lib/quiet_thread.h"
#include "stageload/v1/admission_service.grpc.pb.h"

namespace stageload::client {

void LateReleases::Add(std::shared_ptr<grpc::Channel> channel, v1::ReleaseRequest request) {
  const std::lock_guard lock(mutex_);
  releases_.push_back({std::move(channel), std::move(request)});
  if (running_) return;
  if (thread_.joinable()) thread_.join();  // which has left Next() for the last time
  try {
    thread_ = QuietThread([this] { Run(); });
    running_ = true;
  } catch (const std::system_error&) {
    // There is no thread to be had: it goes with the next one, or with the registration.
  }
}

void LateReleases::Join() {
  if (thread_.joinable()) thread_.join();
}

void LateReleases::Run() {
  while (const std::optional<Release> release = Next()) {
    grpc::ClientContext context;
    const Interrupt::Call call(interrupt_, context);
    v1::ReleaseResponse response;
    // Ends with its answer, or with the daemon.
    (void)v1::AdmissionService::NewStub(release->channel)
        ->Release(&context, release->request, &response);
  }
}

std::optional<LateReleases::Release> LateReleases::Next() {
  const std::lock_guard lock(mutex_);
  running_ = !releases_.empty() && !interrupt_.raised();
  if (!running_) return std::nullopt;
  Release next = std::move(releases_.front());
  releases_.pop_front();
  return next;
}

}  // namespace stageload::client
