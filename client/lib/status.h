// From a failed call to a status that says what a program can switch on.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_LIB_STATUS_H_
#define STAGELOAD_CLIENT_LIB_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace stageload::client {

// The call's status with the daemon's ErrorInfo.reason and field attached (base/error_reason.h).
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_STATUS_H_
