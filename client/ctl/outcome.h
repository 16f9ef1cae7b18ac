// What became of a job: the exit code that a script sees and the line that a person reads.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_OUTCOME_H_
#define STAGELOAD_CLIENT_CTL_OUTCOME_H_

#include <string>
#include <vector>

#include "stageload/v1/job.pb.h"

namespace stageload::ctl {

bool IsEnd(v1::JobState state);
std::vector<v1::JobState> JobStates();  // all of them, PENDING first

// The exit code for a job that has ended; see exit_code.h. Never 0 unless it is COMPLETED.
int ExitCodeOf(const v1::Job& job);
// From the status of waitpid: whether that is an end, and the exit code for it.
bool EndedBy(int wait_status);
int ExitCodeOfWait(int wait_status);

// "SWAP_BUDGET: charge 8.2 GiB over its budget of 8 GiB"; the exit code or signal where the job has
// no reason; empty when there is nothing to tell.
std::string ReasonLine(const v1::Job& job);

// How it ended, where that is more than its exit code: "job 7 stopped: SWAP_BUDGET: ...". Empty for
// one that completed or failed by itself.
std::string EndLine(const v1::Job& job);

// "MEMORY: needs 13.3 GiB, 9.1 GiB free after 16.3 GiB reserved by job 7".
std::string BlockerLine(const v1::Blocker& blocker);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_OUTCOME_H_
