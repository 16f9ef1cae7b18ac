// The values that only the daemon knows, for completions.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_COMPLETION_LIVE_H_
#define STAGELOAD_CLIENT_CTL_COMPLETION_LIVE_H_

#include "client/ctl/completion.h"
#include "client/ctl/connection.h"

namespace stageload::ctl {

// Nobody waits at a Tab for longer.
inline constexpr absl::Duration kCompleteWithin = absl::Milliseconds(300);

// Asked of a daemon that runs; none is started, and what goes wrong is no value. The process exits
// with 0 when it has asked for so long.
LiveValues ValuesOfDaemon(ConnectOptions connect);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_COMPLETION_LIVE_H_
