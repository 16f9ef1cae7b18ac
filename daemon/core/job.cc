#include "daemon/core/job.h"

#include <algorithm>
#include <cstddef>

namespace stageload::core {

const char* Name(JobState state) {
  switch (state) {
    case JobState::kPending:
      return "PENDING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kSuspended:
      return "SUSPENDED";
    case JobState::kStopping:
      return "STOPPING";
    case JobState::kCompleted:
      return "COMPLETED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
    case JobState::kTimeout:
      return "TIMEOUT";
    case JobState::kOutOfMemory:
      return "OUT_OF_MEMORY";
    case JobState::kNoRoom:
      return "NO_ROOM";
    case JobState::kNodeFail:
      return "NODE_FAIL";
    case JobState::kUnknown:
      return "UNKNOWN";
  }
  return "?";
}

const char* Name(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "";
    case Reason::kSwapBudget:
      return "SWAP_BUDGET";
    case Reason::kSwapLimit:
      return "SWAP_LIMIT";
    case Reason::kLowMemory:
      return "LOW_MEMORY";
    case Reason::kCancelled:
      return "CANCELLED";
    case Reason::kStartTimeout:
      return "START_TIMEOUT";
    case Reason::kStartFailed:
      return "START_FAILED";
    case Reason::kClientGone:
      return "CLIENT_GONE";
    case Reason::kLost:
      return "LOST";
    case Reason::kDependencyNever:
      return "DEPENDENCY_NEVER";
    case Reason::kTimeLimit:
      return "TIMEOUT";
    case Reason::kSuspendAsked:
      return "SUSPENDED";
  }
  return "?";
}

std::vector<std::string> WholeEnvironment(const JobSpec& spec) {
  std::vector<std::string> whole = spec.environment;
  for (const std::string& variable : spec.variables) {
    const std::string name = variable.substr(0, variable.find('=') + 1);
    const auto same = std::find_if(whole.begin(), whole.end(), [&name](const std::string& other) {
      return other.compare(0, name.size(), name) == 0;
    });
    if (same != whole.end()) {
      *same = variable;
    } else {
      whole.push_back(variable);
    }
  }
  return whole;
}

std::string DisplayCommand(const std::vector<std::string>& argv) {
  constexpr std::size_t kMost = 4096;
  std::string command;
  for (const std::string& word : argv) {
    if (!command.empty()) command += ' ';
    command += word;
    if (command.size() > kMost) break;
  }
  if (command.size() <= kMost) return command;
  // It is seen to be cut, and no character is.
  constexpr char kCut[] = "…";
  std::size_t end = kMost - (sizeof kCut - 1);
  while (end > 0 && (static_cast<unsigned char>(command[end]) & 0xc0) == 0x80) --end;
  command.resize(end);
  return command + kCut;
}

}  // namespace stageload::core
