// Words for what is in a frame, so that status, watch, history and top say the same. What comes
// from elsewhere is in them as it came: print it with Printable.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_TELEMETRY_TEXT_H_
#define STAGELOAD_CLIENT_CTL_TELEMETRY_TEXT_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/ctl/print.h"
#include "stageload/v1/admin_service.pb.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::ctl {

// "stageloadd 0.2.0, pid 4711, up 2h05m".
std::string DaemonText(const v1::GetVersionResponse& daemon, absl::Time now);

// "level 63 %, 30.2 GiB of 48 GiB available, swap 1.5 GiB, pressure NORMAL"; what could not be read
// is left out.
std::string HostLine(const v1::HostSample& host);

// "mps_driver_bytes 11.2 GiB"; the unit is in the name.
std::string GaugeText(const v1::Gauge& gauge);
// "transformer 8 GiB", "vae 2 GiB (forced)".
std::string LeaseText(const v1::LeaseSample& lease);
// "lease transformer 8 GiB, lease vae 2 GiB, mps_driver_bytes 11.2 GiB".
std::string LeasesAndGauges(const v1::ClientSample& client);
// "start, 12 GiB" or "lease vae, 2 GiB".
std::string WantsText(const v1::WaitingRequest& request);
// "MEMORY: needs 13.3 GiB, 9.1 GiB free"; "-" when nothing is known to block it.
std::vector<std::string> BlockerTexts(const v1::WaitingRequest& request);
bool IsHeld(const v1::WaitingRequest& request);

// Its text; of a mark that has none, what the mark says.
std::string EventText(const v1::Event& event);
Colour ColourOf(const v1::Event& event);
// In the order that is given. With `dates` the day stands before the time.
Table EventTable(const std::vector<v1::Event>& events, absl::TimeZone zone, bool dates);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TELEMETRY_TEXT_H_
