// In about the order in which they come in the life of a job, then those of the daemon.
#include "client/ctl/event_kinds.h"

namespace stageload::ctl {

const std::vector<std::string>& EventKinds() {
  static const std::vector<std::string>* const kinds = new std::vector<std::string>{
      "admitted",       "held",          "released",        "updated",       "warned",
      "suspended",      "resumed",       "stopping",        "killed",        "stuck",
      "would_stop",     "ended",         "requeued",        "registered",    "lease_waiting",
      "lease_granted",  "lease_denied",  "lease_released",  "queue_held",    "queue_released",
      "draining",       "gap",           "implausible",     "sample_failed", "shim_lost",
      "signal_refused", "start_delayed", "result_delayed",  "store_failed",  "store_works",
      "store_damaged",  "recovered",     "config_reloaded", "config_refused"};
  return *kinds;
}

}  // namespace stageload::ctl
