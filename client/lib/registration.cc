#include "client/lib/registration.h"

#include <utility>

#include "client/lib/patience.h"
#include "client/lib/status.h"

namespace stageload::client {

Registration::Registration(const Connection& connection, const v1::RegisterRequest& request,
                           Interrupt& interrupt)
    : call_(interrupt, context_) {
  link_.channel = connection.channel;
  reader_ = v1::AdmissionService::NewStub(link_.channel)->Register(&context_, request);
}

absl::StatusOr<std::unique_ptr<Registration>> Registration::Begin(
    const Connection& connection, const v1::RegisterRequest& request, std::int64_t daemon,
    Interrupt& interrupt) {
  std::unique_ptr<Registration> registration(new Registration(connection, request, interrupt));
  v1::RegisterResponse first;
  const absl::StatusOr<bool> answered = registration->ReadFirst(first);
  if (!answered.ok()) return answered.status();
  if (!*answered) {
    absl::Status status = registration->Finish();
    if (!status.ok()) return status;
    return absl::InternalError("the daemon ended a registration before it began");
  }
  if (!first.has_registered()) {
    return absl::InternalError("the daemon's first word on a registration is not the client's id");
  }
  registration->link_.client_id = first.registered().client_id();
  registration->link_.joined = first.registered().joined();
  registration->link_.daemon = daemon;
  return registration;
}

absl::StatusOr<bool> Registration::ReadFirst(v1::RegisterResponse& first) {
  Patience patience(context_, kAnswerWithin);
  const bool answered = Read(first);
  if (patience.ran_out()) return NotAnswered(kAnswerWithin);
  return answered;
}

Registration::~Registration() {
  if (finished_) return;
  context_.TryCancel();
  (void)Finish();
}

absl::Status Registration::Finish() {
  finished_ = true;
  // What was told and not read is in the way of the status.
  v1::RegisterResponse unread;
  while (reader_->Read(&unread)) {
  }
  return FromGrpc(reader_->Finish());
}

}  // namespace stageload::client
