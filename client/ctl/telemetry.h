// Frames, for status and watch.
//
// Threading: calls block their thread.
#ifndef STAGELOAD_CLIENT_CTL_TELEMETRY_H_
#define STAGELOAD_CLIENT_CTL_TELEMETRY_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/ctl/connection.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::ctl {

// The newest frame; the first one of a daemon that has just started.
absl::StatusOr<v1::Frame> NewestFrame(const Connection& connection);

// "level 63 %, 30.2 GiB of 48 GiB available, swap 1.5 GiB, pressure NORMAL"; what could not be read
// is left out.
std::string HostLine(const v1::HostSample& host);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TELEMETRY_H_
