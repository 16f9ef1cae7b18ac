// Finding the processes that belong to a test, whoever their parent is by now.
//
// Threading: pure functions of the process table.
#ifndef STAGELOAD_TESTS_E2E_PROCESSES_H_
#define STAGELOAD_TESTS_E2E_PROCESSES_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace stageload::e2e {

struct FoundProcess {
  pid_t pid = 0;
  std::string command;  // arguments joined by spaces
};

// Living processes that have `folder` in their environment, in their arguments or as their working
// folder: everything that a test started with its own folder, daemons and jobs included. Ascending
// by pid; this process itself is left out. Linux.
std::vector<FoundProcess> ProcessesOf(const std::string& folder);

// SIGKILLs all of them until none is left. False, after a minute, when one does not go.
bool KillProcessesOf(const std::string& folder);

}  // namespace stageload::e2e

#endif  // STAGELOAD_TESTS_E2E_PROCESSES_H_
