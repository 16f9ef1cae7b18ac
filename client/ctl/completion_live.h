// The values that only the daemon knows, for completions.
//
// Threading: one thread; ends the process when its time is over.
#ifndef STAGELOAD_CLIENT_CTL_COMPLETION_LIVE_H_
#define STAGELOAD_CLIENT_CTL_COMPLETION_LIVE_H_

#include "client/ctl/completion.h"
#include "client/ctl/connection.h"

namespace stageload::ctl {

// Nobody waits at a Tab for longer.
inline constexpr absl::Duration kCompleteWithin = absl::Milliseconds(300);

// From now on this process has so long; then it exits with 0, whatever it does.
void ExitIn(absl::Duration time);

// Asked of a daemon that runs; none is started, and what goes wrong is no value.
LiveValues ValuesOfDaemon(ConnectOptions connect);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_COMPLETION_LIVE_H_
