#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "daemon/store/store.h"

namespace stageload::store {

bool Matches(const ListQuery& query, const core::JobRecord& record) {
  const std::vector<core::JobState>& states = query.states;
  if (!states.empty() && std::find(states.begin(), states.end(), record.state) == states.end()) {
    return false;
  }
  if (!query.group.empty() && record.group != query.group) return false;
  if (query.submitted_since && record.submit_time < *query.submitted_since) return false;
  return absl::StrContains(absl::AsciiStrToLower(record.name),
                           absl::AsciiStrToLower(query.name_contains));
}

std::vector<core::JobState> EndStates(const std::vector<core::JobState>& states) {
  static constexpr core::JobState kEnds[] = {
      core::JobState::kCompleted, core::JobState::kFailed,      core::JobState::kCancelled,
      core::JobState::kTimeout,   core::JobState::kOutOfMemory, core::JobState::kNoRoom,
      core::JobState::kNodeFail,  core::JobState::kUnknown};
  std::vector<core::JobState> ends;
  for (const core::JobState state : kEnds) {
    if (states.empty() || std::find(states.begin(), states.end(), state) != states.end()) {
      ends.push_back(state);
    }
  }
  return ends;
}

}  // namespace stageload::store
