// All that our API answers on one connection.
//
// Threading: any thread.
#ifndef STAGELOAD_DAEMON_RPC_SERVICES_H_
#define STAGELOAD_DAEMON_RPC_SERVICES_H_

#include <grpcpp/generic/async_generic_service.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/rpc/open_streams.h"
#include "daemon/rpc/parts.h"
#include "daemon/rpc/peer.h"

namespace stageload::rpc {

// `parts` and `streams` outlive the connection.
std::unique_ptr<grpc::CallbackGenericService> MakeServices(const Parts& parts, const Peer& peer,
                                                           OpenStreams& streams);

// Their full names, "stageload.v1.JobService".
const std::vector<std::string>& ServiceNames();

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_SERVICES_H_
