// Where stageload-shim is: beside stageloadd, which an upgrade may take away while it runs.
//
// Threading: pure functions of the file system.
#ifndef STAGELOAD_DAEMON_JOBS_SHIM_PATH_H_
#define STAGELOAD_DAEMON_JOBS_SHIM_PATH_H_

#include <string>
#include <vector>

namespace stageload::jobs {

// The paths that lead to stageloadd now, `program` first: it is the file itself, while those that
// are links may lead to the next version's later. `started_as` is argv[0], `path` is $PATH.
std::vector<std::string> PathsOf(const std::string& program, const std::string& started_as,
                                 const std::string& path);

// The first stageload-shim that can be run beside one of them, or beside what it links to; empty
// when there is none.
std::string ShimBeside(const std::vector<std::string>& programs);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_SHIM_PATH_H_
