// How an absl::Status goes over the wire: the same code and message, and beside them ErrorInfo with
// the word that programs switch on.
//
// Threading: pure functions.
#ifndef STAGELOAD_DAEMON_RPC_STATUS_H_
#define STAGELOAD_DAEMON_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace stageload::rpc {

// UNAVAILABLE also carries a RetryInfo of one second. The message is cut so that all of it stays
// under the 7 KB that gRPC passes on unharmed.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_STATUS_H_
