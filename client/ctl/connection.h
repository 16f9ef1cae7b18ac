// The library's way to the daemon (client/lib/connection.h), by its names here.
//
// Threading: as there.
#ifndef STAGELOAD_CLIENT_CTL_CONNECTION_H_
#define STAGELOAD_CLIENT_CTL_CONNECTION_H_

#include "client/ctl/unique_fd.h"
#include "client/lib/connection.h"

namespace stageload::ctl {

using client::Connect;
using client::Connection;
using client::ConnectOptions;
using client::DaemonIsGone;
using client::Dial;
using client::kCallTimeout;
using client::kReconnectWithin;
using client::PathsFor;
using client::Reconnect;
using client::SetTimeout;
using client::WentAway;

// One line on stderr when this program and the daemon are not of one age.
void TellSkew(const v1::GetVersionResponse& daemon);
// One on stderr that the daemon is waited for.
void TellSilence(absl::Duration within);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_CONNECTION_H_
