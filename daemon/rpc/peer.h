// Who is at the other end of a connection, by the kernel's word.
//
// Threading: a pure call into the kernel.
#ifndef STAGELOAD_DAEMON_RPC_PEER_H_
#define STAGELOAD_DAEMON_RPC_PEER_H_

#include <sys/types.h>

#include "absl/status/statusor.h"

namespace stageload::rpc {

struct Peer {
  uid_t uid = 0;  // when it connected
  pid_t pid = 0;  // when it connected (Linux); the last user of its socket (macOS)
};

// Linux SO_PEERCRED (unix(7)); macOS LOCAL_PEERCRED and LOCAL_PEERPID (xnu bsd/sys/un.h).
absl::StatusOr<Peer> PeerOf(int connection);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_PEER_H_
