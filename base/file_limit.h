// How many files a program of ours may have open: the soft limit of the shell is often low and may
// be raised to the hard one.
//
// Threading: before any other thread; the last two also after a fork.
#ifndef STAGELOAD_BASE_FILE_LIMIT_H_
#define STAGELOAD_BASE_FILE_LIMIT_H_

#include <sys/resource.h>

#include <string>

#include "absl/status/status.h"

namespace stageload {

// Raises the soft limit to `least`, in so far as the hard one allows that. ResourceExhausted, with
// what to do, when that is less; `program` is whose need it is.
absl::Status NeedFiles(const std::string& program, rlim_t least);

// The limit as this process was given it.
rlimit GivenFileLimit();
// Has it again, for a program that is executed in place of this one.
void RestoreFileLimit();

}  // namespace stageload

#endif  // STAGELOAD_BASE_FILE_LIMIT_H_
