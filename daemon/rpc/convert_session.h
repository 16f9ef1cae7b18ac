// Between AdmissionService's messages and what the engine knows of sessions, leases, reports and
// recordings. What comes in is checked here, field by field.
//
// Threading: pure functions.
#ifndef STAGELOAD_DAEMON_RPC_CONVERT_SESSION_H_
#define STAGELOAD_DAEMON_RPC_CONVERT_SESSION_H_

#include "absl/status/statusor.h"
#include "daemon/engine/session.h"
#include "stageload/v1/admission_service.pb.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::rpc {

// Errors are InvalidArgument with the field's path, the value and what would be right. A pid of 0
// is the caller's.
absl::StatusOr<engine::RegisterRequest> ToRegister(const v1::RegisterRequest& request,
                                                   const engine::Caller& caller,
                                                   const core::Defaults& defaults = {});
absl::StatusOr<engine::AcquireRequest> ToAcquire(const v1::AcquireRequest& request,
                                                 const engine::Caller& caller);
absl::StatusOr<engine::ReleaseRequest> ToRelease(const v1::ReleaseRequest& request,
                                                 const engine::Caller& caller);
absl::StatusOr<engine::ReportRequest> ToReport(const v1::ReportRequest& request,
                                               const engine::Caller& caller);
absl::StatusOr<engine::RecordRequest> ToRecord(const v1::WatchProcessRequest& request,
                                               const engine::Caller& caller);

// Not of ClientEnded, which is the end of the stream.
v1::RegisterResponse ToProto(const engine::SessionEvent& event);
v1::AcquireResponse ToProto(const engine::LeaseEvent& event);
v1::WatchProcessResponse ToProto(const engine::RecordingUpdate& update);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_CONVERT_SESSION_H_
