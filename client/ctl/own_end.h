// How this process ends where a signal is the reason.
//
// A shell that runs a script goes on with the next command after one that has exited, whatever its
// code, and ends with one that died of SIGINT, if it got SIGINT itself. So for Ctrl-C no exit code
// does; who looks at the code sees 130 either way.
//
// Threading: any thread.
#ifndef STAGELOAD_CLIENT_CTL_OWN_END_H_
#define STAGELOAD_CLIENT_CTL_OWN_END_H_

namespace stageload::ctl {

// Beside the codes of exit_code.h: EndWith has this process die of SIGINT, or our whole process group,
// which was not told: the terminal was a command's that has a group of its own.
inline constexpr int kDieOfInterrupt = 256;
inline constexpr int kDieOfInterruptWithGroup = 257;

// For a signal that asked this process to end.
int ExitOfOwnSignal(int signal);

// Ends this process with the code, or as one of the two above says.
[[noreturn]] void EndWith(int code);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_OWN_END_H_
