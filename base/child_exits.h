// Whether this program hears how its children end. A parent that ignores SIGCHLD, so as to have no
// zombies, hands that on over exec, and then the kernel keeps no status of a child and may give its
// pid away while it is still waited for (POSIX, waitpid).
#ifndef STAGELOAD_BASE_CHILD_EXITS_H_
#define STAGELOAD_BASE_CHILD_EXITS_H_

#include <csignal>

namespace stageload {

// From here on it does, whoever has started it. Threading: before any other thread.
inline void HearOfChildren() { std::signal(SIGCHLD, SIG_DFL); }

}  // namespace stageload

#endif  // STAGELOAD_BASE_CHILD_EXITS_H_
