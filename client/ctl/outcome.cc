// Exit codes and words for how a job ended.
#include "client/ctl/outcome.h"

#include <sys/wait.h>

#include "absl/strings/str_cat.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/json.h"

namespace stageload::ctl {

bool IsEnd(v1::JobState state) { return state >= v1::JOB_STATE_COMPLETED; }

std::vector<v1::JobState> JobStates() {
  std::vector<v1::JobState> states;
  for (int state = v1::JOB_STATE_PENDING; state <= v1::JOB_STATE_UNKNOWN; ++state) {
    states.push_back(static_cast<v1::JobState>(state));
  }
  return states;
}

int ExitCodeOf(const v1::Job& job) {
  switch (job.state()) {
    case v1::JOB_STATE_COMPLETED:
      return kExitOk;
    case v1::JOB_STATE_FAILED:
      if (job.has_signal()) return ExitOfSignal(job.signal());
      return job.has_exit_code() && job.exit_code() != 0 ? job.exit_code() : kExitOther;
    case v1::JOB_STATE_OUT_OF_MEMORY:
      return kExitOutOfMemory;
    case v1::JOB_STATE_NO_ROOM:
      return kExitNoRoom;
    default:
      return kExitOther;
  }
}

bool EndedBy(int wait_status) { return WIFEXITED(wait_status) || WIFSIGNALED(wait_status); }

int ExitCodeOfWait(int wait_status) {
  if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  if (WIFSIGNALED(wait_status)) return ExitOfSignal(WTERMSIG(wait_status));
  return kExitOther;
}

std::string ReasonLine(const v1::Job& job) {
  if (job.reason() != v1::REASON_UNSPECIFIED) {
    const std::string word = Word(job.reason());
    return job.reason_text().empty() ? word : absl::StrCat(word, ": ", job.reason_text());
  }
  if (!job.reason_text().empty()) return std::string(job.reason_text());
  if (job.has_signal()) return absl::StrCat("signal ", job.signal());
  if (job.has_exit_code() && job.exit_code() != 0) return absl::StrCat("exit ", job.exit_code());
  return "";
}

std::string EndLine(const v1::Job& job) {
  const std::string id = absl::StrCat("job ", job.id());
  const std::string reason = ReasonLine(job);
  switch (job.state()) {
    case v1::JOB_STATE_COMPLETED:
      return "";
    case v1::JOB_STATE_FAILED:
      return job.reason() == v1::REASON_UNSPECIFIED ? "" : absl::StrCat(id, " failed: ", reason);
    case v1::JOB_STATE_TIMEOUT:
    case v1::JOB_STATE_OUT_OF_MEMORY:
      return absl::StrCat(id, " stopped: ", reason);
    case v1::JOB_STATE_NO_ROOM:
      return absl::StrCat(
          id, ": ", job.reason_text().empty() ? "no room in time" : std::string(job.reason_text()));
    case v1::JOB_STATE_CANCELLED:
      return absl::StrCat(
          id, " cancelled: ", job.reason_text().empty() ? reason : std::string(job.reason_text()));
    default:
      return absl::StrCat(id, " ended as ", Word(job.state()), reason.empty() ? "" : ": ", reason);
  }
}

std::string BlockerLine(const v1::Blocker& blocker) {
  return absl::StrCat(Word(blocker.kind()), ": ", blocker.text());
}

}  // namespace stageload::ctl
