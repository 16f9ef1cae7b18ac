// From the API's messages to the plain structs of the public headers.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_LIB_CONVERT_H_
#define STAGELOAD_CLIENT_LIB_CONVERT_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <string>
#include <vector>

#include "stageload/session.h"
#include "stageload/telemetry.h"
#include "stageload/v1/admission_service.pb.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::client {

HostSample FromProto(const v1::HostSample& host);
Frame FromProto(const v1::WatchTelemetryResponse& response);
std::vector<Blocker> FromProto(const google::protobuf::RepeatedPtrField<v1::Blocker>& blockers);
Waiting FromProto(const v1::Waiting& waiting);
StopRequest FromProto(const v1::StopRequested& stop);
BudgetWarning FromProto(const v1::Warned& warned);
Suspension FromProto(const v1::Suspended& suspended);
// PRESSURE_UNSPECIFIED and words that are not known yet are normal.
Pressure FromProto(v1::Pressure pressure);

v1::RegisterRequest ToProto(const SessionOptions& options);

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_CONVERT_H_
