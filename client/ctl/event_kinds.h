// What the events of `history` are called (docs/telemetry.md).
//
// Threading: a constant.
#ifndef STAGELOAD_CLIENT_CTL_EVENT_KINDS_H_
#define STAGELOAD_CLIENT_CTL_EVENT_KINDS_H_

#include <string>
#include <vector>

namespace stageload::ctl {

// Those that this program knows; a newer daemon may have more.
const std::vector<std::string>& EventKinds();

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_EVENT_KINDS_H_
