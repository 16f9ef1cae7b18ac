// Frames and events from the daemon, for the commands that show them once.
//
// Threading: calls block their thread.
#ifndef STAGELOAD_CLIENT_CTL_TELEMETRY_H_
#define STAGELOAD_CLIENT_CTL_TELEMETRY_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/connection.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::ctl {

// The newest frame; the first one of a daemon that has just started.
absl::StatusOr<v1::Frame> NewestFrame(const Connection& connection);

// The newest frame for a command that has more to say than frames do, and says that also without
// one: empty when there is none yet, or the daemon has no frames for us.
v1::Frame FrameIfAny(const Connection& connection);

struct EventPage {
  std::vector<v1::Event> events;  // oldest first
  bool more = false;              // older ones were left out
};
// The newest `count` events of those that `request` asks for; its page is set here.
absl::StatusOr<EventPage> NewestEvents(const Connection& connection, v1::ListHistoryRequest request,
                                       std::size_t count);
// The same of all events, for a screen that has other things to show as well: of a daemon that is
// too old to keep any for us there are none.
absl::StatusOr<std::vector<v1::Event>> NewestEventsIfKept(const Connection& connection,
                                                          std::size_t count);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TELEMETRY_H_
