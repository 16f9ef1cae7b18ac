// Following all jobs at once, a line for each change.
//
// Threading: blocks its thread.
#ifndef STAGELOAD_CLIENT_CTL_QUEUE_WATCH_H_
#define STAGELOAD_CLIENT_CTL_QUEUE_WATCH_H_

#include "client/ctl/connection.h"

namespace stageload::ctl {

// Until nobody reads stdout any more or the daemon goes away for good; returns the exit code.
int WatchQueue(const Connection& connection, bool json);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_QUEUE_WATCH_H_
