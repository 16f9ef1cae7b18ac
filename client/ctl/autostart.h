// The library's start of a daemon, by its name here.
//
// Threading: as there.
#ifndef STAGELOAD_CLIENT_CTL_AUTOSTART_H_
#define STAGELOAD_CLIENT_CTL_AUTOSTART_H_

#include "client/ctl/unique_fd.h"
#include "client/lib/autostart.h"

namespace stageload::ctl {

using client::FindDaemon;
using client::StartDaemon;

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_AUTOSTART_H_
