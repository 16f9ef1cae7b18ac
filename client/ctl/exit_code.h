// What stageloadctl exits with, so that a script can tell a budget from a broken command.
//
// Beside these: the command's own code, and 128+n when signal n ended it.
#ifndef STAGELOAD_CLIENT_CTL_EXIT_CODE_H_
#define STAGELOAD_CLIENT_CTL_EXIT_CODE_H_

namespace stageload::ctl {

inline constexpr int kExitOk = 0;
// Everything without a code of its own: a failed call, and a job that was CANCELLED, ran into
// TIMEOUT, NODE_FAIL or UNKNOWN. Never 0 for a job that is not known to have completed.
inline constexpr int kExitOther = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitOutOfMemory = 3;  // stopped by a budget or low memory
inline constexpr int kExitNoRoom = 4;       // no room before the start timeout
inline constexpr int kExitNoDaemon = 69;    // sysexits.h EX_UNAVAILABLE
inline constexpr int kExitCannotStart = 127;  // also what is there and no program, as in 0.1
constexpr int ExitOfSignal(int signal) { return 128 + signal; }

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_EXIT_CODE_H_
