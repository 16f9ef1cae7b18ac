// The search for the next daemon, by an object that outlives the one it was connected to.
//
// Threading: blocks its thread.
#ifndef STAGELOAD_CLIENT_LIB_DAEMON_SEARCH_H_
#define STAGELOAD_CLIENT_LIB_DAEMON_SEARCH_H_

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/lib/connection.h"
#include "client/lib/interrupt.h"

namespace stageload::client {

struct DaemonSearch {
  ConnectOptions connect;  // one is started only soon after the loss, and a few times at most
  // Called once when none has answered for kReconnectWithin, or at once when `patience` is none.
  std::function<void(const absl::Status&)> on_absent;
  absl::Duration patience = kReconnectWithin;
};

// How often one is looked for that has not come for long.
inline constexpr absl::Duration kIdleSearchPause = absl::Seconds(1);

// Blocks until a daemon answers; nothing once `interrupt` was raised.
std::optional<Connection> AwaitDaemon(DaemonSearch search, Interrupt& interrupt);

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_DAEMON_SEARCH_H_
