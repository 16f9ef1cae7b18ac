// What a policy would have done over a recorded run: the daemon's own rules (core::Scheduler) are
// shown the recording sample by sample, as if its process were the only guarded command and could
// not be stopped.
//
// Threading: a pure function.
#ifndef STAGELOAD_CLIENT_CTL_REPLAY_H_
#define STAGELOAD_CLIENT_CTL_REPLAY_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/trace.h"
#include "base/units.h"
#include "daemon/core/policy.h"

namespace stageload::ctl {

struct Decision {
  enum class Action { kAdmit, kWarn, kSuspend, kStop };

  double t = 0;  // of the sample with which it was decided, and so are the figures
  Action action = Action::kAdmit;
  std::string reason;  // "SWAP_BUDGET"; empty for an admission
  std::optional<Percent> level;
  std::optional<Bytes> swap_used;
  Bytes charge;  // in the ledger of the rules
};
const char* Name(Decision::Action action);  // "admit"

struct Replay {
  std::vector<Decision> decisions;  // nothing after a stop
  // How far the machine's swap went past the budget over what it was at the admission: at the stop
  // or after it, or ever where there was none.
  Bytes overshoot;
  std::vector<std::string> notes;  // one line each: why it had to wait
};

// InvalidArgument when the rules refuse the policy itself, with their words.
absl::StatusOr<Replay> ReplayTrace(const Trace& trace, const core::Policy& policy);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_REPLAY_H_
