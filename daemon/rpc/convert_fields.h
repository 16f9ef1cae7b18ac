// What the conversions of several services share: checks of single fields, and parts of messages.
//
// Threading: pure functions.
#ifndef STAGELOAD_DAEMON_RPC_CONVERT_FIELDS_H_
#define STAGELOAD_DAEMON_RPC_CONVERT_FIELDS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/core/blocker.h"
#include "daemon/core/job.h"
#include "daemon/core/policy.h"
#include "daemon/core/sample.h"
#include "stageload/v1/job.pb.h"
#include "stageload/v1/policy.pb.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::rpc {

// InvalidArgument: "<field>: <text>".
absl::Status Invalid(const char* field, const std::string& text);
// A word that people read: at most 256 bytes, no control characters.
absl::Status CheckWord(const char* field, const std::string& word);

std::int64_t Nanoseconds(absl::Time time);  // since 1970-01-01 UTC
v1::Pressure ToProto(core::Pressure pressure);
v1::BlockerKind ToProto(core::BlockerKind kind);
v1::Reason ToProto(core::Reason reason);
v1::JobState ToProto(core::JobState state);
v1::JobKind ToProto(core::JobKind kind);
void FillBlocker(const core::Blocker& blocker, v1::Blocker& out);
void FillPolicy(const core::Policy& policy, v1::Policy& out);
void FillHost(const core::HostSample& host, v1::HostSample& out);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_CONVERT_FIELDS_H_
