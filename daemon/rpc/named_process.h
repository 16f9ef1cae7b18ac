// Whether a caller may name a process, to have it watched or signalled.
//
// Threading: any thread.
#ifndef STAGELOAD_DAEMON_RPC_NAMED_PROCESS_H_
#define STAGELOAD_DAEMON_RPC_NAMED_PROCESS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "daemon/rpc/parts.h"
#include "daemon/rpc/peer.h"

namespace stageload::rpc {

// PermissionDenied unless the process belongs to the peer's user or descends from the peer;
// InvalidArgument when there is none, and for this daemon and the first process of the machine,
// whose trees nobody may have. `purpose` is for people: "guard".
absl::Status CheckMayName(const Parts& parts, const Peer& peer, std::int32_t pid,
                          const std::string& purpose);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_NAMED_PROCESS_H_
