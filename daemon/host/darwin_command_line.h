// What KERN_PROCARGS2 gives of a process.
//
// Threading: a pure function of the bytes.
#ifndef STAGELOAD_DAEMON_HOST_DARWIN_COMMAND_LINE_H_
#define STAGELOAD_DAEMON_HOST_DARWIN_COMMAND_LINE_H_

#include <string>
#include <string_view>

namespace stageload::host {

// The arguments, joined by one space: argc (int), the path that was executed, zeros, argv, and the
// environment, which is left out (xnu bsd/kern/kern_sysctl.c, sysctl_procargsx). All but argc is
// memory of the process, which may have written anything there. Empty when there are no arguments.
std::string ArgumentsOf(std::string_view procargs2);

}  // namespace stageload::host

#endif  // STAGELOAD_DAEMON_HOST_DARWIN_COMMAND_LINE_H_
